//! The health service of gRPC (`grpc.health.v1.Health/Check`). Its two messages have one field each, so that they are
//! written and read here instead of being generated.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::super::http_get::{io_text, join};
use super::check::{AGENT, Outcome, shown};

/// The answer is smaller.
const ANSWER_MAX: usize = 64 * 1024;
const SERVING: u64 = 1;
const UNIMPLEMENTED: &str = "12";
const OK: &str = "0";

pub async fn check(host: &str, port: u16, service: &str, timeout: Duration) -> Outcome {
    let address = join(host, port);
    let deadline = tokio::time::Instant::now() + timeout;
    let stream = match tokio::time::timeout_at(deadline, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::ConnectionRefused => {
            let why = io_text(&error);
            return Outcome::Failure(format!("error: failed to connect service at {address:?}: {why}"));
        }
        // Upstream goes on trying until the time is over.
        _ => {
            let within = shown(timeout);
            let why =
                format!("timeout: failed to connect service {address:?} within {within}: context deadline exceeded");
            return Outcome::Failure(why);
        }
    };
    match tokio::time::timeout_at(deadline, ask(stream, &address, service)).await {
        Err(_) => Outcome::Failure(format!("timeout: health rpc did not complete within {}", shown(timeout))),
        Ok(Ok(SERVING)) => Outcome::Success,
        Ok(Ok(status)) => {
            let name = match status {
                0 => "UNKNOWN".to_owned(),
                2 => "NOT_SERVING".to_owned(),
                3 => "SERVICE_UNKNOWN".to_owned(),
                other => other.to_string(),
            };
            Outcome::Failure(format!("service unhealthy (responded with {name:?})"))
        }
        Ok(Err(why)) => Outcome::Failure(why),
    }
}

async fn ask(stream: TcpStream, address: &str, service: &str) -> Result<u64, String> {
    let failed = |why: String| format!("error: health rpc probe failed: {why}");
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| failed(error.to_string()))?;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
    });
    let request = Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .header(USER_AGENT, AGENT)
        .body(Full::new(message(service)))
        .map_err(|error| failed(error.to_string()))?;
    let answer = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
    let headers = answer.headers().clone();
    let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
    let body = body.map_err(|error| failed(error.to_string()))?;
    // An answer without a body has its status among the headers.
    let trailers = body.trailers().cloned().unwrap_or(headers);
    let text = |name: &str, headers: &HeaderMap| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let (code, why) = (text("grpc-status", &trailers), text("grpc-message", &trailers));
    match code.as_str() {
        OK => Ok(status(&body.to_bytes())),
        UNIMPLEMENTED => Err(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {why}"
        )),
        code => Err(failed(format!("rpc error: code = {} desc = {why}", code_name(code)))),
    }
}

fn code_name(code: &str) -> &str {
    match code {
        "5" => "NotFound",
        "7" => "PermissionDenied",
        "13" => "Internal",
        "14" => "Unavailable",
        "16" => "Unauthenticated",
        _ => "Unknown",
    }
}

/// A frame with a request: the name of the service is its first field.
fn message(service: &str) -> Bytes {
    let mut field = BytesMut::new();
    if !service.is_empty() {
        field.put_u8(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            field.put_u8(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
            length >>= 7;
        }
        field.put_u8(u8::try_from(length).unwrap_or(0));
        field.put_slice(service.as_bytes());
    }
    let mut frame = BytesMut::with_capacity(field.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(field.len()).unwrap_or(0));
    frame.put_slice(&field);
    frame.freeze()
}

/// The first field of the answer in a frame; 0 where it is not there.
fn status(frame: &[u8]) -> u64 {
    match frame.get(5..) {
        Some([0x08, status, ..]) => u64::from(*status),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_framed() {
        assert_eq!(&message("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(&message("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(status(&[0, 0, 0, 0, 2, 8, 1]), SERVING);
        assert_eq!(status(&[0, 0, 0, 0, 0]), 0);
        assert_eq!(status(&[]), 0);
    }
}
