//! TLS and HTTP/1.1 and HTTP/2 on a listener, until it is told to stop; then requests under way are answered.
//!
//! Every phase of a connection has a deadline ([`peers`]), and there is a bound on how many there are: at it the one
//! that matters least goes.

mod peers;
mod pre_checks;
mod stream;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rkube_access::authenticate::certificate::Proof;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::content::Body;
use crate::proxy::{ClientAddress, wanted_upgrade};
use crate::request::{HeldPlace, OnAuthenticated, Untrusted};
use crate::server::ApiServer;
pub use peers::CONNECTIONS_MAX;
use peers::{OpenRequest, Peers, Seat};
use stream::WatchedStream;

/// A client that does not finish its handshake in this time is sent away.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests under way may take once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to agree that its idle connection ends.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client may have this many requests open on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_000;
/// All headers of a request together; more is answered 431. As upstream.
const HEADERS_BYTES_MAX: usize = 1 << 20;
/// A pause when the system is out of file descriptors, so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` is true, `connections_max` clients at once.
pub async fn run(
    server: Arc<ApiServer>,
    listener: TcpListener,
    tls: ServerConfig,
    connections_max: usize,
    mut stop: watch::Receiver<bool>,
) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let builder = Arc::new(builder());
    let peers = Peers::new(connections_max);
    let stopping = stop.clone();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let Some(seat) = peers.seat().await else {
                        tracing::debug!("a client was sent away: all connections are in use");
                        continue;
                    };
                    let (server, seat, stop) = (server.clone(), Arc::new(seat), stopping.clone());
                    let connection = Connection { server, seat, address: address.ip(), stop };
                    tokio::spawn(connection.run(acceptor.clone(), builder.clone(), stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    peers.evict_one();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    server.drain();
    if tokio::time::timeout(DRAIN_TIMEOUT, peers.all_left()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // No timeout for heads: that would be a timer per request, and the deadlines of a connection cover it.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEADERS_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEADERS_BYTES_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

/// A closed channel means stop, too.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// One client's connection, from its handshake to its end.
struct Connection {
    server: Arc<ApiServer>,
    seat: Arc<Seat>,
    address: IpAddr,
    stop: watch::Receiver<bool>,
}

impl Connection {
    async fn run(mut self, acceptor: TlsAcceptor, builder: Arc<auto::Builder<TokioExecutor>>, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
        let handshake = tokio::select! {
            biased;
            handshake = handshake => handshake,
            () = self.seat.peer().evicted() => return,
            () = stopped(&mut self.stop) => return,
        };
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "TLS handshake failed");
                return;
            }
            Err(_) => {
                tracing::debug!("TLS handshake took too long");
                return;
            }
        };
        let certificates = stream.get_ref().1.peer_certificates();
        let proof = self.server.proof_of(certificates.unwrap_or_default());
        let peer = self.seat.peer().clone();
        if matches!(proof, Proof::User { .. }) {
            peer.authenticated();
        }
        let stream = TokioIo::new(WatchedStream::new(stream, peer.clone(), self.stop.clone()));
        let (server, seat) = (self.server.clone(), Arc::downgrade(&self.seat));
        let client = Arc::new(Client { server, proof, seat, address: self.address });
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (client, open) = (client.clone(), peer.begin());
            async move { Ok::<_, Infallible>(answer(&client, request, open).await) }
        });
        let mut serving = pin!(builder.serve_connection_with_upgrades(stream, service));
        let late = tokio::select! {
            biased;
            ended = serving.as_mut() => return said(ended),
            late = self.seat.peer().late() => Some(late),
            () = stopped(&mut self.stop) => None,
        };
        // One that stops serving waits for the others, but no longer than it says itself.
        let patience = match late {
            Some(late) if late.is_abrupt() => return,
            Some(_) => GOODBYE_TIMEOUT,
            None => DRAIN_TIMEOUT,
        };
        serving.as_mut().graceful_shutdown();
        if let Ok(ended) = tokio::time::timeout(patience, serving).await {
            said(ended);
        }
    }
}

fn said(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// What the requests of a connection have in common.
struct Client {
    server: Arc<ApiServer>,
    proof: Proof,
    /// Not held: a client that is gone has no place.
    seat: Weak<Seat>,
    address: IpAddr,
}

/// The connection counts as in use until the answer's body is gone.
async fn answer(
    client: &Client,
    mut request: hyper::Request<Incoming>,
    open: OpenRequest,
) -> http::Response<CountedBody> {
    let Client { server, proof, seat, address } = client;
    if let Some(refusal) = pre_checks::wrong_host(&request) {
        return refusal.map(|body| CountedBody { body, _open: open });
    }
    if wanted_upgrade(request.headers()).is_some() {
        // The connection outlives its request then, and so does its place.
        let place = (seat.upgrade(), open.another());
        request.extensions_mut().insert(HeldPlace::new(place));
        request.extensions_mut().insert(ClientAddress(*address));
    } else if request.uri().path().contains("/proxy") {
        request.extensions_mut().insert(ClientAddress(*address));
    }
    if let Some(peer) = open.unknown_peer() {
        request.extensions_mut().insert(OnAuthenticated::new(move || peer.authenticated()));
    }
    let user = match proof {
        // A certificate may end before its connection does.
        Proof::User { user, until } if server.now_seconds() <= *until => Some(user),
        Proof::None => None,
        Proof::User { .. } => {
            request.extensions_mut().insert(Untrusted("the client's certificate has expired".into()));
            None
        }
        Proof::Refused(why) => {
            request.extensions_mut().insert(Untrusted(why.as_str().into()));
            None
        }
    };
    server.handle(request, user).await.map(|body| CountedBody { body, _open: open })
}

/// A body, and that its request is open.
struct CountedBody {
    body: Body,
    _open: OpenRequest,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
