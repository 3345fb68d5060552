//! Addresses in a backend's answer that lead to itself: changed so that they lead through the API server.

use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::read::{DeflateDecoder, GzDecoder};
use flate2::write::{DeflateEncoder, GzEncoder};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body::Frame;
use http_body_util::BodyExt as _;
use rkube_machinery::Status;

use super::html;
use super::location::{Location, escape_path, join};
use crate::content::{Answer, Body};

/// A page that is larger, compressed or not, goes on with its links as they are.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// What stands before a backend's own paths in the API server's.
pub struct Prefix {
    /// Up to `/proxy`, decoded, without a slash at the end.
    path: String,
    backend: String,
    /// The host that the client asked.
    host: String,
    is_head: bool,
}

impl Prefix {
    pub fn new(path: &str, location: &Location, parts: &Parts) -> Prefix {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default();
        Prefix {
            path: path.to_owned(),
            backend: location.authority(),
            host: host.to_owned(),
            is_head: parts.method == Method::HEAD,
        }
    }

    /// What the client asked for, for backends that make whole addresses.
    pub fn forwarded_uri(&self, location: &Location) -> String {
        let mut uri = join(&escape_path(&self.path), &location.escaped_path());
        if location.path.ends_with('/') && !uri.ends_with('/') {
            uri.push('/');
        }
        uri
    }

    /// An address that leads to the backend, as one that leads there from outside; None: it may stay.
    pub fn changed(&self, address: &str) -> Option<String> {
        let Address { host, path, rest, is_opaque } = Address::parse(address);
        let is_elsewhere = !host.is_empty() && host != self.backend && host != self.host;
        if is_opaque || is_elsewhere || !path.starts_with('/') {
            return None;
        }
        // Through the address that the client knows the server by, or through whatever the page came from.
        let before = if host == self.host { &address[..address.len() - path.len() - rest.len()] } else { "" };
        let prefix = escape_path(&self.path);
        let mut changed = if path.starts_with(&prefix) { path.to_owned() } else { join(&prefix, path) };
        if path.ends_with('/') && !changed.ends_with('/') {
            changed.push('/');
        }
        Some(format!("{before}{changed}{rest}")).filter(|changed| changed != address)
    }
}

/// An address taken apart as far as is needed.
struct Address<'a> {
    host: &'a str,
    path: &'a str,
    /// Query and fragment.
    rest: &'a str,
    /// `mailto:` and the like.
    is_opaque: bool,
}

impl<'a> Address<'a> {
    fn parse(text: &'a str) -> Address<'a> {
        let scheme = text.split_once(':').filter(|(scheme, _)| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
            scheme.starts_with(|letter: char| letter.is_ascii_alphabetic()) && scheme.bytes().all(allowed)
        });
        let after_scheme = scheme.map_or(text, |(_, after)| after);
        let (host, after) = match after_scheme.strip_prefix("//") {
            Some(after) => after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len())),
            None => ("", after_scheme),
        };
        let (path, rest) = after.split_at(after.find(['?', '#']).unwrap_or(after.len()));
        Address { host, path, rest, is_opaque: scheme.is_some() && host.is_empty() }
    }
}

/// Changes where an answer leads to: a redirection, or the links of a page.
pub async fn run(prefix: &Prefix, mut answer: Answer) -> Result<Answer, Status> {
    if let Some(place) = answer.headers().get(header::LOCATION) {
        let changed = place.to_str().ok().and_then(|place| prefix.changed(place));
        if let Some(changed) = changed.and_then(|changed| HeaderValue::from_str(&changed).ok()) {
            answer.headers_mut().insert(header::LOCATION, changed);
        }
        return Ok(answer);
    }
    let Some(coding) = page_coding(answer.headers()).filter(|_| !prefix.is_head) else { return Ok(answer) };
    let (mut head, mut body) = answer.into_parts();
    let mut page = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::internal(error.to_string()))?;
        page.extend_from_slice(&frame.into_data().unwrap_or_default());
        if page.len() > PAGE_BYTES_MAX {
            let body = Body::Relayed(Box::pin(Rest { first: Some(page.freeze()), body }));
            return Ok(Answer::from_parts(head, body));
        }
    }
    let page = page.freeze();
    let page = match coding.decode(&page) {
        Some(plain) => coding.encode(html::change_links(&plain, |link| prefix.changed(link))).into(),
        None => page,
    };
    head.headers.remove(header::CONTENT_LENGTH);
    Ok(Answer::from_parts(head, Body::Whole(page)))
}

