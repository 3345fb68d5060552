//! What a client would speak and what we do: the first of its protocols that we know.

use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use http::{Method, Response, StatusCode};
use rkube_runtime::api::ExecRequest;
use rkube_streaming::spdy;
use rkube_streaming::websocket::channels::{Codec, Config};
use rkube_streaming::websocket::handshake;

use super::status::Form;
use crate::server::answer::{self, Refusal};

/// Of SPDY.
const VERSIONS: &[&str] = &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
const VERSION_5: &str = "v5.channel.k8s.io";
/// Of WebSockets. Who knows version 5 gets that.
const CHANNELS: &[&str] =
    &["", "channel.k8s.io", "base64.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];

/// What will be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Spdy { version: u8 },
    WebSocket { version: u8, codec: Codec },
}

impl Protocol {
    pub fn status_form(self) -> Form {
        match self {
            Protocol::WebSocket { version: 5, .. } => Form::ApiStatus,
            Protocol::WebSocket { version: 4, .. } | Protocol::Spdy { version: 4 } => Form::Status,
            _ => Form::Message,
        }
    }

    pub fn has_sizes(self) -> bool {
        match self {
            Protocol::Spdy { version } => version >= 3,
            Protocol::WebSocket { .. } => true,
        }
    }
}

/// What was agreed on, and the head of the answer that says so.
#[derive(Debug)]
pub struct Agreed {
    pub head: Response<()>,
    pub protocol: Protocol,
}

pub fn remote_command(method: &Method, headers: &HeaderMap) -> Result<Agreed, Refusal> {
    if !handshake::is_upgrade(headers) {
        return Err(answer::line(StatusCode::INTERNAL_SERVER_ERROR, "Upgrade request required").into());
    }
    if handshake::is_websocket(headers) {
        let knows_5 = handshake::requested_protocols(headers).contains(&VERSION_5);
        let supported = if knows_5 { &[VERSION_5] } else { CHANNELS };
        let (chosen, head) = handshake::accept(method, headers, supported).map_err(|why| refused(&why))?;
        let version = match chosen {
            VERSION_5 => 5,
            chosen if chosen.starts_with("v4.") => 4,
            _ => 1,
        };
        let codec = if chosen.contains("base64") { Codec::Base64 } else { Codec::Binary };
        return Ok(Agreed { head, protocol: Protocol::WebSocket { version, codec } });
    }
    let (chosen, head) = spdy_upgrade(headers, VERSIONS)?;
    let version = match chosen {
        "v4.channel.k8s.io" => 4,
        "v3.channel.k8s.io" => 3,
        "v2.channel.k8s.io" => 2,
        _ => 1,
    };
    Ok(Agreed { head, protocol: Protocol::Spdy { version } })
}

pub fn refused(why: &handshake::Refusal) -> Refusal {
    let mut refusal = answer::line(why.status(), &why.to_string());
    if *why == handshake::Refusal::Version {
        refusal.headers_mut().insert("sec-websocket-version", HeaderValue::from_static("13"));
    }
    refusal.into()
}

/// The first of the client's protocols that is among ours, and the head of the answer.
pub fn spdy_upgrade(headers: &HeaderMap, ours: &[&'static str]) -> Result<(&'static str, Response<()>), Refusal> {
    let bad = |why: String| Err(answer::line(StatusCode::BAD_REQUEST, &format!("unable to upgrade: {why}")).into());
    if !headers.contains_key(spdy::PROTOCOL_VERSION) {
        let count = headers.keys_len();
        return bad(format!("header X-Stream-Protocol-Version does not exist in request with {count} headers"));
    }
    let values: Vec<&str> =
        headers.get_all(spdy::PROTOCOL_VERSION).iter().filter_map(|value| value.to_str().ok()).collect();
    let theirs: Vec<&str> = values
        .iter()
        .flat_map(|value| value.split(','))
        .map(|it| it.trim_matches(' '))
        .filter(|it| !it.is_empty())
        .collect();
    if theirs.is_empty() {
        let values = values.join(" ");
        return bad(format!("header X-Stream-Protocol-Version contains [{values}], but no valid protocols"));
    }
    let chosen = theirs.iter().find_map(|wanted| ours.iter().copied().find(|it| it == wanted));
    let Some(chosen) = chosen else {
        let text = format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
            theirs.join(" "),
            ours.join(" ")
        );
        let mut refusal = answer::line(StatusCode::FORBIDDEN, &text);
        for protocol in ours {
            let value = HeaderValue::from_static(protocol);
            refusal.headers_mut().append("x-accepted-stream-protocol-versions", value);
        }
        return Err(refusal.into());
    };
    let names_spdy = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
    if !names_spdy.is_some_and(|value| value.to_ascii_lowercase().contains("spdy/3.1")) {
        return bad("missing upgrade headers in request".to_owned());
    }
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    head.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    head.headers_mut().insert(UPGRADE, HeaderValue::from_static(spdy::UPGRADE));
    head.headers_mut().insert(spdy::PROTOCOL_VERSION, HeaderValue::from_static(chosen));
    Ok((chosen, head))
}

/// Channels of a command: stdin, stdout, stderr, error, sizes.
pub fn channel_config(version: u8, codec: Codec, wanted: &ExecRequest) -> Config {
    Config { codec, closes: version == 5, readable: vec![wanted.stdin, false, false, false, true] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(pairs: &[(&'static str, &'static str)]) -> Result<Protocol, u16> {
        let headers: HeaderMap =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect();
        let agreed = remote_command(&Method::GET, &headers);
        agreed.map(|agreed| agreed.protocol).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn websockets() {
        let websocket = |protocols: &'static str| {
            agree(&[
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
                ("sec-websocket-protocol", protocols),
            ])
        };
        let channels = |version, codec| Ok(Protocol::WebSocket { version, codec });
        assert_eq!(websocket("v4.channel.k8s.io,v5.channel.k8s.io"), channels(5, Codec::Binary));
        assert_eq!(websocket("v4.channel.k8s.io"), channels(4, Codec::Binary));
        assert_eq!(websocket("v4.base64.channel.k8s.io"), channels(4, Codec::Base64));
        assert_eq!(websocket("x, channel.k8s.io"), channels(1, Codec::Binary));
        assert_eq!(websocket("base64.channel.k8s.io"), channels(1, Codec::Base64));
        assert_eq!(websocket(""), channels(1, Codec::Binary));
        assert_eq!(websocket("v3.channel.k8s.io"), Err(403));
    }

    #[test]
    fn spdy_versions() {
        let spdy = |protocols: &'static str| {
            agree(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", protocols)])
        };
        assert_eq!(spdy("v5.channel.k8s.io, v4.channel.k8s.io"), Ok(Protocol::Spdy { version: 4 }));
        assert_eq!(spdy("channel.k8s.io"), Ok(Protocol::Spdy { version: 1 }));
        assert_eq!(spdy("v5.channel.k8s.io"), Err(403));
        assert_eq!(spdy(" , "), Err(400));
        assert_eq!(agree(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]), Err(400));
        assert_eq!(
            agree(&[("connection", "upgrade"), ("upgrade", "h2c"), ("x-stream-protocol-version", "channel.k8s.io")]),
            Err(400)
        );
        assert_eq!(agree(&[]), Err(500), "as upstream");
    }
}
