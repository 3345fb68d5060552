//! Acting as somebody else. Nobody can yet, and nobody must act as themselves in the belief that they do.

use http::HeaderMap;
use rkube_machinery::Status;

/// Refuses requests that ask for it.
pub fn run(headers: &HeaderMap) -> Result<(), Status> {
    let asks = |name: &str| {
        let what = name.strip_prefix("impersonate-");
        what.is_some_and(|what| matches!(what, "user" | "group" | "uid") || what.starts_with("extra-"))
    };
    match headers.keys().any(|name| asks(name.as_str())) {
        true => Err(Status::impersonation_unsupported()),
        false => Ok(()),
    }
}
