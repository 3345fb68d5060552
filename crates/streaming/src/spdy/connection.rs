//! A connection: one task reads frames, one writes them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio::sync::{mpsc, watch};

use super::frame::{Control, FrameError, GoAway, HEAD_BYTES, Head, Reset};
use super::headers::{HeaderError, Headers, Inflater};
use super::output::{Ordered, Output, Urgent, output};
use super::streams::{Stream, Streams};

/// Streams that a client may have open at once; a further one is refused. A command takes five, a forwarded connection two.
pub const STREAMS_MAX: usize = 1_000;
/// Streams that were accepted and that nobody has looked at yet. At it the connection is read no further.
const ACCEPTED_MAX: usize = 16;
/// A connection on which nothing moves for so long is closed, as upstream's kubelets do.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);
/// How long the client may go on sending after the end, before the connection is cut. Cutting it at once could lose what
/// is still on its way to the client.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a client is pinged while a stream of its is not read.
const STALL_PING_INTERVAL: Duration = Duration::from_secs(15);
/// A server's pings have even numbers.
const OUR_PING: u32 = 2;
const BUFFER_BYTES: usize = 32 * 1024;

/// A client's connection. When it is dropped, the connection ends.
pub struct Connection {
    accepted: mpsc::Receiver<Stream>,
    output: Output,
    ended: watch::Receiver<bool>,
    /// Taken when somebody says goodbye in order.
    stop: Option<watch::Sender<Stop>>,
}

/// What the reader is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    NotYet,
    /// Read what still comes for a while, and drop it.
    Linger,
    /// Leave at once.
    Now,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Headers(#[from] HeaderError),
    #[error("a stream's number is not greater than the one before it")]
    StreamOrder,
    #[error("nothing moved for too long")]
    Idle,
}

impl Connection {
    /// Serves the connection in tasks of its own. Streams whose headers `accept` does not want are reset.
    pub fn serve<IO>(io: IO, accept: impl Fn(&Headers) -> bool + Send + 'static) -> Connection
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (reader, writer) = tokio::io::split(io);
        let (output, writing) = output(writer);
        let (accepted_sender, accepted) = mpsc::channel(ACCEPTED_MAX);
        let (ended_sender, ended) = watch::channel(false);
        let (stop, stopping) = watch::channel(Stop::NotYet);
        let reader = Reader {
            reader: BufReader::with_capacity(BUFFER_BYTES, reader),
            inflater: Inflater::default(),
            streams: Arc::default(),
            output: output.clone(),
            accepted: accepted_sender,
            accept,
            last_stream: 0,
        };
        let mut writing = tokio::spawn(writing);
        tokio::spawn(async move {
            reader.run(stopping, &mut writing).await;
            ended_sender.send_replace(true);
            // What was written before is still on its way; a peer that does not take it is cut off.
            if tokio::time::timeout(LINGER_TIMEOUT, &mut writing).await.is_err() {
                writing.abort();
            }
        });
        Connection { accepted, output, ended, stop: Some(stop) }
    }

    /// The next stream that the client opens; None when the connection has ended.
    pub async fn next_stream(&mut self) -> Option<Stream> {
        self.accepted.recv().await
    }

    /// Further streams are reset. Who does not ask for the next one any more has to say so, because what waits to be asked
    /// for holds up everything behind it.
    pub fn refuse_more(&mut self) {
        self.accepted.close();
        while self.accepted.try_recv().is_ok() {}
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
        let farewell = self.output.ordered.send(Ordered::GoAway { last_stream: 0, why: GoAway::Ok });
        let ended = self.ended();
        tokio::select! {
            _ = farewell => {}
            () = ended => return,
        }
        stop.send_replace(Stop::Linger);
        self.ended().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send_replace(Stop::Now);
        }
    }
}

struct Reader<R, A> {
    reader: BufReader<R>,
    inflater: Inflater,
    streams: Arc<Streams>,
    output: Output,
    accepted: mpsc::Sender<Stream>,
    accept: A,
    last_stream: u32,
}

impl<R: AsyncRead + Send + Unpin, A: Fn(&Headers) -> bool + Send> Reader<R, A> {
    /// Reads until the client goes, breaks the rules or is told to go, or until nothing can be written to it any more.
    async fn run(mut self, mut stop: watch::Receiver<Stop>, writing: &mut tokio::task::JoinHandle<()>) {
        let fault = tokio::select! {
            ended = self.read_all() => ended.err(),
            _ = stop.wait_for(|stop| *stop != Stop::NotYet) => None,
            _ = &mut *writing, if !writing.is_finished() => None,
        };
        self.streams.clear();
        let is_lingering = *stop.borrow() == Stop::Linger;
        match fault {
            Some(fault) => {
                tracing::debug!(%fault, "a SPDY connection ended");
                let last_stream = self.last_stream;
                let farewell = Ordered::GoAway { last_stream, why: GoAway::ProtocolError };
                let _ = self.output.ordered.try_send(farewell);
            }
            None if is_lingering => {
                let mut nowhere = tokio::io::sink();
                let rest = tokio::io::copy_buf(&mut self.reader, &mut nowhere);
                let _ = tokio::time::timeout(LINGER_TIMEOUT, rest).await;
            }
            None => {
                let _ =
                    self.output.ordered.try_send(Ordered::GoAway { last_stream: self.last_stream, why: GoAway::Ok });
            }
        }
    }

