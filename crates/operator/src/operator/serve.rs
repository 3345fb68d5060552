//! The endpoints by which others see how an operator is.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::Semaphore;

use super::Status;
use crate::error::Error;

/// So many connections are open at a time; others wait to be accepted.
const CONNECTIONS_MAX: usize = 64;
/// Who has not asked by then is not waited for.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// How long until the next connection is accepted after one that could not be.
const AGAIN: Duration = Duration::from_millis(100);

pub(super) async fn start(address: impl ToSocketAddrs, status: Status) -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "answering /healthz, /readyz, /metrics, /quarantine");
    tokio::spawn(accept(listener, status));
    Ok(address)
}

async fn accept(listener: TcpListener, status: Status) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((connection, _)) = listener.accept().await else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let status = status.clone();
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let answer = answer(request.uri().path(), &status);
            async move { Ok::<_, Infallible>(answer) }
        });
        tokio::spawn(async move {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(REQUEST_MAX);
            // A client that breaks off is its own affair.
            let _ = server.serve_connection(TokioIo::new(connection), service).await;
            drop(place);
        });
    }
}

fn answer(path: &str, status: &Status) -> Response<Full<Bytes>> {
    let (code, text) = match path {
        "/healthz" => judged(status.healthy()),
        "/readyz" => judged(status.ready()),
        "/metrics" => (StatusCode::OK, status.metrics().text()),
        "/quarantine" => (StatusCode::OK, quarantine(status)),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let text = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, text);
    response
}

fn judged(outcome: Result<(), String>) -> (StatusCode, String) {
    match outcome {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why),
    }
}

/// A line for each object that is in quarantine.
fn quarantine(status: &Status) -> String {
    let mut text = String::new();
    for (controller, queue) in status.metrics().snapshots() {
        for (key, why) in queue.quarantined {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{controller}\t{key}\t{why}");
        }
    }
    text
}
