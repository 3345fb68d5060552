//! What is said when a webhook cannot be called or answers something else: the words of Go's HTTP client and of client-go.

use std::io;
use std::net::SocketAddr;

use http::StatusCode;
use rkube_machinery::field::quote;
use rkube_machinery::json;

/// At most so much of an answer is shown in an error.
const SHOWN_BYTES_MAX: usize = 2048;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// What the client was made of is wrong.
    #[error("{0}")]
    Configuration(String),
    /// Nothing came back.
    #[error("Post {}: {why}", quote(.url))]
    Unreached { url: String, why: String },
    /// Something came back that could not be read to its end.
    #[error("unexpected error when reading response body. Please retry. Original error: {0}")]
    Broken(String),
    /// The answer is that of an error.
    #[error("{message}")]
    Refused { code: u16, message: String },
    #[error("0-length response with status code: {code} and content type: {content_type}")]
    Empty { code: u16, content_type: String },
}

/// An answer whose code is that of an error, in words.
pub(super) fn refused(code: StatusCode, content_type: Option<&str>, body: &[u8]) -> CallError {
    if let Ok(status) = json::parse(body)
        && status.str("kind") == "Status"
        && matches!(status.str("apiVersion"), "v1" | "")
        && status.str("status") == "Failure"
    {
        return CallError::Refused { code: code.as_u16(), message: status.str("message").to_owned() };
    }
    let is_text = content_type.is_none_or(|media| media.trim_start().to_ascii_lowercase().starts_with("text/"));
    let shown = match is_text {
        true => String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES_MAX)]).trim().to_owned(),
        false => "unknown".to_owned(),
    };
    let message = match code.as_u16() {
        409 => "the server reported a conflict".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => shown,
        406 if shown.is_empty() || shown == "unknown" => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        406 => shown,
        405 => "the server does not allow this method on the requested resource".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        500.. => format!("an error on the server ({}) has prevented the request from succeeding", quote(&shown)),
        other => format!("the server responded with the status code {other} but did not return more information"),
    };
    CallError::Refused { code: code.as_u16(), message }
}

/// Why no connection could be made.
pub fn dial_words(address: &str, error: &io::Error) -> String {
    format!("dial tcp {address}: connect: {}", system_words(error))
}

/// Why a host's address was not found.
pub fn lookup_words(host: &str) -> String {
    format!("dial tcp: lookup {host}: no such host")
}

/// Why a connection broke before an answer came.
pub fn read_words(local: Option<SocketAddr>, peer: Option<SocketAddr>, error: &io::Error) -> String {
    match (error.kind(), local, peer) {
        (io::ErrorKind::UnexpectedEof, ..) => "EOF".to_owned(),
        (_, Some(local), Some(peer)) => format!("read tcp {local}->{peer}: read: {}", system_words(error)),
        _ => system_words(error),
    }
}

/// An error of the machine in the words of C, without our library's additions.
fn system_words(error: &io::Error) -> String {
    let known = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset by peer",
        io::ErrorKind::HostUnreachable => "no route to host",
        io::ErrorKind::NetworkUnreachable => "network is unreachable",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::BrokenPipe => "broken pipe",
        _ => return error.to_string(),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_errors_have_words() {
        let status = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not today","code":500}"#;
        let cases: [(u16, Option<&str>, &[u8], &str); 10] = [
            (500, None, b" boom\n", r#"an error on the server ("boom") has prevented the request from succeeding"#),
            (
                502,
                Some("text/html; charset=utf-8"),
                b"<p>",
                r#"an error on the server ("<p>") has prevented the request from succeeding"#,
            ),
            (
                500,
                Some("application/json"),
                b"{}",
                r#"an error on the server ("unknown") has prevented the request from succeeding"#,
            ),
            (500, Some("application/json"), status, "not today"),
            (404, None, b"", "the server could not find the requested resource"),
            (403, None, b"go away", "go away"),
            (403, Some("application/json"), b"{}", "unknown"),
            (503, None, b"", "the server is currently unable to handle the request"),
            (302, None, b"", "the server responded with the status code 302 but did not return more information"),
            (406, None, b"", "the server was unable to respond with a content type that the client supports"),
        ];
        for (code, content_type, body, words) in cases {
            let refused = refused(StatusCode::from_u16(code).unwrap(), content_type, body);
            assert_eq!(refused.to_string(), words);
        }
        let long = "x".repeat(100_000);
        let CallError::Refused { message, .. } = refused(StatusCode::FORBIDDEN, None, long.as_bytes()) else {
            panic!()
        };
        assert_eq!(message.len(), SHOWN_BYTES_MAX);
    }
}