    async fn read_all(&mut self) -> Result<(), Fault> {
        while let Some(head) = self.next_head().await? {
            match Head::parse(&head)? {
                Head::Data { stream, fin, length } => self.data(stream, fin, length).await?,
                Head::Control { kind, flags, length } => {
                    let mut payload = vec![0; length];
                    self.reader.read_exact(&mut payload).await?;
                    self.control(Control::parse(kind, flags, &payload)?).await?;
                }
            }
        }
        Ok(())
    }

    /// None at the end.
    async fn next_head(&mut self) -> Result<Option<[u8; HEAD_BYTES]>, Fault> {
        let mut head = [0; HEAD_BYTES];
        loop {
            self.output.active.store(false, Ordering::Relaxed);
            match tokio::time::timeout(IDLE_TIMEOUT, self.reader.fill_buf()).await {
                Ok(filled) => match filled?.is_empty() {
                    true => return Ok(None),
                    false => break,
                },
                Err(_) if self.output.active.load(Ordering::Relaxed) => {}
                Err(_) => return Err(Fault::Idle),
            }
        }
        self.reader.read_exact(&mut head).await?;
        Ok(Some(head))
    }

    /// Data is passed on as it comes: however long a frame says to be, no more than the buffer is held.
    async fn data(&mut self, stream: u32, fin: bool, mut length: usize) -> Result<(), Fault> {
        let feed = self.streams.feed(stream);
        if feed.is_none() && stream > self.last_stream {
            let _ = self.output.urgent.try_send(Urgent::Reset { stream, why: Reset::InvalidStream });
        }
        while length > 0 {
            let there = self.reader.fill_buf().await?;
            if there.is_empty() {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
            let taken = there.len().min(length);
            if let Some(feed) = &feed {
                let mut pushing = pin!(feed.push(&there[..taken]));
                // Who does not read does not see that the client has gone; who writes does.
                while tokio::time::timeout(STALL_PING_INTERVAL, pushing.as_mut()).await.is_err() {
                    let _ = self.output.urgent.try_send(Urgent::Ping(OUR_PING));
                }
            }
            self.reader.consume(taken);
            length -= taken;
        }
        if fin {
            self.streams.end_remote(stream);
        }
        Ok(())
    }

    async fn control(&mut self, frame: Control<'_>) -> Result<(), Fault> {
        match frame {
            Control::SynStream { stream, fin, block } => {
                // Also of one that is refused: the next block builds on it.
                let headers = self.inflater.read(block)?;
                self.open(stream, fin, headers).await?;
            }
            Control::SynReply { block, .. } => {
                self.inflater.read(block)?;
            }
            Control::Headers { stream, fin, block } => {
                self.inflater.read(block)?;
                if fin {
                    self.streams.end_remote(stream);
                }
            }
            Control::RstStream { stream } => self.streams.remove(stream),
            Control::Ping(id) if id % 2 == 1 => {
                let _ = self.output.urgent.try_send(Urgent::Ping(id));
            }
            // The client opens no more; what is open goes on.
            Control::GoAway => {}
            Control::Ping(_) | Control::WindowUpdate | Control::Settings | Control::Unknown => {}
        }
        Ok(())
    }

    async fn open(&mut self, id: u32, fin: bool, headers: Headers) -> Result<(), Fault> {
        if id <= self.last_stream || id.is_multiple_of(2) {
            return Err(Fault::StreamOrder);
        }
        self.last_stream = id;
        let why = match (self.accept)(&headers) {
            true if self.streams.count() < STREAMS_MAX => None,
            true => Some(Reset::RefusedStream),
            false => Some(Reset::Cancel),
        };
        if let Some(why) = why {
            // Those who open streams without reading what becomes of them wait here.
            let _ = self.output.urgent.send(Urgent::Reset { stream: id, why }).await;
            return Ok(());
        }
        let stream = self.streams.open(id, headers, fin, &self.output);
        // The reply is on its way before anybody can write to the stream.
        let _ = self.output.urgent.send(Urgent::Reply { stream: id }).await;
        let _ = self.accepted.send(stream).await;
        Ok(())
    }
}
