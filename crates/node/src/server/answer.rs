//! Answers, and what they are made of.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tokio::sync::mpsc;

pub type Body = UnsyncBoxBody<Bytes, Infallible>;
pub type Answer = Response<Body>;
/// An answer instead of what was asked for.
pub type Refusal = Box<Answer>;

pub const PLAIN: &str = "text/plain; charset=utf-8";
pub const JSON: &str = "application/json";
/// Of metrics.
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A short text, which is also how everything that goes wrong is answered.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    with_type(status, PLAIN, text)
}

/// As Go's `http.Error`: the text is a line.
pub fn line(status: StatusCode, text: &str) -> Answer {
    let mut answer = with_type(status, PLAIN, format!("{text}\n"));
    answer.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

pub fn json(bytes: impl Into<Bytes>) -> Answer {
    with_type(StatusCode::OK, JSON, bytes)
}

pub fn with_type(status: StatusCode, content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(bytes.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// A text that comes piece by piece.
pub fn stream(pieces: mpsc::Receiver<Bytes>) -> Answer {
    let frames = futures::stream::unfold(pieces, async |mut pieces| {
        let piece = pieces.recv().await?;
        Some((Ok(Frame::data(piece)), pieces))
    });
    let mut answer = Response::new(StreamBody::new(frames.boxed()).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    answer
}

/// An answer after which the connection is no longer HTTP's.
pub fn switching(head: Response<()>) -> Answer {
    head.map(|()| Full::default().boxed_unsync())
}
