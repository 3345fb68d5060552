//! `etcd`, as far as a test environment sees it: it takes etcd's flags and answers `/health`. The store is in its data
//! directory, and the `kube-apiserver` beside it reads and writes it there ([`super::handover`]).
//!
//! **Deliberately absent:** etcd's own API. Who needs more than a Kubernetes API server needs a real etcd.

mod table;

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rkube_machinery::host::Entropy;
use rkube_machinery::names::generated::uuid;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::flags::{self, Given};
use super::handover::{Giver, Handover};
use super::{END_TIMEOUT, Front, parent};
use crate::files;
use crate::host::SystemEntropy;
use crate::signals::Signals;

/// What kube-apiserver 1.36 is used with.
const VERSION: &str = "3.6.5";
/// Further clients wait until one of these is gone.
const CONNECTIONS_MAX: usize = 64;
const ABOUT: &str = "\
The etcd of a test environment, as rkube stands in for it. It keeps a store for the kube-apiserver beside it, and answers
whether it is well; it has no API of its own.";

pub fn run(arguments: Vec<String>) -> anyhow::Result<()> {
    let program = Front::Etcd.name();
    let given = flags::parse(program, table::FLAGS, arguments)?;
    if given.wants_help {
        return Ok(write!(std::io::stdout(), "{}", flags::help(program, ABOUT, table::FLAGS))?);
    }
    if given.switch("version") {
        return Ok(writeln!(std::io::stdout(), "etcd Version: {VERSION}\n{}", crate::cli::version_line())?);
    }
    given.say_without_effect(program);
    let mut signals = Signals::install_within(END_TIMEOUT).context("cannot listen for signals")?;
    parent::end_with_parent();
    let giver = Arc::new(prepare(&given, &SystemEntropy)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let outcome = runtime.block_on(async {
        let listeners = listen(&given).await?;
        for listener in listeners {
            tokio::spawn(serve(listener, giver.clone()));
        }
        signals.first().await;
        Ok(())
    });
    runtime.shutdown_background();
    outcome
}

fn prepare(given: &Given, entropy: &dyn Entropy) -> anyhow::Result<Giver> {
    let directory = PathBuf::from(given.text("data-dir").context("--data-dir is empty")?);
    let directory = std::path::absolute(&directory).context("cannot use --data-dir")?;
    files::make_private_directory(&directory)?;
    ensure!(
        !directory.join("member").exists(),
        "{} holds the data of a real etcd, which rkube cannot read: give another --data-dir",
        directory.display()
    );
    let handover = Handover { directory, is_synced: !given.switch("unsafe-no-fsync") };
    Ok(Giver::new(handover, uuid(entropy))?)
}

async fn listen(given: &Given) -> anyhow::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for url in given.list("listen-client-urls") {
        let host =
            url.strip_prefix("http://").with_context(|| format!("{url} is no http URL: rkube's etcd has no TLS"))?;
        let host = host.trim_end_matches('/');
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(host)
            .await
            .with_context(|| format!("cannot find out the address of {host}"))?
            .collect();
        let listener = TcpListener::bind(&addresses[..]).await.with_context(|| format!("cannot listen on {url}"))?;
        listeners.push(listener);
    }
    Ok(listeners)
}

async fn serve(listener: TcpListener, giver: Arc<Giver>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let giver = giver.clone();
        tokio::spawn(async move {
            attend(stream, giver).await;
            drop(place);
        });
    }
}

/// A pause when the system is out of file descriptors, so as not to spin.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
/// A client that says nothing for so long is sent away.
const CONNECTION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

async fn attend(stream: TcpStream, giver: Arc<Giver>) {
    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
        let response = answer(request.uri().path(), &giver);
        async move { Ok::<_, Infallible>(response) }
    });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // What went wrong concerns the client alone.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serving).await;
}

fn answer(path: &str, giver: &Giver) -> http::Response<Full<Bytes>> {
    let known = match path {
        "/health" => Some(r#"{"health":"true","reason":""}"#.to_owned()),
        "/livez" | "/readyz" => Some("ok\n".to_owned()),
        "/version" => Some(format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"3.6.0"}}"#)),
        other => giver.answer(other),
    };
    let (status, body) = match known {
        Some(body) => (http::StatusCode::OK, body),
        None => (http::StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    };
    let mut response = http::Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
}
