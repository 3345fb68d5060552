//! HTTP/1.1 over TLS by hand: what goes over the wire is exactly what a test says, right or wrong.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rkube_testkit::{Rkube, TIMEOUT};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// Where a server is, and the administrator's certificate for it.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    nobody: Arc<ClientConfig>,
    address: String,
}

impl Client {
    pub fn of(rkube: &Rkube) -> Client {
        Client::at(&rkube.data_directory(), rkube.url().trim_start_matches("https://"))
    }

    /// With the certificates in a server's data directory.
    pub fn at(data: &Path, address: &str) -> Client {
        let file = |name: &str| std::fs::read_to_string(data.join("pki").join(name)).unwrap();
        Client::with(&file("ca.crt"), &file("admin.crt"), &file("admin.key"), address)
    }

    /// With these certificates, as PEM.
    pub fn with(authority: &str, certificate: &str, key: &str, address: &str) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let nobody = Arc::new(builder.clone().with_no_client_auth());
        let config = Arc::new(builder.with_client_auth_cert(vec![certificate], key).unwrap());
        Client { config, nobody, address: address.to_owned() }
    }

    pub fn without_certificate(&self) -> Client {
        Client { config: self.nobody.clone(), ..self.clone() }
    }

    /// How to connect, for who does it otherwise.
    pub fn config(&self) -> ClientConfig {
        (*self.config).clone()
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn connect(&self) -> io::Result<Connection> {
        let socket = TcpStream::connect(&self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let session = ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        Ok(Connection { stream: BufReader::new(StreamOwned::new(session, socket)), chunked: false })
    }

    /// One request on a connection of its own.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        self.connect()?.request(method, path, headers, body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"").unwrap()
    }
}

/// A connection on which requests follow each other.
pub struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    /// The answer that is being read comes in chunks.
    chunked: bool,
}

impl Connection {
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        self.write(&request(method, path, headers, body))?;
        self.answer()
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)?;
        self.stream.get_mut().flush()
    }

    /// The whole of the next answer.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = self.head()?;
        let length = answer.header("content-length").and_then(|text| text.parse::<usize>().ok());
        match length {
            _ if self.chunked => {
                while let Some(chunk) = self.chunk()? {
                    answer.body.extend_from_slice(&chunk);
                }
            }
            Some(length) => {
                answer.body.resize(length, 0);
                self.stream.read_exact(&mut answer.body)?;
            }
            None => {}
        }
        Ok(answer)
    }

    /// Status and headers of the next answer.
    pub fn head(&mut self) -> io::Result<Answer> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no HTTP: {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let answer = Answer { status, headers, body: Vec::new() };
        self.chunked = answer.header("transfer-encoding") == Some("chunked");
        Ok(answer)
    }

    /// The next chunk of a streamed answer; none at its end.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = usize::from_str_radix(self.line()?.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; length];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    /// All that comes until the server ends the connection.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).map(|_| rest)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&line);
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// The events of a watch, one by one.
pub struct Watch {
    connection: Connection,
    pending: Vec<u8>,
}

impl Watch {
    /// The answer where it is no stream of events.
    pub fn start(client: &Client, path: &str) -> io::Result<Result<Watch, Answer>> {
        let mut connection = client.connect()?;
        connection.write(&request("GET", path, &[], b""))?;
        let mut answer = connection.head()?;
        if answer.status != 200 {
            let length = answer.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            answer.body.resize(length, 0);
            connection.stream.read_exact(&mut answer.body)?;
            return Ok(Err(answer));
        }
        Ok(Ok(Watch { connection, pending: Vec::new() }))
    }

    /// None when the server ends the watch.
    pub fn next_event(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(io::Error::other);
            }
            match self.connection.chunk()? {
                Some(chunk) => self.pending.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, String::from_utf8_lossy(&self.body)))
    }
}

/// The bytes of a request; `Content-Length` is added where nothing is said about length.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: rkube\r\n");
    let framed = |name: &str| name.eq_ignore_ascii_case("content-length") || name == "Transfer-Encoding";
    if !body.is_empty() && !headers.iter().any(|(name, _)| framed(name)) {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}
