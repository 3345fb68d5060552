//! The body of an answer: bytes, or a stream of them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

pub enum Body {
    Empty,
    Whole(Bytes),
    /// Chunks made one by one as the connection takes them. An empty one: there is more to do before the next, and
    /// others on this thread may go first.
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body::Stream(Box::pin(stream))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body::Whole(bytes.into())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::Whole(bytes)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let chunk = match this {
            Body::Empty => None,
            Body::Whole(bytes) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()),
            Body::Chunks(chunks) => match chunks.next() {
                Some(chunk) if chunk.is_empty() => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                chunk => chunk,
            },
            Body::Stream(stream) => match stream.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(chunk) => chunk,
            },
        };
        if chunk.is_none() {
            *this = Body::Empty;
        }
        Poll::Ready(chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Whole(bytes) => bytes.is_empty(),
            Body::Chunks(_) | Body::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Chunks(_) | Body::Stream(_) => SizeHint::default(),
        }
    }
}
