//! The body of an answer: bytes, or a stream of them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

use crate::limits::Slot;

/// Of a larger answer a connection gets no more than this at a time, so that the next part waits for its turn to be sent.
/// A smaller one is gone from here as soon as it is asked for.
const PART_BYTES: usize = 64 * 1024;

pub enum Body {
    Empty,
    Whole(Bytes),
    /// Chunks made one by one as the connection takes them. An empty one: there is more to do before the next, and
    /// others on this thread may go first.
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    /// Somebody else's, who may fail before it is over: then the connection breaks, so that clients see that it was not all.
    Relayed(Pin<Box<dyn http_body::Body<Data = Bytes, Error = io::Error> + Send>>),
    /// A large one, and the place of its request among those in flight.
    Held(Box<(Body, Slot)>),
}

impl Body {
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body::Stream(Box::pin(stream))
    }

    /// Keeps the request's place until the client has taken all but the last parts. What is sent at once needs none.
    pub fn hold(&mut self, slot: Slot) {
        let is_large = match self {
            Body::Empty | Body::Stream(_) | Body::Relayed(_) | Body::Held(_) => false,
            Body::Whole(bytes) => bytes.len() > PART_BYTES,
            Body::Chunks(_) => true,
        };
        if is_large {
            let body = std::mem::replace(self, Body::Empty);
            *self = Body::Held(Box::new((body, slot)));
        }
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
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let chunk = match this {
            Body::Empty => None,
            Body::Whole(bytes) => Some(bytes.split_to(bytes.len().min(PART_BYTES))).filter(|part| !part.is_empty()),
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
            Body::Relayed(body) => return body.as_mut().poll_frame(context),
            Body::Held(held) => {
                let polled = Pin::new(&mut held.0).poll_frame(context);
                if held.0.is_end_stream() {
                    *this = Body::Empty;
                }
                return polled;
            }
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
            Body::Relayed(body) => body.is_end_stream(),
            Body::Held(held) => held.0.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Chunks(_) | Body::Stream(_) => SizeHint::default(),
            Body::Relayed(body) => body.size_hint(),
            Body::Held(held) => held.0.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;
    use crate::limits::{InFlightMax, Limits};

    #[test]
    fn a_large_answer_keeps_its_place() {
        let limits = Limits::new(InFlightMax { reading: 1, mutating: 1 });
        let next = |body: &mut Body| {
            let mut context = Context::from_waker(std::task::Waker::noop());
            match Pin::new(body).poll_frame(&mut context) {
                Poll::Ready(frame) => frame.map(|frame| frame.unwrap().into_data().unwrap().len()),
                Poll::Pending => panic!("there is more"),
            }
        };
        let parts = || Body::Chunks(Box::new([Bytes::from_static(b"a"), Bytes::from_static(b"b")].into_iter()));
        let large = vec![b'a'; PART_BYTES + 1];
        let table = [(Body::from(large), vec![PART_BYTES, 1]), (parts(), vec![1, 1])];
        for (mut body, lengths) in table {
            body.hold(limits.enter(false).unwrap());
            for length in lengths {
                assert!(limits.enter(false).is_none());
                assert_eq!(next(&mut body), Some(length));
            }
            assert_eq!(next(&mut body), None);
            assert!(limits.enter(false).is_some() && body.is_end_stream());
        }
        let mut body = Body::from(vec![b'a'; PART_BYTES]);
        body.hold(limits.enter(false).unwrap());
        assert!(limits.enter(false).is_some(), "a small one goes at once");
        assert_eq!((next(&mut body), body.is_end_stream()), (Some(PART_BYTES), true));
        let mut body = parts();
        body.hold(limits.enter(false).unwrap());
        drop(body);
        assert!(limits.enter(false).is_some(), "a client that left holds nothing");
    }
}
