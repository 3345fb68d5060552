//! One webhook's client: TLS, HTTP/1.1, connections that are used again, and a bound on everything.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::error::{CallError, dial_words, lookup_words, read_words, refused};
use super::resolve::{Address, Resolver};
use super::{ClientConfig, Target, tls};

/// How long a call may take where nobody says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// So many calls of one webhook are under way at once; others wait, which counts as part of their time.
const CALLS_MAX: usize = 64;
/// So many connections are kept for the next calls: as many as are used at once, so that no load makes them over and over.
const IDLE_CONNECTIONS_MAX: usize = CALLS_MAX;
/// For so long. Go's client keeps them as long.
const IDLE_MAX: Duration = Duration::from_secs(90);
const USER_AGENT: &str = "kube-apiserver-admission";

pub struct Client {
    target: Place,
    /// `https://host/path`.
    url: String,
    path: String,
    host: String,
    server_name: ServerName<'static>,
    connector: TlsConnector,
    resolver: Arc<dyn Resolver>,
    calls: Semaphore,
    idle: Mutex<Vec<Idle>>,
}

enum Place {
    Address(Address),
    Service { namespace: String, name: String, port: u16 },
}

struct Idle {
    address: Address,
    since: Instant,
    sender: SendRequest<Full<Bytes>>,
}

/// What a call is allowed.
#[derive(Clone, Copy)]
pub struct Limits {
    pub timeout: Duration,
    /// An answer that is longer is no answer.
    pub response_bytes: usize,
}

impl Client {
    pub fn new(config: &ClientConfig, resolver: Arc<dyn Resolver>) -> Result<Client, CallError> {
        let wrong = CallError::Configuration;
        let connector = TlsConnector::from(tls::client_config(&config.ca_bundle).map_err(wrong)?);
        let (target, authority, host, path) = match &config.target {
            Target::Service { namespace, name, path, port } => {
                let host = format!("{name}.{namespace}.svc");
                let target = Place::Service { namespace: namespace.clone(), name: name.clone(), port: *port };
                (target, format!("{host}:{port}"), host, path.clone())
            }
            Target::Url(url) => {
                let uri: Uri = url.parse().map_err(|error| wrong(format!("Unparsable URL: {error}")))?;
                let authority = uri.authority().ok_or_else(|| wrong("Unparsable URL: no host".to_owned()))?;
                let host = authority.host().trim_matches(['[', ']']).to_owned();
                let address = Address { host: host.clone(), port: authority.port_u16().unwrap_or(443) };
                (Place::Address(address), authority.to_string(), host, uri.path().to_owned())
            }
        };
        let server_name = ServerName::try_from(host.clone()).map_err(|error| wrong(error.to_string()))?;
        let path = clean(&path);
        Ok(Client {
            target,
            url: format!("https://{authority}{path}"),
            path,
            host: authority,
            server_name,
            connector,
            resolver,
            calls: Semaphore::new(CALLS_MAX),
            idle: Mutex::default(),
        })
    }

    /// Sends a JSON document and returns what comes back.
    pub async fn post(&self, body: Bytes, limits: Limits) -> Result<Bytes, CallError> {
        let query = format!("?timeout={}", go_duration(limits.timeout));
        let url = format!("{}{query}", self.url);
        match tokio::time::timeout(limits.timeout, self.exchange(body, &query, limits.response_bytes)).await {
            Ok(Err(Failure::Unreached(why))) => Err(CallError::Unreached { url, why }),
            Ok(Err(Failure::Answered(error))) => Err(error),
            Ok(Ok(answer)) => Ok(answer),
            Err(_) => Err(CallError::Unreached { url, why: "context deadline exceeded".to_owned() }),
        }
    }

    async fn exchange(&self, body: Bytes, query: &str, bytes_max: usize) -> Result<Bytes, Failure> {
        let _turn = self.calls.acquire().await.map_err(|error| Failure::Unreached(error.to_string()))?;
        let (address, mut sender, mut is_used) = self.connect().await?;
        let response = loop {
            let error = match sender.send_request(self.request(body.clone(), query)?).await {
                Ok(response) => break response,
                Err(error) => error,
            };
            // A connection that was kept may have been closed while nobody looked.
            if !is_used {
                return Err(Failure::Unreached(http_words(&error)));
            }
            sender = self.dial(&address).await?;
            is_used = false;
        };
        let answer = read(response, bytes_max).await.map_err(Failure::Answered)?;
        self.keep(address, sender);
        Ok(answer)
    }

