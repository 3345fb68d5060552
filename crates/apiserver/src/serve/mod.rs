//! TLS and HTTP/1.1 and HTTP/2 on a listener, until it is told to stop; then requests under way are answered.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::authn;
use crate::server::ApiServer;

/// A client that does not finish its handshake in this time is sent away.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests under way may take once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A client may have this many requests open on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_000;
/// A pause when the system is out of file descriptors, so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` is true.
pub async fn run(server: Arc<ApiServer>, listener: TcpListener, tls: ServerConfig, mut stop: watch::Receiver<bool>) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(60));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let builder = Arc::new(builder);
    let graceful = GracefulShutdown::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let watcher = graceful.watcher();
                    let (server, acceptor, builder) = (server.clone(), acceptor.clone(), builder.clone());
                    tokio::spawn(connection(server, acceptor, builder, stream, watcher));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = stopped(&mut stop) => break,
        }
    }
    drop(listener);
    server.drain();
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
    server.finish().await;
}

/// A closed channel means stop, too.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(
    server: Arc<ApiServer>,
    acceptor: TlsAcceptor,
    builder: Arc<auto::Builder<TokioExecutor>>,
    stream: TcpStream,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
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
    let user = certificates.and_then(|chain| chain.first()).and_then(|leaf| authn::user_of_certificate(leaf));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (server, user) = (server.clone(), user.clone());
        async move { Ok::<_, std::convert::Infallible>(server.handle(request, user.as_ref()).await) }
    });
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(serving.into_owned()).await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
