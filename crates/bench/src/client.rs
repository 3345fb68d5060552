//! The client of all measurements: hyper over rustls, on connections that stay open.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// A server, and what is needed to be heard by it.
#[derive(Clone)]
pub struct Server {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    /// What requests bring along where no certificate says who asks.
    authorization: Option<HeaderValue>,
}

impl Server {
    /// One that asks for no client certificate.
    pub fn trusting(address: SocketAddr, authority_pem: &[u8]) -> Result<Server> {
        let tls = builder()?.with_root_certificates(roots(authority_pem)?).with_no_client_auth();
        Ok(Server { address, tls: Arc::new(tls), authorization: None })
    }

    /// The one of a kubeconfig of `rkube up`, asked by who has this token.
    pub fn with_token(kubeconfig: &Path, token: &str) -> Result<Server> {
        let Server { address, .. } = Server::of_kubeconfig(kubeconfig)?;
        let authority = kubeconfig.with_file_name("pki").join("ca.crt");
        let server = Server::trusting(address, &std::fs::read(authority)?)?;
        Ok(Server { authorization: Some(HeaderValue::from_str(&format!("Bearer {token}"))?), ..server })
    }

    /// The one of a kubeconfig of `rkube up`.
    pub fn of_kubeconfig(path: &Path) -> Result<Server> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
            line.map(str::trim).with_context(|| format!("no {name} in the kubeconfig"))
        };
        let decode = |name: &str| -> Result<Vec<u8>> { Ok(STANDARD.decode(field(name)?)?) };
        let certificate = decode("client-certificate-data:")?;
        let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&decode("client-key-data:")?)?;
        let roots = roots(&decode("certificate-authority-data:")?)?;
        let tls = builder()?.with_root_certificates(roots).with_client_auth_cert(chain, key)?;
        let address = field("server:")?.trim_start_matches("https://").parse()?;
        Ok(Server { address, tls: Arc::new(tls), authorization: None })
    }

    /// A connection without a protocol on it.
    pub async fn open(&self, protocol: Protocol) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        let name = ServerName::IpAddress(self.address.ip().into());
        Ok(TlsConnector::from(Arc::new(tls)).connect(name, stream).await?)
    }

    pub async fn connect(&self, protocol: Protocol) -> Result<Connection> {
        let stream = TokioIo::new(self.open(protocol).await?);
        let authority = self.address.to_string();
        // A connection's task ends with its last sender; what went wrong on it is seen by the request that fails.
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.initial_stream_window_size(8 << 20).initial_connection_window_size(16 << 20);
                let (sender, connection) = builder.handshake(stream).await?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        let authorization = self.authorization.clone();
        Ok(Connection { sender, host: HeaderValue::from_str(&authority)?, authority, authorization })
    }

    /// One request on a connection of its own; the answer's body, which must be a good one.
    pub async fn once(&self, call: Call) -> Result<Bytes> {
        let mut connection = self.connect(Protocol::Http1).await?;
        let answer = connection.send(&call).await?;
        check(answer).await
    }
}

/// A request to make.
pub struct Call {
    pub method: Method,
    pub path: String,
    pub content_type: &'static str,
    pub accept: &'static str,
    pub body: Bytes,
}

pub const JSON: &str = "application/json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

impl Call {
    pub fn get(path: impl Into<String>) -> Call {
        Call { method: Method::GET, path: path.into(), content_type: "", accept: JSON, body: Bytes::new() }
    }

    pub fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Call {
        Call { method: Method::POST, path: path.into(), content_type: JSON, accept: JSON, body: body.into() }
    }
}

pub struct Connection {
    sender: Sender,
    authority: String,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    pub async fn send(&mut self, call: &Call) -> Result<Response<Incoming>> {
        let mut request = Request::builder().method(&call.method).header(header::ACCEPT, call.accept);
        if !call.content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, call.content_type);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        request = match self.sender {
            Sender::Http1(_) => request.uri(&call.path).header(header::HOST, &self.host),
            Sender::Http2(_) => request.uri(format!("https://{}{}", self.authority, call.path)),
        };
        let request = request.body(Full::new(call.body.clone()))?;
        Ok(match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        })
    }

    /// Another sender on the same connection, where the protocol has such a thing.
    pub fn share(&self) -> Option<Connection> {
        let Sender::Http2(sender) = &self.sender else { return None };
        let sender = Sender::Http2(sender.clone());
        let (authority, host, authorization) = (self.authority.clone(), self.host.clone(), self.authorization.clone());
        Some(Connection { sender, authority, host, authorization })
    }
}

/// The body of a good answer; what a bad one says is the error.
pub async fn check(answer: Response<Incoming>) -> Result<Bytes> {
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        bail!("{status}: {}", String::from_utf8_lossy(&body[..body.len().min(500)]));
    }
    Ok(body)
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?)
}

fn roots(pem: &[u8]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate?)?;
    }
    Ok(roots)
}
