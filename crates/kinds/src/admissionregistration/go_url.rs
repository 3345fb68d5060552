//! URLs as Go reads them, with Go's words for what is wrong.

use rkube_machinery::field::quote;

/// The parts of a URL that its users here look at.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    /// User and password, escaped.
    pub user: Option<String>,
    pub host: String,
    pub query: String,
    pub fragment: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Path,
    Host,
    User,
    Fragment,
}

pub fn parse(text: &str) -> Result<Url, String> {
    let (whole, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = parse_parts(whole).map_err(|error| format!("parse {}: {error}", quote(whole)))?;
    url.fragment = unescape(fragment, Mode::Fragment).map_err(|error| format!("parse {}: {error}", quote(text)))?;
    Ok(url)
}

/// A URL as it stands in a request: a `#` is a letter like others.
pub fn parse_request(text: &str) -> Result<Url, String> {
    parse_parts(text).map_err(|error| format!("parse {}: {error}", quote(text)))
}

/// Whether Go takes the text for the URI of a request: absolute, or a path from the root.
pub fn is_request_uri(text: &str) -> bool {
    if text == "*" {
        return true;
    }
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    let Ok((scheme, rest)) = split_scheme(text) else { return false };
    let (rest, _) = rest.split_once('?').unwrap_or((rest, ""));
    match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(authority) => {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            let mut url = Url { scheme: scheme.to_ascii_lowercase(), ..Url::default() };
            parse_authority(authority, &mut url).is_ok() && unescape(path, Mode::Path).is_ok()
        }
        None if rest.starts_with('/') => unescape(rest, Mode::Path).is_ok(),
        None => !scheme.is_empty(),
    }
}

fn parse_parts(text: &str) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok(url);
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut path = rest;
    if let Some(authority) = rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) {
        let end = authority.find('/').unwrap_or(authority.len());
        path = &authority[end..];
        parse_authority(&authority[..end], &mut url)?;
    }
    unescape(path, Mode::Path)?;
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_authority(authority: &str, url: &mut Url) -> Result<(), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    url.host = parse_host(&url.scheme, host)?;
    let Some(user) = user else { return Ok(()) };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(fits) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let mut shown = String::new();
    let (name, password) = match user.split_once(':') {
        Some((name, password)) => (name, Some(password)),
        None => (user, None),
    };
    escape_user(&unescape(name, Mode::User)?, &mut shown);
    if let Some(password) = password {
        shown.push(':');
        escape_user(&unescape(password, Mode::User)?, &mut shown);
    }
    url.user = Some(shown);
    Ok(())
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    let bad_port = |port: &str| Err(format!("invalid port {} after host", quote(port)));
    let fits = |port: &str| {
        port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    // Only other schemes may have more colons in the host.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    match (host.rfind('['), colon) {
        (Some(0), _) => {
            let Some(end) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
            if !fits(&host[end + 1..]) {
                return bad_port(&host[end + 1..]);
            }
            check_literal(&host[1..end])?;
        }
        (Some(_), _) => return Err("invalid IP-literal".to_owned()),
        (None, Some(colon)) if !fits(&host[colon..]) => return bad_port(&host[colon..]),
        _ => {}
    }
    unescape(host, Mode::Host)
}

/// What stands in brackets is an IPv6 address, perhaps with a zone.
fn check_literal(host: &str) -> Result<(), String> {
    let (address, zone) = match host.find("%25") {
        Some(at) => (&host[..at], Some(&host[at + 3..])),
        None => (host, None),
    };
    let address = unescape(address, Mode::Host)?;
    match address.parse() {
        Ok(std::net::IpAddr::V6(_)) if zone.is_none_or(|zone| !zone.is_empty()) => Ok(()),
        Ok(std::net::IpAddr::V4(_)) => Err("invalid IP-literal".to_owned()),
        _ => Err(format!("invalid host: ParseAddr({}): unable to parse IP", quote(&address))),
    }
}

/// The text without its `%` escapes.
fn unescape(text: &str, mode: Mode) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        let byte = bytes[index];
        if byte != b'%' {
            if mode == Mode::Host && byte < 0x80 && !is_host_byte(byte) {
                return Err(format!("invalid character {} in host name", quote(&char::from(byte).to_string())));
            }
            out.push(byte);
            index += 1;
            continue;
        }
        let end = (index + 3).min(bytes.len());
        let bad = || {
            let escape = String::from_utf8_lossy(&bytes[index..end]);
            Err(format!("invalid URL escape {}", quote(&escape)))
        };
        let digits = bytes.get(index + 1..index + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        let decoded = digits
            .filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let Some(decoded) = decoded else { return bad() };
        if mode == Mode::Host && decoded < 0x80 && decoded != b'%' {
            return bad();
        }
        out.push(decoded);
        index += 3;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&byte)
}

fn escape_user(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,;=".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found() {
        let url = parse("HTTPS://u:p%20w@example.com:8443/a/b?q=1#f").unwrap();
        assert_eq!(
            url,
            Url {
                scheme: "https".into(),
                user: Some("u:p%20w".into()),
                host: "example.com:8443".into(),
                query: "q=1".into(),
                fragment: "f".into(),
            }
        );
        assert_eq!(parse("Bad_Value!").unwrap(), Url::default());
        assert_eq!(parse("https:example.com").unwrap().host, "");
    }

    #[test]
    fn errors_read_as_in_go() {
        for (text, error) in [
            (":foo", "parse \":foo\": missing protocol scheme"),
            ("1:2", "parse \"1:2\": first path segment in URL cannot contain colon"),
            ("https://a b/", "parse \"https://a b/\": invalid character \" \" in host name"),
            ("https://a:x/", "parse \"https://a:x/\": invalid port \":x\" after host"),
            ("https://a/%zz", "parse \"https://a/%zz\": invalid URL escape \"%zz\""),
            ("https://a:b:1/", "parse \"https://a:b:1/\": invalid port \":b:1\" after host"),
            ("https://[1.2.3.4]/", "parse \"https://[1.2.3.4]/\": invalid IP-literal"),
            ("https://a\n", "parse \"https://a\\n\": net/url: invalid control character in URL"),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
    }
}