    fn request(&self, body: Bytes, query: &str) -> Result<Request<Full<Bytes>>, Failure> {
        let request = Request::post(format!("{}{query}", self.path))
            .header(header::HOST, &self.host)
            .header(header::ACCEPT, "application/json, */*")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, USER_AGENT);
        request.body(Full::new(body)).map_err(|error| Failure::Unreached(error.to_string()))
    }

    /// A connection, and whether it was used before.
    async fn connect(&self) -> Result<(Address, SendRequest<Full<Bytes>>, bool), Failure> {
        let candidates = match &self.target {
            Place::Address(address) => vec![address.clone()],
            Place::Service { namespace, name, port } => {
                self.resolver.resolve(namespace, name, *port).map_err(Failure::Unreached)?
            }
        };
        while let Some(mut found) = self.take_idle(&candidates) {
            // The end of the last answer may just have come.
            if found.sender.ready().await.is_ok() {
                return Ok((found.address, found.sender, true));
            }
        }
        let address = candidates.into_iter().next().ok_or_else(|| Failure::Unreached("no address".to_owned()))?;
        let sender = self.dial(&address).await?;
        Ok((address, sender, false))
    }

    fn take_idle(&self, candidates: &[Address]) -> Option<Idle> {
        let mut idle = self.idle.lock();
        idle.retain(|kept| kept.since.elapsed() < IDLE_MAX && !kept.sender.is_closed());
        let place = idle.iter().rposition(|kept| candidates.contains(&kept.address))?;
        Some(idle.swap_remove(place))
    }

    fn keep(&self, address: Address, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(Idle { address, since: Instant::now(), sender });
        }
    }

    async fn dial(&self, address: &Address) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let stream = open(address).await.map_err(Failure::Unreached)?;
        let (local, peer) = (stream.local_addr().ok(), stream.peer_addr().ok());
        let _ = stream.set_nodelay(true);
        let name = self.server_name.clone();
        let stream = self.connector.connect(name, stream).await.map_err(|error| {
            let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            Failure::Unreached(match of_tls {
                Some(of_tls) => tls::words(of_tls, &self.server_name.to_str()),
                None => read_words(local, peer, &error),
            })
        })?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| Failure::Unreached(http_words(&error)))?;
        // Ends when the sender is dropped or the other side hangs up.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

enum Failure {
    Unreached(String),
    Answered(CallError),
}

async fn open(address: &Address) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((address.host.as_str(), address.port)).await;
    let found: Vec<SocketAddr> = found.map_err(|_| lookup_words(&address.host))?.collect();
    let mut failure = lookup_words(&address.host);
    for address in found {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = dial_words(&address.to_string(), &error),
        }
    }
    Err(failure)
}

/// The whole answer, if it is one and not too long.
async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes, CallError> {
    let too_long = || CallError::Broken("http: response body too large".to_owned());
    let (head, mut body) = response.into_parts();
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_long());
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| CallError::Broken(http_words(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > bytes_max {
            return Err(too_long());
        }
        read.extend_from_slice(&data);
    }
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !(200..=206).contains(&head.status.as_u16()) {
        return Err(refused(head.status, content_type, &read));
    }
    if read.is_empty() {
        let content_type = content_type.unwrap_or("application/json").to_owned();
        return Err(CallError::Empty { code: head.status.as_u16(), content_type });
    }
    Ok(read.freeze())
}

pub fn http_words(error: &hyper::Error) -> String {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            return read_words(None, None, inner);
        }
        source = inner.source();
    }
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return "EOF".to_owned();
    }
    if error.is_parse() {
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned();
    }
    error.to_string()
}

/// A path without empty steps, dots and a slash at the end.
fn clean(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

/// `30s`, `1m0s`: as Go writes whole seconds.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) if duration.subsec_millis() > 0 => format!("{}s", duration.as_secs_f64()),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_durations_are_written_as_in_go() {
        for (path, cleaned) in [("", "/"), ("/", "/"), ("/a//b/../c/", "/a/c"), ("a/./b", "/a/b"), ("/../a", "/a")] {
            assert_eq!(clean(path), cleaned);
        }
        for (seconds, written) in [(30.0, "30s"), (60.0, "1m0s"), (3_605.0, "1h0m5s"), (1.5, "1.5s")] {
            assert_eq!(go_duration(Duration::from_secs_f64(seconds)), written);
        }
    }
}
