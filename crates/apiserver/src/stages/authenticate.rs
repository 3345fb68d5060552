//! Who asks.

use rkube_access::UNAUTHENTICATED;
use rkube_access::authenticate::{Authenticators, Credentials, Known};
use rkube_machinery::Status;

use super::incoming::Incoming;
use crate::request::OnAuthenticated;

/// The user; a refusal says no more than that. The connection learns that its client has proved who it is.
pub fn run(authenticators: &Authenticators, incoming: &Incoming<'_>) -> Result<Known, Status> {
    let Incoming { parts, connection, .. } = *incoming;
    let credentials = Credentials { connection, headers: &parts.headers };
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
