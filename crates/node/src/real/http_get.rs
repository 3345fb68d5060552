//! A GET as probes and hooks send it: by the pod's address, with no proxy, and without looking at certificates, because
//! nobody gives pods any that fit their addresses.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use rkube_machinery::Value;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::unverified;

/// So much of an answer is looked at; what is more is not read.
pub const BODY_MAX: usize = 10 * 1024;
/// So often an answer may send us elsewhere.
const REDIRECTS_MAX: usize = 10;

/// What to ask for.
#[derive(Clone, Debug)]
pub struct Get {
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
    pub path: String,
    pub headers: HeaderMap,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Bytes,
}

impl Get {
    /// Of an action of a probe or a hook.
    pub fn of_action(action: &Value, container: &Value, address: Option<IpAddr>, agent: &str) -> Result<Get, String> {
        let host = match (action.str("host"), address) {
            ("", Some(address)) => address.to_string(),
            ("", None) => return Err("the pod has no address".to_owned()),
            (host, _) => host.to_owned(),
        };
        let mut headers = HeaderMap::new();
        for header in action.list("httpHeaders") {
            let name = HeaderName::from_bytes(header.str("name").as_bytes()).map_err(|error| error.to_string())?;
            let value = HeaderValue::from_str(header.str("value")).map_err(|error| error.to_string())?;
            headers.append(name, value);
        }
        if !headers.contains_key(USER_AGENT) {
            headers.insert(USER_AGENT, HeaderValue::from_str(agent).map_err(|error| error.to_string())?);
        }
        match headers.get(ACCEPT).map(HeaderValue::is_empty) {
            None => {
                headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
            }
            Some(true) => {
                headers.remove(ACCEPT);
            }
            Some(false) => {}
        }
        let path = action.str("path");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let is_tls = action.str("scheme").eq_ignore_ascii_case("https");
        Ok(Get { is_tls, host, port: port_of(action.get("port"), container)?, path, headers })
    }

    pub fn authority(&self) -> String {
        join(&self.host, self.port)
    }
}

/// Host and port, as they stand in URLs.
pub fn join(host: &str, port: u16) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(address) => format!("[{address}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// What went wrong with a connection, in the words that people look for.
pub fn io_text(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    }
}

/// A port by its number or by its name in the container.
pub fn port_of(port: &Value, container: &Value) -> Result<u16, String> {
    let number = match port {
        Value::Int(number) => *number,
        named => {
            let name = named.as_str();
            let found = container.list("ports").iter().find(|port| port.str("name") == name);
            match found {
                Some(port) => port.int("containerPort"),
                None => name.parse().map_err(|_| format!("couldn't find port: {name}"))?,
            }
        }
    };
    u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(|| format!("invalid port number: {number}"))
}

/// Sends it, and follows where the answer leads as long as that is the same host.
pub async fn send(mut get: Get) -> Result<Answer, String> {
    for _ in 0..=REDIRECTS_MAX {
        let (code, body, location) = exchange(&get).await?;
        let Some(location) = location.filter(|_| (300..400).contains(&code)) else {
            return Ok(Answer { code, body });
        };
        let Ok(target) = location.parse::<Uri>() else { return Ok(Answer { code, body }) };
        if target.host().is_some_and(|host| host.trim_matches(['[', ']']) != get.host) {
            return Ok(Answer { code, body });
        }
        if let Some(scheme) = target.scheme_str() {
            get.is_tls = scheme == "https";
            get.port = target.port_u16().unwrap_or(if get.is_tls { 443 } else { 80 });
        }
        let path = target.path_and_query().map_or("/", |path| path.as_str());
        get.path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    }
    Err(format!("stopped after {REDIRECTS_MAX} redirects"))
}

/// The same; one who speaks no TLS where it was asked for is asked without.
pub async fn send_either(get: Get) -> Result<Answer, String> {
    match send(get.clone()).await {
        Err(_) if get.is_tls => {
            let mut plain = Get { is_tls: false, ..get };
            plain.headers.remove(AUTHORIZATION);
            send(plain).await
        }
        answer => answer,
    }
}

async fn exchange(get: &Get) -> Result<(u16, Bytes, Option<String>), String> {
    let text = |error: std::io::Error| format!("dial tcp {}: {}", get.authority(), io_text(&error));
    let stream = TcpStream::connect((get.host.as_str(), get.port)).await.map_err(text)?;
    if !get.is_tls {
        return exchange_over(stream, get).await;
    }
    let connector = TlsConnector::from(Arc::new(unverified::client_config()));
    let name = ServerName::try_from(get.host.clone()).map_err(|error| error.to_string())?;
    exchange_over(connector.connect(name, stream).await.map_err(text)?, get).await
}

async fn exchange_over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    get: &Get,
) -> Result<(u16, Bytes, Option<String>), String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    // Ends with this: who answers without end is not listened to.
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
    });
    let mut request = Request::get(get.path.as_str()).body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    *request.headers_mut() = get.headers.clone();
    if !get.headers.contains_key(HOST) {
        let host = HeaderValue::from_str(&get.authority()).map_err(|error| error.to_string())?;
        request.headers_mut().insert(HOST, host);
    }
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let (code, location) = (answer.status().as_u16(), answer.headers().get(LOCATION).cloned());
    let mut body = answer.into_body();
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        if let Ok(data) = frame.into_data() {
            let room = BODY_MAX - kept.len();
            kept.extend_from_slice(&data[..data.len().min(room)]);
            if kept.len() == BODY_MAX {
                break;
            }
        }
    }
    Ok((code, kept.freeze(), location.and_then(|location| location.to_str().map(str::to_owned).ok())))
}
