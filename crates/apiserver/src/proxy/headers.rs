//! Which headers go on to a backend and come back from it.

use std::net::IpAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CONNECTION, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// A subprotocol that is a bearer token, for browsers, which can set no other header.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// What concerns one connection and not the request.
const OF_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The client's address, for requests that may be passed on.
#[derive(Clone, Copy)]
pub struct ClientAddress(pub IpAddr);

/// Whether a request asks for another protocol on its connection, and which.
pub fn wanted_upgrade(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut options = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    // As upstream: the word may stand anywhere in it.
    options.any(|value| value.to_ascii_lowercase().contains("upgrade")).then(|| headers.get(UPGRADE)).flatten()
}

/// The headers of a request as the backend gets them. Who asked is known by then and none of the backend's business:
/// credentials go no further.
pub fn outgoing(parts: &Parts, forwarded_uri: Option<&str>) -> HeaderMap {
    let upgrade = wanted_upgrade(&parts.headers).cloned();
    let mut headers = parts.headers.clone();
    remove_of_connection(&mut headers);
    headers.remove(AUTHORIZATION);
    drop_token_protocols(&mut headers);
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
    if !headers.contains_key(HOST)
        && let Some(host) = parts.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok())
    {
        headers.insert(HOST, host);
    }
    if let Some(ClientAddress(address)) = parts.extensions.get() {
        let before = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok().map(str::to_owned));
        let all: Vec<String> = before.chain([address.to_string()]).collect();
        if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
            headers.insert(FORWARDED_FOR, value);
        }
    }
    if let Some(value) = forwarded_uri.and_then(|uri| HeaderValue::from_str(uri).ok()) {
        headers.insert(FORWARDED_URI, value);
    }
    headers
}

/// The headers of an answer as the client gets them.
pub fn incoming(headers: &mut HeaderMap) {
    remove_of_connection(headers);
}

/// Whom else a page may be shown to is not for the backend to say: to browsers it is the API server's.
pub fn remove_cors(headers: &mut HeaderMap) {
    for name in [
        ACCESS_CONTROL_ALLOW_CREDENTIALS,
        ACCESS_CONTROL_ALLOW_HEADERS,
        ACCESS_CONTROL_ALLOW_METHODS,
        ACCESS_CONTROL_ALLOW_ORIGIN,
    ] {
        headers.remove(name);
    }
}

fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
}

fn drop_token_protocols(headers: &mut HeaderMap) {
    let all: Vec<&str> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    if all.iter().any(|protocol| protocol.starts_with(TOKEN_PROTOCOL)) {
        let rest: Vec<&str> = all.into_iter().filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
        match HeaderValue::from_str(&rest.join(",")) {
            Ok(value) => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, value)),
            Err(_) => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri("https://host:6443/x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        parts.extensions.insert(ClientAddress([192, 0, 2, 1].into()));
        parts
    }

    #[test]
    fn credentials_and_what_concerns_the_connection_stay_here() {
        let parts = request(&[
            ("authorization", "Bearer x"),
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("x-forwarded-for", "198.51.100.7"),
            ("accept", "text/html"),
        ]);
        let headers = outgoing(&parts, Some("/api/x/"));
        let mut shown: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        shown.sort();
        let expected = [
            "accept: text/html",
            "host: host:6443",
            "x-forwarded-for: 198.51.100.7, 192.0.2.1",
            "x-forwarded-uri: /api/x/",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_upgrade_goes_on_without_the_token_in_it() {
        let parts = request(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io"),
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
        ]);
        let headers = outgoing(&parts, None);
        assert_eq!(headers["connection"], "Upgrade");
        assert_eq!(headers["upgrade"], "websocket");
        assert_eq!(headers["sec-websocket-protocol"], "v5.channel.k8s.io,v4.channel.k8s.io");
        assert!(wanted_upgrade(&request(&[("upgrade", "websocket")]).headers).is_none());
    }
}