/// How a page of HTML is compressed; None for all else, and where nothing here can read it.
fn page_coding(headers: &HeaderMap) -> Option<Coding> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = text(header::CONTENT_TYPE);
    let is_page = content_type.split(';').next().is_some_and(|value| value.trim() == "text/html");
    is_page.then(|| Coding::of(text(header::CONTENT_ENCODING))).flatten()
}

/// How a page is compressed.
#[derive(Clone, Copy)]
enum Coding {
    Plain,
    Gzip,
    Deflate,
}

impl Coding {
    /// None: one that is not known here.
    fn of(name: &str) -> Option<Coding> {
        match name {
            "" => Some(Coding::Plain),
            "gzip" => Some(Coding::Gzip),
            "deflate" => Some(Coding::Deflate),
            _ => None,
        }
    }

    /// None: it is too large, or damaged.
    fn decode(self, page: &Bytes) -> Option<Bytes> {
        let mut plain = Vec::new();
        let limit = PAGE_BYTES_MAX as u64 + 1;
        match self {
            Coding::Plain => return Some(page.clone()),
            Coding::Gzip => GzDecoder::new(&page[..]).take(limit).read_to_end(&mut plain).ok()?,
            Coding::Deflate => DeflateDecoder::new(&page[..]).take(limit).read_to_end(&mut plain).ok()?,
        };
        (plain.len() <= PAGE_BYTES_MAX).then(|| plain.into())
    }

    /// Writing into memory does not fail.
    fn encode(self, page: Vec<u8>) -> Vec<u8> {
        match self {
            Coding::Plain => page,
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                let _ = encoder.write_all(&page);
                encoder.finish().unwrap_or_default()
            }
            Coding::Deflate => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                let _ = encoder.write_all(&page);
                encoder.finish().unwrap_or_default()
            }
        }
    }
}

/// What was read already, and what follows.
struct Rest {
    first: Option<Bytes>,
    body: Body,
}

impl http_body::Body for Rest {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.body).poll_frame(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::location::Security;
    use super::*;

    fn prefix() -> (Prefix, Location) {
        let location = Location {
            security: Security::Plain,
            host: "10.0.0.1".to_owned(),
            port: "80".to_owned(),
            path: "/a/".to_owned(),
            query: String::new(),
        };
        let request = http::Request::builder().header("host", "localhost:8001").body(()).unwrap();
        (Prefix::new("/api/v1/x/proxy", &location, &request.into_parts().0), location)
    }

    #[test]
    fn addresses_of_the_backend_lead_through_the_server() {
        let (prefix, location) = prefix();
        assert_eq!(prefix.forwarded_uri(&location), "/api/v1/x/proxy/a/");
        for (address, want) in [
            ("/b", Some("/api/v1/x/proxy/b")),
            ("/b/?c#d", Some("/api/v1/x/proxy/b/?c#d")),
            ("http://10.0.0.1:80/b", Some("/api/v1/x/proxy/b")),
            ("http://localhost:8001/b", Some("http://localhost:8001/api/v1/x/proxy/b")),
            ("/api/v1/x/proxy/b", None),
            ("b", None),
            ("", None),
            ("#top", None),
            ("http://example.com/b", None),
            ("//example.com/b", None),
            ("mailto:a@b", None),
            ("javascript:/b", None),
        ] {
            assert_eq!(prefix.changed(address).as_deref(), want, "{address}");
        }
    }

    #[tokio::test]
    async fn pages_are_changed_and_other_things_are_not() {
        let (prefix, _) = prefix();
        let gzip = Coding::Gzip.encode(b"<a href=/b>".to_vec());
        let table: [(&str, &str, Vec<u8>, &str); 4] = [
            ("text/html; charset=utf-8", "", b"<a href=/b>".to_vec(), "<a href=\"/api/v1/x/proxy/b\">"),
            ("text/html", "gzip", gzip, "<a href=\"/api/v1/x/proxy/b\">"),
            ("text/html", "br", b"<a href=/b>".to_vec(), "<a href=/b>"),
            ("text/plain", "", b"<a href=/b>".to_vec(), "<a href=/b>"),
        ];
        for (content_type, coding, body, want) in table {
            let mut answer = Answer::new(Body::from(body));
            answer.headers_mut().insert(header::CONTENT_TYPE, content_type.parse().unwrap());
            if !coding.is_empty() {
                answer.headers_mut().insert(header::CONTENT_ENCODING, coding.parse().unwrap());
            }
            let body = run(&prefix, answer).await.unwrap().into_body().collect().await.unwrap().to_bytes();
            let plain = Coding::of(coding).map_or(body.clone(), |coding| coding.decode(&body).unwrap());
            assert_eq!(String::from_utf8_lossy(&plain), want, "{content_type} {coding}");
        }
    }
}
