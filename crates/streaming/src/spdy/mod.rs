//! SPDY/3.1, the server's side of it, as Kubernetes' clients speak it after an upgrade.
//!
//! No crate does it any more: browsers left it for HTTP/2 ten years ago, and only `kubectl` and its kin still talk like
//! that. What there is of it here is what they use: streams that the client opens, data in both directions, resets, pings
//! and the end. Push, priorities and settings are read and not followed.
//!
//! Flow control: the client is told of every window that we have room for. Its own windows are not kept to, because the
//! library behind those clients never announces any: whoever waited for one would send 64 kB and no more. What holds us
//! back is the connection, which such a client stops reading.

mod connection;
mod dictionary;
pub mod frame;
pub mod headers;
mod output;
mod streams;

#[cfg(test)]
mod tests;

pub use connection::{Connection, STREAMS_MAX};
pub use headers::Headers;
pub use streams::{Sink, Stream, StreamSource};

/// The header by which clients say what they want to speak inside of it, and servers what they chose.
pub const PROTOCOL_VERSION: &str = "x-stream-protocol-version";
/// What the header `Upgrade` says.
pub const UPGRADE: &str = "SPDY/3.1";
