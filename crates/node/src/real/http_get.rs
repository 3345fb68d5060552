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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rkube_machinery::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each connection with the next of these, and says what was asked.
    async fn serve(answers: Vec<String>) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut text = Vec::new();
                while !text.ends_with(b"\r\n\r\n") {
                    let mut bytes = [0; 1024];
                    let count = stream.read(&mut bytes).await.unwrap();
                    text.extend_from_slice(&bytes[..count]);
                }
                // Who asks may not want to hear all of it.
                let _ = stream.write_all(answer.as_bytes()).await;
                asked.push(String::from_utf8(text).unwrap());
            }
            asked
        });
        (port, asked)
    }

    fn get(port: u16, more: &str) -> Get {
        let action = json::parse(format!(r#"{{"port":{port},"path":"/a?b=c"{more}}}"#).as_bytes()).unwrap();
        Get::of_action(&action, &Value::object(), Some(Ipv4Addr::LOCALHOST.into()), "kube-probe/1.36").unwrap()
    }

    fn answer(head: &str, body: &str) -> String {
        format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn it_asks_as_upstream_does_and_follows_on_the_same_host() {
        let found = answer("302 Found\r\nLocation: /elsewhere", "");
        let (port, asked) = serve(vec![found, answer("200 OK", "hello")]).await;
        let headers = r#","httpHeaders":[{"name":"X-One","value":"1"},{"name":"Host","value":"example.com"}]"#;
        let said = send(get(port, headers)).await.unwrap();
        assert_eq!((said.code, &said.body[..]), (200, &b"hello"[..]));
        let asked = asked.await.unwrap();
        let first = asked[0].to_lowercase();
        assert!(first.starts_with("get /a?b=c http/1.1\r\n"), "{first}");
        for line in ["host: example.com", "x-one: 1", "user-agent: kube-probe/1.36", "accept: */*"] {
            assert!(first.contains(&format!("{line}\r\n")), "{line}: {first}");
        }
        assert!(asked[1].starts_with("GET /elsewhere "));
    }

    #[tokio::test]
    async fn it_goes_to_no_other_host_and_reads_no_more_than_it_has_to() {
        let (port, _) = serve(vec![answer("301 Moved\r\nLocation: http://192.0.2.1/", "")]).await;
        assert_eq!(send(get(port, "")).await.unwrap().code, 301);
        let (port, _) = serve(vec![answer("200 OK", &"x".repeat(1 << 20))]).await;
        assert_eq!(send(get(port, "")).await.unwrap().body.len(), BODY_MAX);
        let around = vec![answer("302 Found\r\nLocation: /", ""); 20];
        let (port, task) = serve(around).await;
        assert!(send(get(port, "")).await.unwrap_err().contains("redirects"));
        task.abort();
    }

    #[tokio::test]
    async fn what_is_not_there_is_told_in_known_words() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = send(get(port, "")).await.unwrap_err();
        assert_eq!(error, format!("dial tcp 127.0.0.1:{port}: connect: connection refused"));
        let container = json::parse(br#"{"ports":[{"name":"web","containerPort":8080}]}"#).unwrap();
        assert_eq!(port_of(&Value::from("web"), &container), Ok(8080));
        assert_eq!(port_of(&Value::from("other"), &container), Err("couldn't find port: other".to_owned()));
        assert!(port_of(&Value::from(70000), &container).is_err());
    }
}
