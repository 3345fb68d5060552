//! Connections through a whole server to a node that stands in for a real one: it says what it was asked, and speaks back
//! whatever it is told once a connection is upgraded.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rkube_access::User;
use rkube_machinery::{Value, json, object};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::kubelet::KubeletClient;
use crate::server::{ApiServer, Config};
use crate::{serve, test_server};

const TOKEN: &str = "secret";
const PODS: &str = "/api/v1/namespaces/proxy/pods";

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A server on a socket, and a node and a pod that it knows of.
struct Stage {
    api: SocketAddr,
    authority: String,
    server: Arc<ApiServer>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl Stage {
    async fn new() -> Stage {
        let issuer = authority();
        let client = issue(&issuer, "kube-apiserver-kubelet-client");
        let kubelet = KubeletClient { authority: issuer.pem(), certificate: Some(client), ..KubeletClient::default() };
        let mut token_file = rkube_access::authenticate::TokenFile::default();
        let groups = vec!["system:masters".into()];
        token_file.insert(TOKEN, User { name: "admin".into(), groups, ..User::default() });
        let server = ApiServer::start(Config { kubelet, token_file, ..test_server::config() }).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        tokio::spawn(serve::run(server.clone(), listener, server_config(&issuer, false), 10, stopped));
        let node = stand_in(server_config(&issuer, true)).await;
        let stage = Stage { api, authority: issuer.pem(), server, stop };
        stage.populate(node).await;
        stage
    }

    /// The node listens on this machine. Pods have an address that nobody answers at, except through the node.
    async fn populate(&self, node: SocketAddr) {
        let named = |name: &str| object! { "name": name };
        self.make("/api/v1/namespaces", object! { "metadata": named("proxy") }).await;
        self.make("/api/v1/namespaces/proxy/serviceaccounts", object! { "metadata": named("default") }).await;
        self.make("/api/v1/nodes", object! { "metadata": named("n") }).await;
        let status = object! { "status": object! {
            "addresses": vec![object! { "type": "Hostname", "address": "localhost" }],
            "daemonEndpoints": object! { "kubeletEndpoint": object! { "Port": i64::from(node.port()) } },
        } };
        self.patch("/api/v1/nodes/n/status", status).await;
        for (pod, node) in [("p", "n"), ("unplaced", "")] {
            let container = object! { "name": "c", "image": "i", "ports": vec![object! { "containerPort": 1 }] };
            let spec = object! { "nodeName": node, "containers": vec![container] };
            self.make(PODS, object! { "metadata": named(pod), "spec": spec }).await;
        }
    }

    async fn make(&self, path: &str, object: Value) {
        self.send(Method::POST, path, "application/json", object).await;
    }

    async fn patch(&self, path: &str, object: Value) {
        self.send(Method::PATCH, path, "application/merge-patch+json", object).await;
    }

    async fn send(&self, method: Method, path: &str, content_type: &'static str, object: Value) {
        let body = Bytes::from(json::to_string(&object));
        let (code, body) = test_server::ask(&self.server, method, path, content_type, body).await.unwrap();
        assert!(code.is_success(), "{path}: {}", String::from_utf8_lossy(&body));
    }

    /// Sends a request over the socket as somebody who may do everything.
    async fn ask(&self, request: http::request::Builder, body: &'static str) -> Response<Incoming> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.api).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let request = request.header("host", "localhost").header("authorization", format!("Bearer {TOKEN}"));
        sender.send_request(request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()).await.unwrap()
    }

    async fn text(&self, request: http::request::Builder, body: &'static str) -> (StatusCode, String) {
        let answer = self.ask(request, body).await;
        let code = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    async fn message(&self, path: &str) -> (u16, String) {
        let (code, text) = self.text(Request::get(path), "").await;
        (code.as_u16(), json::parse(text.as_bytes()).unwrap_or_default().str("message").to_owned())
    }
}

#[tokio::test]
async fn shells_and_ports_are_upgraded_whatever_the_protocol() {
    let stage = Stage::new().await;
    for (method, path, protocol, asked) in [
        (
            Method::POST,
            "exec?command=sh&stdin=true&stdout=true",
            "SPDY/3.1",
            "/exec/proxy/p/c?command=sh&input=1&output=1",
        ),
        (Method::GET, "exec?command=a%20b&stdout=1", "websocket", "/exec/proxy/p/c?command=a+b&output=1"),
        (Method::GET, "attach?container=c&stdout=1", "websocket", "/attach/proxy/p/c?output=1"),
        (Method::POST, "portforward?ports=80", "SPDY/3.1", "/portForward/proxy/p?port=80"),
    ] {
        let request = Request::builder().method(&method).uri(format!("{PODS}/p/{path}"));
        let request = request.header("connection", "Upgrade").header("upgrade", protocol);
        let mut answer = stage.ask(request, "").await;
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS, "{path}");
        assert_eq!(answer.headers()["upgrade"], protocol);
        assert_eq!(answer.headers()["x-asked"], format!("{method} {asked}"));
        assert!(!answer.headers()["x-headers"].to_str().unwrap().contains("authorization"));
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
        stream.write_all(b"hello").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "hello");
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_what_was_upgraded() {
    let stage = Stage::new().await;
    let request =
        Request::post(format!("{PODS}/p/attach")).header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
    let mut answer = stage.ask(request, "").await;
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
    stream.write_all(b"x").await.unwrap();
    stream.read_exact(&mut [0]).await.unwrap();
    stage.stop.send_replace(true);
    let mut rest = Vec::new();
    // However it ends: by an end, or by the connection going.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn what_a_node_says_against_an_upgrade_is_handed_on() {
    let stage = Stage::new().await;
    let upgrade = |path: &str| {
        Request::post(format!("{PODS}/{path}")).header("connection", "Upgrade").header("upgrade", "SPDY/3.1")
    };
    let refused = stage.text(upgrade("p/exec?command=refuse"), "").await;
    assert_eq!(refused, (StatusCode::NOT_FOUND, "no such container".to_owned()));
    let (code, text) = stage.text(upgrade("p/exec?command=ignore"), "").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("invalid upgrade response: status code 200"), "{text}");
    // A log over a WebSocket goes the same way.
    let log = Request::get(format!("{PODS}/p/log")).header("connection", "Upgrade").header("upgrade", "websocket");
    let (code, text) = stage.text(log, "").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("invalid upgrade response: status code 200"), "{text}");
    let (code, text) = stage.text(upgrade("unplaced/exec?command=sh"), "").await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(text.contains("pod unplaced does not have a host assigned"), "{text}");
    let (_, text) = stage.text(upgrade("p/exec?command=sh&container=x"), "").await;
    assert!(text.contains("container x is not valid for pod p"), "{text}");
    assert_eq!(stage.message(&format!("{PODS}/p/exec?command=sh")).await, (400, "Upgrade request required".to_owned()));
}

