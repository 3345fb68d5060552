//! A webhook over TLS for tests, which answers what it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What becomes of a request whose body is given.
pub(crate) type Answer = Arc<dyn Fn(&str) -> Reply + Send + Sync>;

pub(crate) enum Reply {
    /// This text as it stands, then the next request.
    Text(String),
    /// This text, then so many bytes, then the end.
    Flood(String, usize),
    Hang,
    HangUp,
}

pub(crate) struct TestServer {
    pub address: SocketAddr,
    /// PEM of what the server's certificate is to be trusted by.
    pub authority: String,
    pub connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer with this code, type and body.
pub(crate) fn reply(code: u16, content_type: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Text(format!("HTTP/1.1 {code} X\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"))
}

impl TestServer {
    pub(crate) async fn start(names: &[&str], answer: Answer) -> TestServer {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        TestServer::with(CertificateParams::new(names).unwrap(), true, answer).await
    }

    /// `issued`: by an authority; else the certificate is its own, and says that it is an authority.
    pub(crate) async fn with(mut params: CertificateParams, issued: bool, answer: Answer) -> TestServer {
        let key = KeyPair::generate().unwrap();
        let (certificate, authority) = if issued {
            let mut authority = CertificateParams::default();
            authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let issuer = rcgen::CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
            (params.signed_by(&key, &issuer).unwrap(), issuer.pem())
        } else {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key).unwrap();
            let pem = certificate.pem();
            (certificate, pem)
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, &*answer).await;
                    }
                });
            }
        });
        TestServer { address, authority, connections, task }
    }
}

async fn serve(mut stream: TlsStream<TcpStream>, answer: &(dyn Fn(&str) -> Reply + Send + Sync)) {
    let mut read = Vec::new();
    loop {
        let Some(request) = next_request(&mut stream, &mut read).await else { return };
        match answer(&request) {
            Reply::Text(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Reply::Flood(text, bytes) => {
                stream.write_all(text.as_bytes()).await.unwrap();
                let chunk = vec![b' '; 64 << 10];
                for _ in 0..bytes / chunk.len() {
                    if stream.write_all(&chunk).await.is_err() {
                        return;
                    }
                }
                return;
            }
            Reply::Hang => std::future::pending().await,
            Reply::HangUp => return,
        }
    }
}

/// The head and the body of the next request.
async fn next_request(stream: &mut TlsStream<TcpStream>, read: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(read).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let head = text[..end].to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let whole = end + 4 + length.unwrap_or(0);
            if read.len() >= whole {
                let request = String::from_utf8_lossy(&read[..whole]).into_owned();
                read.drain(..whole);
                return Some(request);
            }
        }
        let mut chunk = vec![0; 16 << 10];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => read.extend_from_slice(&chunk[..count]),
        }
    }
}
