//! The limit: a server on the same hyper and rustls that answers from memory and does nothing else. What it reaches with
//! the same client is what the machine can do.
//!
//! It knows five things: a fixed object for any write and any read of one, a list of pods in chunks, a page of that list, a
//! webhook that admits everything, and watches that all get the same prepared events whenever `/start` is asked for.

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::Bytes;
use futures::{Stream, stream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::arguments::LimitOptions;
use crate::objects::{self, EVENTS_PER_ROUND, PAGE, PODS};

/// The size of the pieces in which a list is sent.
const CHUNK_BYTES: usize = 64 * 1024;
/// So many events are pushed at once: about as many as a server has at hand that commits writes in groups.
const EVENTS_AT_ONCE: usize = 20;

/// Serves until it is killed. Says its address on stdout.
pub async fn serve(options: LimitOptions) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let tls = certificate(&options)?;
    let (rounds, _) = watch::channel(0);
    let memory = Arc::new(Memory {
        object: objects::filler(options.object_bytes),
        pod: objects::filler(options.pod_bytes),
        list: objects::list(options.pod_bytes, PODS),
        page: objects::list(options.pod_bytes, PAGE),
        events: objects::event(options.event_bytes).repeat(EVENTS_AT_ONCE).into(),
        small_events: objects::event(options.small_event_bytes).repeat(EVENTS_AT_ONCE).into(),
        rounds,
    });
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(memory.clone(), acceptor.clone(), stream));
    }
}

struct Memory {
    object: Bytes,
    pod: Bytes,
    list: Bytes,
    page: Bytes,
    /// A few of them.
    events: Bytes,
    small_events: Bytes,
    /// Counts the rounds that watchers are to be sent.
    rounds: watch::Sender<u64>,
}

fn certificate(options: &LimitOptions) -> Result<ServerConfig> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.self_signed(&key)?;
    std::fs::write(&options.certificate, certificate.pem())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn connection(memory: Arc<Memory>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request: Request<Incoming>| answer(memory.clone(), request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1_000);
    // A client that goes away is no failure.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(memory: Arc<Memory>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    // A real server has to have read the request.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let query = parts.uri.query().unwrap_or_default();
    let (status, body) = match (&parts.method, parts.uri.path()) {
        (&Method::POST, "/start") => {
            memory.rounds.send_modify(|round| *round += 1);
            (StatusCode::OK, Body::Whole(Bytes::new()))
        }
        (&Method::POST, "/admit") => (StatusCode::OK, Body::Whole(objects::admitted(&body))),
        (&Method::POST, path) if path.ends_with("/pods") => (StatusCode::CREATED, Body::Whole(memory.pod.clone())),
        (&Method::POST, _) => (StatusCode::CREATED, Body::Whole(memory.object.clone())),
        (&Method::GET, _) if query.contains("watch=") => (StatusCode::OK, events(&memory, query.contains("small"))),
        (&Method::GET, _) if query.contains("limit=") => (StatusCode::OK, chunks(memory.page.clone())),
        (&Method::GET, path) if path.ends_with("/pods") => (StatusCode::OK, chunks(memory.list.clone())),
        _ => (StatusCode::OK, Body::Whole(memory.object.clone())),
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(answer)
}

fn chunks(bytes: Bytes) -> Body {
    Body::Stream(Box::pin(stream::iter((0..bytes.len()).step_by(CHUNK_BYTES).map(move |start| {
        let end = bytes.len().min(start + CHUNK_BYTES);
        bytes.slice(start..end)
    }))))
}

/// The prepared events, so many in each round.
fn events(memory: &Memory, small: bool) -> Body {
    let events = if small { &memory.small_events } else { &memory.events };
    let state = (memory.rounds.subscribe(), 0, events.clone());
    Body::Stream(Box::pin(stream::unfold(state, |(mut rounds, mut left, events)| async move {
        if left == 0 {
            rounds.changed().await.ok()?;
            left = EVENTS_PER_ROUND / EVENTS_AT_ONCE;
        }
        Some((events.clone(), (rounds, left - 1, events)))
    })))
}

enum Body {
    Whole(Bytes),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Body::Stream(stream) => stream.as_mut().poll_next(context).map(|chunk| chunk.map(Frame::data).map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}
