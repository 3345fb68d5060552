//! Channels: every message begins with the number of one.
//!
//! In the base64 form the number is a digit, and what follows it is encoded. With version 5 a client may close a channel
//! by a message of 255 and its number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use crate::Closed;
use crate::queue::{Feed, Source, queue};

/// What a client sends first to close a channel.
const CLOSE_SIGNAL: u8 = 255;
/// Messages that wait to be written, all channels together. At it whoever writes waits.
const MESSAGES_MAX: usize = 32;
/// The longest piece of output in one message.
const PIECE_BYTES_MAX: usize = 32 * 1024;
/// A connection on which nothing moves for so long is closed, as upstream's kubelets do.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);
/// How often a client is pinged while a channel of its is not read: so it is noticed that it has gone.
const STALL_PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a client may take to answer the end.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Binary,
    Base64,
}

/// What was agreed on.
#[derive(Clone, Debug)]
pub struct Config {
    pub codec: Codec,
    /// The client may close channels.
    pub closes: bool,
    /// By number: whether the client may send on the channel. What it sends on others is dropped.
    pub readable: Vec<bool>,
}

/// A client's connection. When it is dropped, the connection ends.
pub struct Channels {
    /// By number.
    pub sources: Vec<Option<Source>>,
    codec: Codec,
    messages: mpsc::Sender<Message>,
    ended: watch::Receiver<bool>,
    stop: Option<watch::Sender<bool>>,
}

impl Channels {
    /// Serves the connection in tasks of its own.
    pub async fn serve<IO>(io: IO, config: Config) -> Channels
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (writer, reader) = WebSocketStream::from_raw_socket(io, Role::Server, Some(super::config())).await.split();
        let (messages, outgoing) = mpsc::channel(MESSAGES_MAX);
        let (feeds, sources) = config.readable.iter().map(|readable| readable.then(queue).unzip()).unzip();
        let (ended_sender, ended) = watch::channel(false);
        let (stop, mut stopping) = watch::channel(false);
        let active = Arc::new(AtomicBool::new(false));
        let mut writing = tokio::spawn(write_all(writer, outgoing, active.clone()));
        let mut reader = Reader {
            reader,
            feeds,
            codec: config.codec,
            closes: config.closes,
            messages: messages.downgrade(),
            active,
        };
        tokio::spawn(async move {
            let is_stopped = tokio::select! {
                () = reader.read_all() => false,
                stopped = stopping.wait_for(|stop| *stop) => stopped.is_ok(),
                _ = &mut writing => false,
            };
            reader.feeds.clear();
            if is_stopped {
                let _ = tokio::time::timeout(LINGER_TIMEOUT, reader.drain()).await;
            }
            drop(reader);
            ended_sender.send_replace(true);
            if !writing.is_finished() && tokio::time::timeout(LINGER_TIMEOUT, &mut writing).await.is_err() {
                writing.abort();
            }
        });
        Channels { sources, codec: config.codec, messages, ended, stop: Some(stop) }
    }

    /// Where to write to the channel of this number.
    pub fn sink(&self, number: u8) -> ChannelSink {
        ChannelSink { number, codec: self.codec, messages: self.messages.clone() }
    }

    /// Comes back when the connection has ended.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// Says goodbye behind everything that was sent, and waits until the client has gone or has had its time.
    pub async fn close(mut self) {
        let Some(stop) = self.stop.take() else { return };
        let farewell = Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }));
        let ended = self.ended();
        tokio::select! {
            _ = self.messages.send(farewell) => {}
            () = ended => return,
        }
        stop.send_replace(true);
        self.ended().await;
    }
}

/// Writes until everybody who could is gone, or the end was said.
async fn write_all<IO: AsyncRead + AsyncWrite + Unpin>(
    mut writer: SplitSink<WebSocketStream<IO>, Message>,
    mut outgoing: mpsc::Receiver<Message>,
    active: Arc<AtomicBool>,
) {
    while let Some(message) = outgoing.recv().await {
        active.store(true, Ordering::Relaxed);
        let is_last = message.is_close();
        if writer.feed(message).await.is_err() || (outgoing.is_empty() && writer.flush().await.is_err()) {
            return;
        }
        if is_last {
            break;
        }
    }
    let _ = writer.close().await;
}

struct Reader<IO> {
    reader: SplitStream<WebSocketStream<IO>>,
    feeds: Vec<Option<Feed>>,
    codec: Codec,
    closes: bool,
    messages: mpsc::WeakSender<Message>,
    active: Arc<AtomicBool>,
}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin> Reader<IO> {
    async fn read_all(&mut self) {
        loop {
            self.active.store(false, Ordering::Relaxed);
            let message = match tokio::time::timeout(IDLE_TIMEOUT, self.reader.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => {
                    tracing::debug!(%error, "a WebSocket ended");
                    return;
                }
                Ok(None) => return,
                Err(_) if self.active.load(Ordering::Relaxed) => continue,
                Err(_) => return,
            };
            let data = match message {
                Message::Binary(data) => data,
                Message::Text(text) => text.into(),
                Message::Close(_) => return,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            if !self.take(&data).await {
                return;
            }
        }
    }

    /// Sorts a message; false for one after which nothing can be said any more.
    async fn take(&mut self, data: &[u8]) -> bool {
        match data {
            [] => true,
            [CLOSE_SIGNAL, rest @ ..] if self.closes => {
                let [number] = rest else { return false };
                let Some(feed) = self.feeds.get(usize::from(*number)) else { return false };
                feed.iter().for_each(Feed::end);
                true
            }
            [number, rest @ ..] => {
                let number = match self.codec {
                    Codec::Binary => *number,
                    Codec::Base64 => number.wrapping_sub(b'0'),
                };
                let Some(Some(feed)) = self.feeds.get(usize::from(number)) else { return true };
                match self.codec {
                    Codec::Binary => push(feed, rest, &self.messages).await,
                    Codec::Base64 => match STANDARD.decode(rest) {
                        Ok(bytes) => push(feed, &bytes, &self.messages).await,
                        Err(error) => tracing::debug!(%error, "a message that is not base64"),
                    },
                }
                true
            }
        }
    }

    /// Reads what still comes until the client has answered the end.
    async fn drain(&mut self) {
        while let Some(Ok(_)) = self.reader.next().await {}
    }
}

async fn push(feed: &Feed, bytes: &[u8], messages: &mpsc::WeakSender<Message>) {
    let mut pushing = std::pin::pin!(feed.push(bytes));
    while tokio::time::timeout(STALL_PING_INTERVAL, pushing.as_mut()).await.is_err() {
        if let Some(messages) = messages.upgrade() {
            let _ = messages.try_send(Message::Ping(Bytes::new()));
        }
    }
}

/// Our end of a channel.
pub struct ChannelSink {
    number: u8,
    codec: Codec,
    messages: mpsc::Sender<Message>,
}

impl ChannelSink {
    /// Waits for room. Without bytes it is an empty message: by one, clients see that the connection stands.
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), Closed> {
        loop {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES_MAX));
            self.messages.send(self.message(&piece)).await.map_err(|_| Closed)?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    fn message(&self, bytes: &[u8]) -> Message {
        match self.codec {
            Codec::Binary => {
                let mut message = BytesMut::with_capacity(bytes.len() + 1);
                message.put_u8(self.number);
                message.put_slice(bytes);
                Message::Binary(message.freeze())
            }
            Codec::Base64 => {
                let mut message = String::from(char::from(b'0' + self.number));
                STANDARD.encode_string(bytes, &mut message);
                Message::Text(message.into())
            }
        }
    }
}
