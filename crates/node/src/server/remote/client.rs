//! The client's side of a session: the same streams, whatever they come over.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rkube_runtime::api::ExecRequest;
use rkube_streaming::Closed;
use rkube_streaming::queue::Source as ChannelSource;
use rkube_streaming::spdy::{self, StreamSource};
use rkube_streaming::websocket::channels::{ChannelSink, Channels};

use super::negotiate::{Protocol, channel_config};

/// How long a client may take to open the streams that it asked for.
pub const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;

/// What the client sends on a stream.
pub enum Source {
    Stream(StreamSource),
    Channel(ChannelSource),
}

impl Source {
    pub async fn next(&mut self) -> Option<Bytes> {
        match self {
            Source::Stream(source) => source.next().await,
            Source::Channel(source) => source.next().await,
        }
    }
}

/// Where the client is sent a stream.
pub enum Sink {
    Stream(spdy::Sink),
    Channel(ChannelSink),
}

impl Sink {
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), Closed> {
        match self {
            Sink::Stream(sink) => sink.send(bytes).await,
            Sink::Channel(sink) => sink.send(bytes).await,
        }
    }

    /// Whether the client may still want it.
    pub fn is_open(&self) -> bool {
        match self {
            Sink::Stream(sink) => sink.is_open(),
            Sink::Channel(_) => true,
        }
    }

    pub async fn finish(self) {
        match self {
            Sink::Stream(sink) => sink.finish().await,
            Sink::Channel(_) => {}
        }
    }

    /// Ends both directions.
    pub async fn reset(self) {
        match self {
            Sink::Stream(sink) => sink.reset().await,
            Sink::Channel(_) => {}
        }
    }
}

pub struct Client {
    pub stdin: Option<Source>,
    pub stdout: Option<Sink>,
    pub stderr: Option<Sink>,
    pub sizes: Option<Source>,
    error: Option<Sink>,
    /// Our ends of streams that only the client writes to.
    unused: Vec<spdy::Sink>,
    connection: Connection,
}

enum Connection {
    Spdy(spdy::Connection),
    Channels(Channels),
}

impl Client {
    /// None: the client went away, or did not open its streams.
    pub async fn open(upgraded: Upgraded, protocol: Protocol, wanted: &ExecRequest) -> Option<Client> {
        match protocol {
            Protocol::Spdy { .. } => {
                let connection = spdy::Connection::serve(TokioIo::new(upgraded), |_| true);
                let opening = open_streams(connection, protocol, wanted);
                tokio::time::timeout(STREAMS_TIMEOUT, opening).await.ok().flatten()
            }
            Protocol::WebSocket { version, codec } => {
                let config = channel_config(version, codec, wanted);
                Some(open_channels(Channels::serve(TokioIo::new(upgraded), config).await, wanted).await)
            }
        }
    }

    /// Comes back when the client is gone.
    pub fn gone(&self) -> BoxFuture<'static, ()> {
        match &self.connection {
            Connection::Spdy(connection) => connection.ended().boxed(),
            Connection::Channels(channels) => channels.ended().boxed(),
        }
    }

    /// Tells how it ended, behind everything that was sent, and ends the connection.
    pub async fn end(mut self, status: &str) {
        for sink in [self.stdout.take(), self.stderr.take()].into_iter().flatten() {
            sink.finish().await;
        }
        if let Some(mut error) = self.error.take() {
            if !status.is_empty() {
                let _ = error.send(Bytes::copy_from_slice(status.as_bytes())).await;
            }
            error.finish().await;
        }
        for sink in self.unused {
            sink.reset().await;
        }
        match self.connection {
            Connection::Spdy(connection) => connection.close().await,
            Connection::Channels(channels) => channels.close().await,
        }
    }
}

async fn open_channels(mut channels: Channels, wanted: &ExecRequest) -> Client {
    let first = match (wanted.stdout, wanted.stderr) {
        (true, _) => STDOUT,
        (false, true) => STDERR,
        _ => ERROR,
    };
    // By this clients see that they are connected.
    let _ = channels.sink(first).send(Bytes::new()).await;
    let mut source = |number: u8| channels.sources[usize::from(number)].take().map(Source::Channel);
    let (stdin, sizes) = (source(STDIN), source(RESIZE));
    let sink = |number: u8, is_wanted: bool| is_wanted.then(|| Sink::Channel(channels.sink(number)));
    Client {
        stdin,
        stdout: sink(STDOUT, wanted.stdout),
        stderr: sink(STDERR, wanted.stderr),
        sizes,
        error: sink(ERROR, true),
        unused: Vec::new(),
        connection: Connection::Channels(channels),
    }
}

async fn open_streams(mut connection: spdy::Connection, protocol: Protocol, wanted: &ExecRequest) -> Option<Client> {
    let has_sizes = wanted.tty && protocol.has_sizes();
    let mut missing = 1 + [wanted.stdin, wanted.stdout, wanted.stderr, has_sizes].iter().filter(|it| **it).count();
    let (mut stdin, mut stdout, mut stderr, mut sizes, mut error) = (None, None, None, None, None);
    let mut unused = Vec::new();
    while missing > 0 {
        let stream = connection.next_stream().await?;
        match stream.headers.get("streamtype") {
            "stdin" => {
                stdin = Some(Source::Stream(stream.source));
                unused.push(stream.sink);
            }
            "resize" if protocol.has_sizes() => {
                sizes = Some(Source::Stream(stream.source));
                unused.push(stream.sink);
            }
            "stdout" => stdout = Some(Sink::Stream(stream.sink)),
            "stderr" => stderr = Some(Sink::Stream(stream.sink)),
            "error" => error = Some(Sink::Stream(stream.sink)),
            other => {
                tracing::debug!(other, "a stream of an unexpected type");
                continue;
            }
        }
        missing -= 1;
    }
    connection.refuse_more();
    Some(Client { stdin, stdout, stderr, sizes, error, unused, connection: Connection::Spdy(connection) })
}
