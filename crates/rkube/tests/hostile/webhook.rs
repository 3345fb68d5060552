//! A webhook over TLS that does what a test tells it to. Its threads end with the test program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

pub enum Reply {
    Json(Value),
    /// An error with this code and text.
    Error(u16, &'static str),
    /// 100 MB of nothing.
    Endless,
    HangsUp,
}

/// What becomes of a request to this path with this body. It may take its time.
type Answer = dyn Fn(&str, &Value) -> Reply + Send + Sync;

#[derive(Clone)]
pub struct Webhook {
    pub address: SocketAddr,
    /// PEM; its own certificate, as many authors have it.
    authority: String,
}

impl Webhook {
    pub fn start(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Webhook {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        let (config, answer) = (Arc::new(config), Arc::new(answer));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook = Webhook { address: listener.local_addr().unwrap(), authority: certificate.pem() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, answer) = (config.clone(), answer.clone());
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    let _ = serve(BufReader::new(StreamOwned::new(connection, stream)), &*answer);
                });
            }
        });
        webhook
    }

    /// What a configuration says of it.
    pub fn client_config(&self, path: &str) -> Value {
        let bundle = rkube_machinery::decode::base64::encode(self.authority.as_bytes());
        serde_json::json!({"url": format!("https://{}/{path}", self.address), "caBundle": bundle})
    }
}

fn serve(mut stream: BufReader<StreamOwned<ServerConnection, TcpStream>>, answer: &Answer) -> std::io::Result<()> {
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let path = first.split([' ', '?']).nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        let reply = answer(&path, &serde_json::from_slice(&body).unwrap());
        let out = stream.get_mut();
        match reply {
            Reply::HangsUp => return Ok(()),
            Reply::Error(code, text) => {
                let length = text.len();
                write!(out, "HTTP/1.1 {code} X\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{text}")?;
            }
            Reply::Endless => {
                write!(out, "HTTP/1.1 200 OK\r\n\r\n")?;
                let chunk = vec![b' '; 1 << 20];
                for _ in 0..100 {
                    out.write_all(&chunk)?;
                }
                return Ok(());
            }
            Reply::Json(answer) => {
                let answer = answer.to_string();
                let length = answer.len();
                write!(out, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}")?;
            }
        }
        out.flush()?;
    }
}
