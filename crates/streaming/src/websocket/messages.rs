//! One stream to the client, each piece a message: how logs are read over a WebSocket.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::channels::Codec;

/// The protocols that there are for it; the one without a name is the binary one.
pub const PROTOCOLS: &[&str] = &["", "binary.k8s.io", "base64.binary.k8s.io"];

/// How long a client may take to answer the end.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends all pieces, an empty message first: by it clients see that the connection stands. What the client sends is
/// dropped, and when it goes nothing more is sent.
pub async fn send_all<IO>(io: IO, codec: Codec, mut pieces: mpsc::Receiver<Bytes>)
where
    IO: AsyncRead + AsyncWrite + Send + Unpin,
{
    let (mut writer, mut reader) =
        WebSocketStream::from_raw_socket(io, Role::Server, Some(super::config())).await.split();
    let sending = async {
        let mut piece = Bytes::new();
        loop {
            let message = match codec {
                Codec::Binary => Message::Binary(piece),
                Codec::Base64 => Message::Text(STANDARD.encode(&piece).into()),
            };
            writer.send(message).await?;
            match pieces.recv().await {
                Some(next) => piece = next,
                None => break,
            }
        }
        let farewell = Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }));
        writer.send(farewell).await
    };
    let mut gone = std::pin::pin!(async { while let Some(Ok(_)) = reader.next().await {} });
    tokio::select! {
        sent = sending => {
            // Who closes before the client does may take back what is still on its way.
            if sent.is_ok() {
                let _ = tokio::time::timeout(LINGER_TIMEOUT, gone).await;
            }
        }
        () = gone.as_mut() => {}
    }
}
