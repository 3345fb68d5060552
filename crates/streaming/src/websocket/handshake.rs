//! From a request to a WebSocket.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
};
use http::header::{SEC_WEBSOCKET_ACCEPT, UPGRADE};
use http::{Method, Response, StatusCode};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// Before the name of a protocol of SPDY that is spoken inside of a WebSocket.
pub const TUNNEL_PREFIX: &str = "SPDY/3.1+";

/// What RFC 6455 adds to a client's key before it is hashed.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request wants to leave HTTP.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONNECTION).iter();
    values.any(|value| value.as_bytes().to_ascii_lowercase().windows(7).any(|part| part == b"upgrade"))
}

/// Whether it wants to leave it for a WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    let is_named = headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    is_named && is_upgrade(headers)
}

/// The protocols that a client would speak in it, the best first.
pub fn requested_protocols(headers: &HeaderMap) -> Vec<&str> {
    let text = headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(',').map(str::trim).filter(|protocol| !protocol.is_empty()).collect()
}

/// Why there will be no WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("bad method")]
    Method,
    #[error("missing or bad WebSocket Version")]
    Version,
    #[error("mismatch challenge/response")]
    Key,
    #[error("requested protocol(s) are not supported: [{}]; supports [{}]", requested.join(" "), supported.join(" "))]
    Protocol { requested: Vec<String>, supported: Vec<String> },
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Version | Refusal::Key => StatusCode::BAD_REQUEST,
            Refusal::Protocol { .. } => StatusCode::FORBIDDEN,
        }
    }
}

/// Which of the supported protocols will be spoken, and the head of the answer that says so. `""` among the supported ones
/// stands for clients that name none.
pub fn accept(
    method: &Method,
    headers: &HeaderMap,
    supported: &[&'static str],
) -> Result<(&'static str, Response<()>), Refusal> {
    if method != Method::GET {
        return Err(Refusal::Method);
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(Refusal::Version);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()).ok_or(Refusal::Key)?;
    let mut requested = requested_protocols(headers);
    if requested.is_empty() {
        requested.push("");
    }
    let chosen = requested.iter().find_map(|wanted| supported.iter().copied().find(|it| it == wanted));
    let Some(chosen) = chosen else {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        return Err(Refusal::Protocol { requested: owned(&requested), supported: owned(supported) });
    };
    let mut answer = Response::new(());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answered = answer.headers_mut();
    answered.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answered.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), GUID].concat());
    let accept_key = STANDARD.encode(proof);
    answered.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&accept_key).map_err(|_| Refusal::Key)?);
    if !chosen.is_empty() {
        answered.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(chosen));
    }
    Ok((chosen, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_first_that_both_know_is_spoken() {
        let request = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "v9.channel.k8s.io, v5.channel.k8s.io,v4.channel.k8s.io"),
        ]);
        assert!(is_websocket(&request));
        let (chosen, answer) = accept(&Method::GET, &request, &["v4.channel.k8s.io", "v5.channel.k8s.io"]).unwrap();
        assert_eq!(chosen, "v5.channel.k8s.io");
        assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "of RFC 6455");
        assert_eq!(answer.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
        let refusal = accept(&Method::GET, &request, &["", "channel.k8s.io"]).unwrap_err();
        assert_eq!(refusal.status(), 403);
        assert_eq!(accept(&Method::POST, &request, &[""]).unwrap_err().status(), 405);
    }

    #[test]
    fn who_names_none_gets_the_one_without_a_name() {
        let mut request = headers(&[("sec-websocket-version", "13"), ("sec-websocket-key", "a")]);
        assert_eq!(accept(&Method::GET, &request, &["x", ""]).unwrap().0, "");
        assert!(accept(&Method::GET, &request, &["x"]).is_err());
        request.remove("sec-websocket-key");
        assert_eq!(accept(&Method::GET, &request, &[""]).unwrap_err(), Refusal::Key);
        request.remove("sec-websocket-version");
        assert_eq!(accept(&Method::GET, &request, &[""]).unwrap_err(), Refusal::Version);
        assert!(!is_websocket(&request));
    }
}