#[tokio::test]
async fn logs_come_from_the_node_as_they_are_written() {
    let stage = Stage::new().await;
    let log = |query: &str| format!("{PODS}/p/log?{query}");
    let (code, text) = stage.text(Request::get(log("tailLines=5&timestamps=true")), "").await;
    assert_eq!((code, text.as_str()), (StatusCode::OK, "GET /containerLogs/proxy/p/c?tailLines=5&timestamps=true"));
    // The node writes a line, and the next one only after it was told that the first has arrived.
    let mut answer = stage.ask(Request::get(log("follow=true")), "").await;
    assert_eq!(answer.headers()["content-type"], "text/plain");
    let first = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "first\n");
    for (query, code, message) in [
        ("previous=true", 400, "previous terminated container \"c\" in pod \"p\" not found"),
        ("sinceSeconds=1", 404, "the server could not find the requested resource ( pods/log p)"),
    ] {
        assert_eq!(stage.message(&log(query)).await, (code, message.to_owned()));
    }
    let (code, text) = stage.text(Request::get(format!("{PODS}/unplaced/log")), "").await;
    assert_eq!((code, text.as_str()), (StatusCode::NO_CONTENT, ""));
}

#[tokio::test]
async fn pods_and_services_are_refused_where_nobody_can_be_reached() {
    let stage = Stage::new().await;
    assert_eq!(stage.message(&format!("{PODS}/p/proxy/")).await, (400, "address not allowed".to_owned()));
    assert_eq!(
        stage.message(&format!("{PODS}/ftp:p:1/proxy/")).await,
        (400, "invalid pod request \"ftp:p:1\"".to_owned())
    );
    let missing = (404, "pods \"q\" not found".to_owned());
    assert_eq!(stage.message(&format!("{PODS}/q:80/proxy/")).await, missing);
    let services = "/api/v1/namespaces/proxy/services";
    let port = object! { "name": "web", "port": 80 };
    let spec = object! { "ports": vec![port] };
    stage.make(services, object! { "metadata": object! { "name": "s" }, "spec": spec }).await;
    assert_eq!(stage.message(&format!("{services}/s/proxy/")).await, (404, "services \"s\" not found".to_owned()));
    let endpoints = object! { "metadata": object! { "name": "s" } };
    stage.make("/api/v1/namespaces/proxy/endpoints", endpoints).await;
    let none = (503, "no endpoints available for service \"s\"".to_owned());
    assert_eq!(stage.message(&format!("{services}/http:s:web/proxy/")).await, none);
    let wrong = (503, "no service port 81 found for service \"s\"".to_owned());
    assert_eq!(stage.message(&format!("{services}/s:81/proxy/")).await, wrong);
    // The address of the node is this machine's own.
    assert_eq!(stage.message("/api/v1/nodes/n/proxy/").await, (400, "address not allowed".to_owned()));
}

