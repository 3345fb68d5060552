//! URLs, as Go reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Function, Outcome, failed, unfit};
use crate::value::{Map, Value};

/// The parts of an absolute URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    escaped_path: String,
    query: String,
    whole: String,
}

/// Where a URL stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Request,
    Link,
}

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "url" => |arguments| match &arguments[0] {
            Value::String(text) => match Url::parse(text) {
                Ok(url) => Ok(Value::Url(Arc::new(url))),
                Err(message) => failed(format!("URL parse error during conversion from string: {message}")),
            },
            _ => unfit(),
        },
        "isURL" => |arguments| match &arguments[0] {
            Value::String(text) => Ok(Value::Bool(Url::read(text, Place::Request).is_ok())),
            _ => unfit(),
        },
        "getScheme" => |arguments| part(arguments, |url| url.scheme.clone()),
        "getHost" => |arguments| part(arguments, |url| url.host.clone()),
        "getHostname" => |arguments| part(arguments, |url| url.host_and_port().0.to_owned()),
        "getPort" => |arguments| part(arguments, |url| url.host_and_port().1.to_owned()),
        "getEscapedPath" => |arguments| part(arguments, |url| url.escaped_path.clone()),
        "getQuery" => |arguments| match &arguments[0] {
            Value::Url(url) => Ok(Value::map(url.query_map())),
            _ => unfit(),
        },
        _ => return None,
    })
}

fn part<'a>(arguments: &[Value<'a>], of: fn(&Url) -> String) -> Outcome<'a> {
    match &arguments[0] {
        Value::Url(url) => Ok(Value::String(of(url).into())),
        _ => unfit(),
    }
}

impl Url {
    /// Reads what has a scheme, or begins with a slash. Upstream reads it twice: as a request names it, where a fragment
    /// is a part of the rest, and as a link does.
    pub fn parse(text: &str) -> Result<Url, String> {
        Url::read(text, Place::Request)?;
        Url::read(text, Place::Link)
    }

    fn read(text: &str, place: Place) -> Result<Url, String> {
        let wrong = |reason: String| format!("parse {}: {reason}", rkube_machinery::field::quote(text));
        if text.is_empty() {
            return Err(wrong("empty url".to_owned()));
        }
        let (rest, fragment) = match place {
            Place::Request => (text, ""),
            Place::Link => text.split_once('#').unwrap_or((text, "")),
        };
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(wrong("net/url: invalid control character in URL".to_owned()));
        }
        check_escapes(fragment).map_err(wrong)?;
        let (scheme, rest) = scheme(rest).map_err(|reason| wrong(reason.to_owned()))?;
        if !rest.starts_with('/') && (place == Place::Request || !scheme.is_empty()) {
            return match scheme.is_empty() {
                true => Err(wrong("invalid URI for request".to_owned())),
                false => Ok(Url::opaque(text, scheme, rest)),
            };
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let has_authority = !scheme.is_empty() || place == Place::Link && !rest.starts_with("///");
        let (authority, path) = match rest.strip_prefix("//").filter(|_| has_authority) {
            Some(after) => match after.find('/') {
                Some(slash) => after.split_at(slash),
                None => (after, ""),
            },
            None => ("", rest),
        };
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        check_host(host).map_err(wrong)?;
        check_user(user).map_err(wrong)?;
        check_escapes(path).map_err(wrong)?;
        Ok(Url {
            scheme,
            host: host.to_owned(),
            escaped_path: escape_path(path),
            query: query.to_owned(),
            whole: text.to_owned(),
        })
    }

    /// What has a scheme but no slash: nothing of it can be asked for.
    fn opaque(text: &str, scheme: String, rest: &str) -> Url {
        let query = rest.split_once('?').map_or("", |(_, query)| query).to_owned();
        Url { scheme, host: String::new(), escaped_path: String::new(), query, whole: text.to_owned() }
    }

    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rfind(':').filter(|colon| !self.host[*colon..].contains(']')) {
            Some(colon) => (&self.host[..colon], &self.host[colon + 1..]),
            None => (self.host.as_str(), ""),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }

    /// The values of the query by name; pairs that cannot be read are left out.
    fn query_map(&self) -> Map<'static> {
        let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescape_query(name), unescape_query(value)) {
                values.entry(name).or_default().push(Value::String(value.into()));
            }
        }
        values.into_iter().map(|(name, values)| (Value::String(name.into()), Value::list(values))).collect()
    }
}

fn scheme(text: &str) -> Result<(String, &str), &'static str> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme"),
            b':' => return Ok((text[..index].to_lowercase(), &text[index + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    let colon_port = match host.strip_prefix('[') {
        Some(bracketed) => match bracketed.find(']') {
            Some(end) => &bracketed[end + 1..],
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let valid = colon_port.is_empty()
        || colon_port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !valid {
        return Err(format!("invalid port {} after host", rkube_machinery::field::quote(colon_port)));
    }
    if let Some(letter) = host.chars().find(|letter| " #?^`{}|\\@".contains(*letter)) {
        return Err(format!("invalid character {} in host name", rkube_machinery::field::quote(&letter.to_string())));
    }
    check_escapes(host)
}

fn check_user(user: &str) -> Result<(), String> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(letter);
    if !user.chars().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    check_escapes(user)
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let digits = text.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let end = text.len().min(at + 3);
            let shown = rkube_machinery::field::quote(text.get(at..end).unwrap_or("%"));
            return Err(format!("invalid URL escape {shown}"));
        }
    }
    Ok(())
}

/// The path as it was written, where that is a way to write it; else with what must be escaped.
fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(byte as char),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@' | b'!' | b'\''
            | b'(' | b')' | b'*' | b'[' | b']' | b'%' => escaped.push(byte as char),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

fn unescape_query(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
