//! The pages by which others verify tokens of service accounts by themselves.

use http::{HeaderValue, Response, header};
use rkube_access::authenticate::service_account::discovery::{CONFIGURATION_PATH, KEYS_PATH, OpenId};
use rkube_access::authenticate::service_account::{Signer, TokenOptions};

use crate::content::{Answer, Body};

/// Whoever has a key set may use it for an hour: so long must an old key be kept after a new one signs.
const CACHED: &str = "public, max-age=3600";

/// The paths, as the root of the API lists them.
pub const PATHS: [&str; 2] = [CONFIGURATION_PATH, KEYS_PATH];

/// Where tokens can be verified elsewhere. `host`: this server's address and port.
pub fn documents(signer: Option<&Signer>, options: &TokenOptions, host: &str) -> Option<OpenId> {
    let found = OpenId::new(signer?, &options.keys_url, host);
    found.inspect_err(|why| tracing::warn!(why, "others cannot discover the keys of service accounts")).ok()
}

pub fn answer(documents: Option<&OpenId>, path: &str) -> Option<Answer> {
    let documents = documents?;
    let (text, kind) = match path {
        CONFIGURATION_PATH => (&documents.configuration, "application/json"),
        KEYS_PATH => (&documents.keys, "application/jwk-set+json"),
        _ => return None,
    };
    let mut answer = Response::new(Body::from(text.clone().into_bytes()));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHED));
    Some(answer)
}
