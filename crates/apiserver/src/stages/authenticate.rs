//! Who asks.

use rkube_access::UNAUTHENTICATED;
use rkube_access::authenticate::{Authenticators, Credentials, Known};
use rkube_machinery::Status;

use super::incoming::Incoming;
use crate::request::{OnAuthenticated, Untrusted};

/// The user; a refusal says no more than that. The connection learns that its client has proved who it is.
pub fn run(authenticators: &Authenticators, incoming: &Incoming<'_>) -> Result<Known, Status> {
    let Incoming { parts, connection, .. } = *incoming;
    let untrusted = parts.extensions.get::<Untrusted>().map(|Untrusted(why)| why.as_ref());
    let credentials = Credentials { connection, untrusted, headers: &parts.headers };
    let known = authenticators.request(&credentials).map_err(|why| {
        tracing::debug!(why, "credentials were refused");
        Status::unauthorized()
    })?;
    if let Some(authenticated) = parts.extensions.get::<OnAuthenticated>()
        && !known.user.is_in(UNAUTHENTICATED)
    {
        authenticated.tell();
    }
    Ok(known)
}
