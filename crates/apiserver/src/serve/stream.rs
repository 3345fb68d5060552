//! A client's TLS stream that tells its [`Peer`] when bytes wait to be taken, and ends so that the last answer arrives.
//!
//! Closing a socket with bytes unread makes the kernel reset the connection, and the client may never see the answer
//! that was on its way: that its body is too large, for one. So the end is said first, and what the client still sends
//! is read and dropped for a while.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

use super::peers::Peer;

/// How much a client may still send after its last answer, and for how long. A client that sends more, or slower, may
/// miss the answer.
const LINGER_BYTES_MAX: usize = 64 << 20;
const LINGER_TIMEOUT: Duration = Duration::from_secs(3);
const SCRATCH_BYTES: usize = 16 * 1024;

pub(super) struct WatchedStream {
    stream: TlsStream<TcpStream>,
    peer: Arc<Peer>,
    stop: watch::Receiver<bool>,
    end: End,
}

enum End {
    NotYet,
    Lingering { left: usize, until: Pin<Box<Sleep>> },
    Over,
}

impl WatchedStream {
    pub(super) fn new(stream: TlsStream<TcpStream>, peer: Arc<Peer>, stop: watch::Receiver<bool>) -> Self {
        WatchedStream { stream, peer, stop, end: End::NotYet }
    }

    fn note<T>(&self, poll: Poll<T>) -> Poll<T> {
        match poll {
            Poll::Pending => self.peer.stalls(),
            Poll::Ready(_) => self.peer.flows(),
        }
        poll
    }

    /// Drops what the client sends until it ends too. The bytes are not even decrypted.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let End::Lingering { left, until } = &mut self.end else { return Poll::Ready(()) };
        let mut scratch = [0; SCRATCH_BYTES];
        loop {
            if until.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut *self.stream.get_mut().0).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => *left = left.saturating_sub(buffer.filled().len()),
                _ => return Poll::Ready(()),
            }
            if *left == 0 {
                return Poll::Ready(());
            }
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(context);
        self.note(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let End::NotYet = self.end {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            // A server that stops does not wait for clients that have been answered.
            let is_stopping = *self.stop.borrow();
            self.end = match is_stopping {
                true => End::Over,
                false => {
                    let until = Box::pin(tokio::time::sleep(LINGER_TIMEOUT));
                    End::Lingering { left: LINGER_BYTES_MAX, until }
                }
            };
        }
        ready!(self.poll_linger(context));
        self.end = End::Over;
        Poll::Ready(Ok(()))
    }
}
