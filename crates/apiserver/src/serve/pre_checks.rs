//! What Go's HTTP server refuses before anybody looks at a request, and hyper does not.

use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::ext::ReasonPhrase;

use crate::content::{Answer, Body};

const MISSING: &[u8] = b"Bad Request: missing required Host header";
const MALFORMED: &[u8] = b"Bad Request: malformed Host header";
const TOO_MANY: &[u8] = b"Bad Request";

/// The refusal of a request of HTTP/1.1 that does not have exactly one `Host`. In HTTP/2 there is a pseudo-header for it.
pub(super) fn wrong_host<B>(request: &Request<B>) -> Option<Answer> {
    if !matches!(request.version(), Version::HTTP_10 | Version::HTTP_11) {
        return None;
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if host.as_bytes().iter().all(|byte| is_of_host(*byte)) => None,
        (Some(_), None) => Some(bad_request(MALFORMED)),
        (Some(_), Some(_)) => Some(bad_request(TOO_MANY)),
        (None, _) if request.version() == Version::HTTP_10 => None,
        (None, _) => Some(bad_request(MISSING)),
    }
}

fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

/// The text is in the first line and in the body, and the connection ends.
fn bad_request(text: &'static [u8]) -> Answer {
    let mut answer = Response::new(Body::from([b"400 ", text].concat()));
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer.extensions_mut().insert(ReasonPhrase::from_static(text));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let code = |version: Version, hosts: &[&str]| {
            let request = hosts.iter().fold(Request::builder().version(version), |it, host| it.header("host", *host));
            wrong_host(&request.body(()).unwrap()).map(|answer| answer.status().as_u16())
        };
        let table: [(Version, &[&str], Option<u16>); 9] = [
            (Version::HTTP_11, &["a"], None),
            (Version::HTTP_11, &["[::1]:6443"], None),
            (Version::HTTP_11, &[""], None),
            (Version::HTTP_11, &[], Some(400)),
            (Version::HTTP_11, &["a", "a"], Some(400)),
            (Version::HTTP_11, &["a/b"], Some(400)),
            (Version::HTTP_11, &["a b"], Some(400)),
            (Version::HTTP_10, &[], None),
            (Version::HTTP_2, &[], None),
        ];
        for (version, hosts, expected) in table {
            assert_eq!(code(version, hosts), expected, "{version:?} {hosts:?}");
        }
    }
}
