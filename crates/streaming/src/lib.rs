//! Many streams over one upgraded connection, as kubelets and their clients speak them.
//!
//! [`spdy`] is SPDY/3.1 as far as Kubernetes uses it: the client opens streams, both sides send. [`websocket`] has the
//! other two ways: channels, whose number is the first byte of every message, and SPDY in the messages of a WebSocket.
//! [`queue`] is what both put between the connection and whoever reads a stream.
//!
//! What holds: whatever a peer sends, memory has a bound. A stream holds [`queue::QUEUE_BYTES_MAX`] that nobody has read;
//! beyond that its connection is not read any further. Writers wait for the peer to take what was written.
//!
//! What it does not do: it knows no containers and no HTTP. Who upgraded the connection hands over the bytes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod queue;
pub mod spdy;
pub mod websocket;

/// The peer is gone, or does not want the stream any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct Closed;
