//! What Kubernetes sends through a WebSocket: numbered channels, a SPDY connection, or one stream alone.
//!
//! [`handshake`] says what a request asks for and how it is answered, without IO. [`channels`], [`tunnel`] and [`messages`]
//! speak on the connection after that. The framing is `tungstenite`'s.

pub mod channels;
pub mod handshake;
pub mod messages;
pub mod tunnel;

#[cfg(test)]
mod tests;

use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// A longer message ends the connection; the bound of upstream's server.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// What may wait to be written below us; more is an error, and we never have more than one message there.
const WRITE_BYTES_MAX: usize = 1 << 20;

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BYTES_MAX)
}
