//! Connections: TLS, HTTP/1.1 and HTTP/2, within bounds.
//!
//! A client has to say what it wants in time, and to prove who it is: whoever cannot is answered and sent away. At the
//! bound of connections a newcomer takes the place of the oldest one that has proved nothing; where all have, it waits
//! outside.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustix::net::sockopt;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::Config;
use super::access::User;
use super::answer::Answer;
use super::handlers::Server;

/// Connections at once, those of commands and forwarded ports among them.
pub const CONNECTIONS_MAX: usize = 1_000;
/// Who does not finish its handshake in this time is sent away.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Who does not send the head of a request in this time is sent away; also between two requests, as upstream's.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);
/// How often a silent client is asked whether it is still there.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// All headers of a request together; more is answered 431. As upstream.
const HEADERS_BYTES_MAX: usize = 1 << 20;
/// Requests on one HTTP/2 connection.
const REQUESTS_MAX: u32 = 250;
/// How long requests under way may take once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// A pause when the system is out of file descriptors, so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` is true, or nobody can say it any more.
pub async fn serve(config: Config, listener: TcpListener, tls: ServerConfig, mut stop: watch::Receiver<bool>) {
    let server = Arc::new(Server::new(config, stop.clone()));
    let seats = Arc::new(Seats::new(CONNECTIONS_MAX));
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let seat = tokio::select! {
                    seat = seats.take() => seat,
                    () = stopped(&mut stop) => break,
                };
                tokio::spawn(connection(server.clone(), acceptor.clone(), stream, seat, stop.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, seats.all_free()).await;
}

/// A closed channel means stop, too.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(
    server: Arc<Server>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    seat: Arc<Seat>,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    keep_alive(&stream);
    let evicted = seat.evicted.clone();
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let stream = tokio::select! {
        Ok(Ok(stream)) = handshake => stream,
        () = evicted.notified() => return,
        else => return,
    };
    let user = server.user_of(stream.get_ref().1.peer_certificates().unwrap_or_default());
    if user.is_some() {
        seat.known();
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, user, seat) = (server.clone(), user.clone(), seat.clone());
        async move { Ok::<_, Infallible>(answer(&server, request, user, seat).await) }
    });
    let builder = builder();
    let mut serving = std::pin::pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    tokio::select! {
        ended = serving.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended with an error");
            }
        }
        () = evicted.notified() => {}
        () = stopped(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, serving).await;
        }
    }
}

/// A client that vanishes without a word is noticed within some minutes, as by Go's servers: its commands go with it.
fn keep_alive(stream: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL);
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEADERS_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(REQUESTS_MAX)
        .max_header_list_size(u32::try_from(HEADERS_BYTES_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

/// Who is not known after a request does not get another one on this connection.
async fn answer(server: &Arc<Server>, request: Request<Incoming>, user: Option<Arc<User>>, seat: Arc<Seat>) -> Answer {
    let is_http1 = request.version() < http::Version::HTTP_2;
    let mut answer = server.answer(request, user, &seat).await;
    if is_http1 && !seat.is_known() && answer.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// The places that there are for connections.
struct Seats {
    free: Arc<Semaphore>,
    max: u32,
    /// Connections that have proved nothing, the oldest first.
    unknown: Arc<Mutex<Unknown>>,
}

#[derive(Default)]
struct Unknown {
    next: u64,
    evictions: BTreeMap<u64, Arc<Notify>>,
}

impl Seats {
    fn new(max: usize) -> Seats {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        Seats { free: Arc::new(Semaphore::new(max as usize)), max, unknown: Arc::default() }
    }

    /// A place for a newcomer; the oldest one that is unknown makes room for it.
    async fn take(&self) -> Arc<Seat> {
        if self.free.available_permits() == 0
            && let Some((_, evicted)) = self.unknown.lock().evictions.pop_first()
        {
            evicted.notify_one();
        }
        let permit = self.free.clone().acquire_owned().await.expect("nobody closes it");
        let evicted = Arc::new(Notify::new());
        let mut unknown = self.unknown.lock();
        let id = unknown.next;
        unknown.next += 1;
        unknown.evictions.insert(id, evicted.clone());
        Arc::new(Seat { id, evicted, unknown: self.unknown.clone(), is_known: false.into(), _permit: permit })
    }

    async fn all_free(&self) {
        let _ = self.free.acquire_many(self.max).await;
    }
}

/// A connection's place, which what it was upgraded to keeps.
pub(super) struct Seat {
    id: u64,
    evicted: Arc<Notify>,
    unknown: Arc<Mutex<Unknown>>,
    is_known: std::sync::atomic::AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl Seat {
    /// Who sits here has proved who it is.
    pub(super) fn known(&self) {
        self.unknown.lock().evictions.remove(&self.id);
        self.is_known.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn is_known(&self) -> bool {
        self.is_known.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.unknown.lock().evictions.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_unknown_for_longest_makes_room() {
        let seats = Arc::new(Seats::new(3));
        let taken = [seats.take().await, seats.take().await, seats.take().await];
        taken[0].known();
        let waiting = tokio::spawn({
            let seats = seats.clone();
            async move { seats.take().await }
        });
        taken[1].evicted.notified().await;
        let [first, second, third] = taken;
        drop(second);
        let newcomer = waiting.await.unwrap();
        newcomer.known();
        third.known();
        let waiting = tokio::spawn({
            let seats = seats.clone();
            async move { seats.take().await }
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished(), "all others are known: they stay");
        drop(first);
        let _last = waiting.await.unwrap();
    }
}
