//! Whose turn it is. Until there are priorities: so many requests at a time, and administrators always.

use http::{HeaderValue, StatusCode, header};
use rkube_access::User;
use rkube_access::authorize::is_master;

use super::incoming::Incoming;
use super::refusal::Refusal;
use crate::content::Answer;
use crate::health;
use crate::limits::{Limits, RETRY_AFTER_SECONDS, Slot};
use crate::request::OfThisProcess;

/// A place among the requests in flight. What lasts long takes none; nor do the parts of this process, which bound
/// themselves: however busy they are, there is room for clients, and the other way round.
pub fn run(limits: &Limits, incoming: &Incoming<'_>, user: &User) -> Result<Option<Slot>, Refusal> {
    if incoming.info.is_long_running() || incoming.parts.extensions.get::<OfThisProcess>().is_some() {
        return Ok(None);
    }
    let reads = matches!(incoming.info.verb.as_ref(), "get" | "list" | "watch");
    match limits.enter(!reads) {
        None if !is_master(user) => Err(Refusal::plain(too_many())),
        slot => Ok(slot),
    }
}

/// Upstream's words, plain, for who finds all places among the requests in flight taken.
fn too_many() -> Answer {
    let mut answer =
        health::text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n".to_owned());
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
    answer
}
