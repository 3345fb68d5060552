//! Where a request is passed on to: `[scheme:]name[:port]` taken apart, paths joined and written as Go does.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What Go leaves as it is in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');
/// And in a query, where a space is a plus.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// How a backend is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// HTTP.
    Plain,
    /// HTTPS, whatever certificate it shows: pods and services make their own.
    Unverified,
    /// HTTPS of a node's own port: with the server's certificate for it, and the node's is verified.
    Kubelet,
    /// As before, but the client said that it is not to be verified.
    UnverifiedKubelet,
}

/// A backend, and what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub security: Security,
    /// A name or an address without brackets.
    pub host: String,
    /// A number, or a name that is looked up; empty: the scheme's own.
    pub port: String,
    /// Decoded; begins with a slash where it is not empty.
    pub path: String,
    /// As it stands in the request line, without its question mark.
    pub query: String,
}

impl Location {
    pub fn scheme(&self) -> &'static str {
        if self.security == Security::Plain { "http" } else { "https" }
    }

    /// `host:port` as in a URL.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port.is_empty() { host } else { format!("{host}:{}", self.port) }
    }

    pub fn escaped_path(&self) -> String {
        escape_path(&self.path)
    }

    /// What stands in the request line.
    pub fn path_and_query(&self) -> String {
        let path = if self.path.is_empty() { "/".to_owned() } else { self.escaped_path() };
        if self.query.is_empty() { path } else { format!("{path}?{}", self.query) }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}{}", self.scheme(), self.authority(), self.escaped_path())?;
        if self.query.is_empty() { Ok(()) } else { write!(out, "?{}", self.query) }
    }
}

pub fn escape_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// The object's name as requests for a proxy have it: `name`, `name:port` or `scheme:name:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a> {
    pub scheme: &'a str,
    pub name: &'a str,
    pub port: &'a str,
}

impl<'a> Id<'a> {
    pub fn parse(text: &'a str) -> Option<Id<'a>> {
        let mut parts = text.split(':');
        let id = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(name), None, ..) => Id { scheme: "", name, port: "" },
            (Some(name), Some(port), None, _) => Id { scheme: "", name, port },
            (Some(scheme), Some(name), Some(port), None) => Id { scheme, name, port },
            _ => return None,
        };
        (!id.name.is_empty() && matches!(id.scheme, "" | "http" | "https")).then_some(id)
    }

    pub fn security(&self) -> Security {
        if self.scheme == "https" { Security::Unverified } else { Security::Plain }
    }
}

/// The path behind `/proxy`, cleaned, with the slash at its end that the whole path has. Empty where there is none at all.
/// `below`: what follows the subresource in the decoded path.
pub fn backend_path(below: &str) -> String {
    let mut path = clean(below);
    if below.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}

/// A path without empty steps and dots, with a slash at its beginning; empty where nothing is left.
fn clean(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.iter().flat_map(|step| ["/", step]).collect()
}

/// Two paths as one, as Go's `path.Join`: cleaned, without a slash at the end.
pub fn join(first: &str, second: &str) -> String {
    match clean(&format!("{first}/{second}")) {
        nothing if nothing.is_empty() => "/".to_owned(),
        joined => joined,
    }
}

/// Pairs as a query, sorted by key as Go's `url.Values` are.
pub fn encode_query(pairs: &[(&str, &str)]) -> String {
    let mut sorted = pairs.to_vec();
    sorted.sort_by_key(|(key, _)| *key);
    let escape = |text: &str| utf8_percent_encode(text, QUERY).to_string().replace("%20", "+");
    let written: Vec<String> = sorted.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value))).collect();
    written.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_schemes_and_ports() {
        let id = |scheme, name, port| Some(Id { scheme, name, port });
        for (text, want) in [
            ("a", id("", "a", "")),
            ("a:80", id("", "a", "80")),
            ("a:", id("", "a", "")),
            ("https:a:", id("https", "a", "")),
            ("http:a:web", id("http", "a", "web")),
            ("ftp:a:1", None),
            (":80", None),
            ("", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(Id::parse(text), want, "{text}");
        }
    }

    #[test]
    fn paths_are_joined_as_in_go() {
        for (below, want) in
            [("", ""), ("/", "/"), ("/a", "/a"), ("/a/", "/a/"), ("//a//b", "/a/b"), ("/a/../../b", "/b")]
        {
            assert_eq!(backend_path(below), want, "{below}");
        }
        assert_eq!((join("/a/", "/b/"), join("", "/")), ("/a/b".to_owned(), "/".to_owned()));
    }

    #[test]
    fn requests_are_written_as_in_go() {
        let location = Location {
            security: Security::Kubelet,
            host: "fd00::1".to_owned(),
            port: "10250".to_owned(),
            path: "/a b?c".to_owned(),
            query: encode_query(&[("tty", "1"), ("command", "echo a&b"), ("command", "ü")]),
        };
        assert_eq!(location.path_and_query(), "/a%20b%3Fc?command=echo+a%26b&command=%C3%BC&tty=1");
        assert_eq!(location.to_string(), "https://[fd00::1]:10250/a%20b%3Fc?command=echo+a%26b&command=%C3%BC&tty=1");
    }
}
