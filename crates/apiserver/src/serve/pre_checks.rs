//! What Go's HTTP server refuses before anybody looks at a request, and hyper does not.

use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::ext::ReasonPhrase;

use crate::content::{Answer, Body};

const MISSING: &[u8] = b"Bad Request: missing required Host header";
const MALFORMED: &[u8] = b"Bad Request: malformed Host header";
const TOO_MANY: &[u8] = b"Bad Request";

/// HTTP/1.1 has exactly one `Host`. In HTTP/2 there is a pseudo-header for it.
pub(super) fn host<B>(request: &Request<B>) -> Result<(), Answer> {
    if !matches!(request.version(), Version::HTTP_10 | Version::HTTP_11) {
        return Ok(());
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if host.as_bytes().iter().all(|byte| is_of_host(*byte)) => Ok(()),
        (Some(_), None) => Err(bad_request(MALFORMED)),
        (Some(_), Some(_)) => Err(bad_request(TOO_MANY)),
        (None, _) if request.version() == Version::HTTP_10 => Ok(()),
        (None, _) => Err(bad_request(MISSING)),
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
            host(&request.body(()).unwrap()).map_err(|answer| answer.status().as_u16())
        };
        let table: [(Version, &[&str], Result<(), u16>); 9] = [
            (Version::HTTP_11, &["a"], Ok(())),
            (Version::HTTP_11, &["[::1]:6443"], Ok(())),
            (Version::HTTP_11, &[""], Ok(())),
            (Version::HTTP_11, &[], Err(400)),
            (Version::HTTP_11, &["a", "a"], Err(400)),
            (Version::HTTP_11, &["a/b"], Err(400)),
            (Version::HTTP_11, &["a b"], Err(400)),
            (Version::HTTP_10, &[], Ok(())),
            (Version::HTTP_2, &[], Ok(())),
        ];
        for (version, hosts, expected) in table {
            assert_eq!(code(version, hosts), expected, "{version:?} {hosts:?}");
        }
    }
}