#[tokio::test]
async fn what_nodes_use_is_asked_of_them() {
    let stage = Stage::new().await;
    let path = "/apis/metrics.k8s.io/v1beta1";
    assert_eq!(stage.text(Request::get(path), "").await.0, StatusCode::NOT_FOUND);
    stage.server.measure_nodes();
    let list = async |path: String| {
        loop {
            let (code, text) = stage.text(Request::get(&path), "").await;
            assert_eq!(code, StatusCode::OK);
            match json::parse(text.as_bytes()).unwrap().list("items") {
                [one] => return one.clone(),
                _ => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    };
    let node = list(format!("{path}/nodes")).await;
    assert_eq!(node.get("metadata").str("name"), "n");
    assert_eq!(node.get("usage").str("memory"), "1Mi");
    let pod = list(format!("{path}/namespaces/proxy/pods")).await;
    assert_eq!(pod.get("metadata").str("name"), "p");
    // A tenth of a second each second, by the clock of the node.
    let container = &pod.list("containers")[0];
    assert_eq!((container.str("name"), container.get("usage").str("cpu")), ("c", "100000000n"));
    assert_eq!(pod.str("window"), "10s");
    assert_eq!(stage.text(Request::get(path), "").await.0, StatusCode::OK);
}

fn authority() -> Issuer {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap()
}

/// PEM of a certificate for this machine and of its key.
fn issue(issuer: &Issuer, common_name: &str) -> (String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = vec![SanType::DnsName("localhost".try_into().unwrap())];
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn server_config(issuer: &Issuer, only_known_clients: bool) -> ServerConfig {
    let (certificate, key) = issue(issuer, "server");
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let builder = match only_known_clients {
        true => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        false => builder.with_no_client_auth(),
    };
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    builder.with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
}

/// A node's port: only who has a certificate of the authority is let in.
async fn stand_in(tls: ServerConfig) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve_node(stream).await;
                }
            });
        }
    });
    address
}

async fn serve_node(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
    let service = service_fn(|request| async move { Ok::<_, std::convert::Infallible>(answer(request)) });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = serving.with_upgrades().await;
}

/// What is used goes on by a second each time that somebody asks, and the clock by ten.
fn figures() -> String {
    static ASKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    let count = ASKED.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let at_ms = count * 10_000;
    let labels = "{container=\"c\",namespace=\"proxy\",pod=\"p\"}";
    format!(
        "node_cpu_usage_seconds_total {count} {at_ms}\nnode_memory_working_set_bytes 1048576 {at_ms}\n\
         container_cpu_usage_seconds_total{labels} {count} {at_ms}\n\
         container_memory_working_set_bytes{labels} 4096 {at_ms}\ncontainer_start_time_seconds{labels} 1\n"
    )
}

type NodeBody = http_body_util::combinators::UnsyncBoxBody<Bytes, std::convert::Infallible>;

fn answer(mut request: Request<Incoming>) -> Response<NodeBody> {
    let asked = format!("{} {}", request.method(), request.uri());
    let said = |code: u16, text: &str| {
        let body = Full::new(Bytes::from(text.to_owned())).boxed_unsync();
        Response::builder().status(code).body(body).unwrap()
    };
    match asked.as_str() {
        "GET /metrics/resource" => return said(200, &figures()),
        _ if asked.contains("command=refuse") => return said(404, "no such container"),
        _ if asked.contains("command=ignore") => return said(200, ""),
        _ if asked.contains("previous=true") => {
            return said(400, "previous terminated container \"c\" in pod \"p\" not found");
        }
        _ if asked.contains("sinceSeconds") => return said(404, "?"),
        _ if asked.contains("follow=true") => {
            // Never ends: what comes first must not wait for what comes last.
            let first = futures::stream::once(async { Ok(http_body::Frame::data(Bytes::from("first\n"))) });
            let lines = futures::StreamExt::chain(first, futures::stream::pending());
            return Response::new(http_body_util::StreamBody::new(lines).boxed_unsync());
        }
        _ if asked.contains("/containerLogs/") => return said(200, &asked),
        _ => {}
    }
    let protocol = request.headers()["upgrade"].clone();
    let headers: Vec<&str> = request.headers().keys().map(http::HeaderName::as_str).collect();
    let mut answer = said(101, "");
    answer.headers_mut().insert("x-asked", asked.parse().unwrap());
    answer.headers_mut().insert("x-headers", headers.join(" ").parse().unwrap());
    answer.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    answer.headers_mut().insert("upgrade", protocol);
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    });
    answer
}
