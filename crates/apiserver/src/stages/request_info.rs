//! The first stage: the path and the query taken apart.

use http::StatusCode;
use http::request::Parts;

use super::incoming::Incoming;
use super::refusal::Refusal;
use crate::health;
use crate::request::{Query, RequestInfo};

pub fn read(parts: &Parts) -> (RequestInfo, Query) {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let mut info = RequestInfo::new(&parts.method, parts.uri.path(), query.watch);
    info.select(&query.field_selector);
    (info, query)
}

/// Refuses paths that nothing can be read from.
pub fn check(incoming: &Incoming<'_>) -> Result<(), Refusal> {
    match RequestInfo::is_malformed(incoming.parts.uri.path()) {
        true => Err(Refusal::plain(health::text(StatusCode::BAD_REQUEST, "400 Bad Request".to_owned()))),
        false => Ok(()),
    }
}
