//! The request as every stage sees it.

use http::header;
use http::request::Parts;
use rkube_access::UserRef;
use rkube_catalog::Snapshot;

use super::impersonation::Wanted;
use crate::request::{Query, RequestInfo};

/// What a request asks, by whom, and of what. Nothing on the road changes it.
pub struct Incoming<'a> {
    pub parts: &'a Parts,
    /// What is served as long as the request lasts.
    pub catalog: &'a Snapshot,
    pub info: &'a RequestInfo,
    pub query: &'a Query,
    /// The user of the connection.
    pub connection: Option<&'a UserRef>,
    /// Whom the request wants to act as.
    pub wanted: &'a Wanted,
    /// Whether the answer is laid out for people: they asked for it, or look with a browser or on the command line.
    pub pretty: bool,
}

impl<'a> Incoming<'a> {
    pub fn new(
        parts: &'a Parts,
        catalog: &'a Snapshot,
        (info, query): (&'a RequestInfo, &'a Query),
        (connection, wanted): (Option<&'a UserRef>, &'a Wanted),
    ) -> Incoming<'a> {
        let pretty = query.pretty.unwrap_or_else(|| {
            let agent = text_of(parts, &header::USER_AGENT);
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
        });
        Incoming { parts, catalog, info, query, connection, wanted, pretty }
    }

    /// A header as text; empty where there is none that can be read.
    pub fn header(&self, name: header::HeaderName) -> &'a str {
        text_of(self.parts, &name)
    }
}

fn text_of<'a>(parts: &'a Parts, name: &header::HeaderName) -> &'a str {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
