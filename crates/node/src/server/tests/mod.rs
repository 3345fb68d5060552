//! The whole server, over TLS on loopback, against clients that speak by hand.

mod client_go;
mod commands;
mod fake;
mod figures;
mod forwarding;
mod log_requests;
mod requests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_machinery::{Value, json};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::access::attributes::Attributes;
use super::access::{Access, User};
use super::{Config, Pods, serve};
use fake::FakeRuntime;

/// No test waits longer for what has to come.
const PATIENCE: Duration = Duration::from_secs(60);

struct NoClock;

impl Clock for NoClock {
    fn now_micros(&self) -> i64 {
        1_600_000_000_000_000
    }
}

#[derive(Default)]
struct FakePods(Mutex<Vec<Arc<Value>>>);

impl Pods for FakePods {
    fn pods(&self) -> Vec<Arc<Value>> {
        self.0.lock().clone()
    }
}

/// Tokens are names; `admin` may do everything, others may get figures.
struct FakeAccess;

impl Access for FakeAccess {
    fn certificate(&self, _: &[CertificateDer<'_>]) -> Option<Arc<User>> {
        None
    }

    fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Arc<User>>, String>> {
        let user = User { name: token.to_owned(), ..User::default() };
        let found = match token {
            "nobody" => Ok(None),
            "broken" => Err("no API server".to_owned()),
            _ => Ok(Some(Arc::new(user))),
        };
        futures::future::ready(found).boxed()
    }

    fn allows<'a>(&'a self, user: &'a Arc<User>, attributes: &'a Attributes) -> BoxFuture<'a, Result<bool, String>> {
        let is_allowed = match (user.name.as_str(), attributes.subresource) {
            ("admin", _) => Ok(true),
            ("lost", _) => Err("no API server".to_owned()),
            (_, subresource) => Ok(attributes.verb == "get" && ["stats", "metrics", "pods"].contains(&subresource)),
        };
        futures::future::ready(is_allowed).boxed()
    }
}

pub struct TestServer {
    address: SocketAddr,
    connector: TlsConnector,
    runtime: Arc<FakeRuntime>,
    pods: Arc<FakePods>,
    directory: tempfile::TempDir,
    stop: watch::Sender<bool>,
}

impl TestServer {
    async fn start() -> TestServer {
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
        let tls = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(key.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (runtime, pods) = (Arc::new(FakeRuntime::default()), Arc::new(FakePods::default()));
        let (stop, stopping) = watch::channel(false);
        let config = Config {
            node: "node-1".into(),
            runtime: runtime.clone(),
            pods: pods.clone(),
            access: Arc::new(FakeAccess),
            clock: Arc::new(NoClock),
            configuration: Value::object(),
        };
        tokio::spawn(serve(config, listener, tls, stopping));
        let directory = tempfile::tempdir().unwrap();
        let server = TestServer { address, connector: Arc::new(client).into(), runtime, pods, directory, stop };
        server.add_pod("p");
        server
    }

    /// A pod of the namespace `default` whose container `c` runs.
    fn add_pod(&self, name: &str) {
        self.runtime.add(name, "c", self.log());
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"uid-1"}},
                "spec":{{"containers":[{{"name":"c"}},{{"name":"late"}}]}},
                "status":{{"containerStatuses":[
                    {{"name":"c","containerID":"fake://{name}-c","state":{{"running":{{}}}}}},
                    {{"name":"late","state":{{"waiting":{{"reason":"ContainerCreating"}}}}}}]}}}}"#
        );
        self.pods.0.lock().push(Arc::new(json::parse(text.as_bytes()).unwrap()));
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("0.log")
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        self.connector.connect(name, stream).await.unwrap()
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TokioIo::new(self.connect().await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let sent = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
        sent.expect("the server answers").unwrap()
    }

    async fn get_as(&self, token: &str, path: &str) -> (u16, String) {
        let request = request("GET", path).header("authorization", format!("Bearer {token}"));
        let answer = self.send(request.body(Full::default()).unwrap()).await;
        let status = answer.status().as_u16();
        let body = tokio::time::timeout(PATIENCE, answer.into_body().collect()).await.expect("the answer ends");
        (status, String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.get_as("admin", path).await
    }
}

fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header("host", "localhost")
}
