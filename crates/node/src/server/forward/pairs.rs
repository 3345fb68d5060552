//! Pairs of streams, one for data and one for what goes wrong, that belong together by their request id.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use rkube_runtime::api::Runtime;
use rkube_streaming::spdy::{Connection, Headers, Stream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::copy;
use crate::server::remote::client::{STREAMS_TIMEOUT, Sink, Source};

/// Whether a stream has what it takes. Others are reset.
pub fn is_wanted(headers: &Headers) -> bool {
    let has_port = headers.get("port").parse::<u16>().is_ok_and(|port| port > 0);
    has_port && matches!(headers.get("streamtype"), "error" | "data")
}

/// Serves until the client goes.
pub async fn serve(mut connection: Connection, runtime: Arc<dyn Runtime>, sandbox: String) {
    let mut pairs = Pairs::default();
    // With the client all that was forwarded for it goes.
    let mut forwarded = JoinSet::new();
    loop {
        let next_timeout = pairs.next_timeout();
        let stream = tokio::select! {
            stream = connection.next_stream() => stream,
            Some(_) = forwarded.join_next() => continue,
            () = expired(next_timeout) => {
                pairs.expire(Instant::now()).await;
                continue;
            }
        };
        let Some(stream) = stream else { return };
        if let Some((data, error)) = pairs.add(stream, Instant::now()).await {
            forwarded.spawn(forward(data, error, runtime.clone(), sandbox.clone()));
        }
    }
}

async fn expired(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn forward(data: Stream, error: Stream, runtime: Arc<dyn Runtime>, sandbox: String) {
    let port = data.headers.get("port").parse().unwrap_or(0);
    let (mut sink, mut errors) = (Sink::Stream(data.sink), Sink::Stream(error.sink));
    match copy::copy(&*runtime, &sandbox, port, Source::Stream(data.source), &mut sink).await {
        Ok(()) => {
            sink.finish().await;
            errors.finish().await;
        }
        Err(why) => {
            let message = copy::message(&sandbox, port, &why);
            tracing::debug!(message, "a port could not be forwarded");
            let _ = errors.send(Bytes::from(message)).await;
            sink.reset().await;
            errors.reset().await;
        }
    }
}

/// Streams that wait for the other one.
#[derive(Default)]
struct Pairs {
    waiting: HashMap<String, Half>,
}

struct Half {
    stream: Stream,
    is_error: bool,
    until: Instant,
}

impl Pairs {
    /// The data and the error stream, when there are both.
    async fn add(&mut self, stream: Stream, now: Instant) -> Option<(Stream, Stream)> {
        let is_error = stream.headers.get("streamtype") == "error";
        let id = request_id(&stream, is_error);
        match self.waiting.remove(&id) {
            None => {
                self.waiting.insert(id, Half { stream, is_error, until: now + STREAMS_TIMEOUT });
                None
            }
            Some(half) if half.is_error == is_error => {
                let kind = if is_error { "error" } else { "data" };
                let why = format!("error processing stream for request {id}: {kind} stream already assigned");
                let mut half = half;
                if half.is_error {
                    let _ = half.stream.sink.send(Bytes::from(why)).await;
                }
                self.waiting.insert(id, half);
                None
            }
            Some(half) if is_error => Some((half.stream, stream)),
            Some(half) => Some((stream, half.stream)),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.waiting.values().map(|half| half.until).min()
    }

    async fn expire(&mut self, now: Instant) {
        let late: Vec<String> =
            self.waiting.iter().filter(|(_, half)| half.until <= now).map(|(id, _)| id.clone()).collect();
        for id in late {
            if let Some(Half { mut stream, is_error: true, .. }) = self.waiting.remove(&id) {
                let why = format!("(request={id}) timed out waiting for streams");
                let _ = stream.sink.send(Bytes::from(why)).await;
                stream.sink.finish().await;
            }
        }
    }
}

/// Old clients give none: they open the error stream first, and the data stream right after it.
fn request_id(stream: &Stream, is_error: bool) -> String {
    match stream.headers.get("requestid") {
        "" if is_error => stream.id.to_string(),
        "" => stream.id.saturating_sub(2).to_string(),
        id => id.to_owned(),
    }
}
