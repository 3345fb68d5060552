//! Acting as somebody else.

use http::HeaderMap;
use rkube_access::authorize::{Attributes, Authorizers};
use rkube_access::impersonate::{Impersonated, Impersonation, wanted};
use rkube_access::{User, UserRef};
use rkube_machinery::{GroupResource, Status};

use super::incoming::Incoming;

/// Whom a request wants to act as, or what is wrong with how it says so.
pub type Wanted = Result<Option<User>, String>;

/// Who the request is of from here on, and who sent it.
pub struct ActingAs {
    requester: UserRef,
    impersonated: Option<Impersonated>,
}

impl ActingAs {
    /// Who everything behind this stage knows.
    pub fn user(&self) -> &UserRef {
        self.impersonated.as_ref().map_or(&self.requester, |impersonated| &impersonated.user)
    }
}

/// Takes the headers that say it out of the request: nothing behind this is to know of them.
pub fn take(headers: &mut HeaderMap) -> Wanted {
    wanted::take(headers)
}

pub fn run(
    impersonation: &Impersonation,
    authorizers: &Authorizers,
    incoming: &Incoming<'_>,
    requester: UserRef,
) -> Result<ActingAs, Status> {
    let Some(wanted) = incoming.wanted.as_ref().map_err(Status::bad_request)? else {
        return Ok(ActingAs { requester, impersonated: None });
    };
    let allows = |user: &User, attributes: &Attributes<'_>| match authorizers.allow(user, attributes) {
        true => Ok(()),
        false => Err(authorizers.verdict(user, attributes).reason),
    };
    let found = impersonation.decide(wanted, &requester, &incoming.info.attributes(), &allows);
    let found = found.map_err(|denied| {
        Status::forbidden(&GroupResource::new(denied.group, denied.resource), &denied.name, denied.why)
    })?;
    tracing::debug!(requester = %requester.name, user = %found.user.name, by = found.constraint, "impersonated");
    Ok(ActingAs { requester, impersonated: Some(found) })
}
