//! Who asks: a client certificate or a bearer token.

mod certificate;
pub mod service_account;
mod tokens;

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rkube_machinery::Status;

pub use certificate::user_of as user_of_certificate;
pub use tokens::Tokens;

use crate::request::{User, UserRef};
use crate::server::ApiServer;

const AUTHENTICATED: &str = "system:authenticated";
/// The key in a user's extra facts that says which certificate or token proved who asks.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The user of a request: that of the connection's certificate, else that of the token, else nobody in particular.
/// A token that is not known is refused.
pub fn authenticate(server: &ApiServer, connection: Option<&UserRef>, headers: &HeaderMap) -> Result<UserRef, Status> {
    if let Some(user) = connection {
        return Ok(user.clone());
    }
    let Some(token) = bearer(headers) else { return Ok(Arc::new(User::anonymous())) };
    match user_of_token(server, token, &[]) {
        Ok((user, _)) => Ok(user),
        Err(why) => {
            tracing::debug!(why, "a token was refused");
            Err(Status::unauthorized())
        }
    }
}

/// Nobody can act as somebody else yet, and must not act as themselves in the belief that they do.
pub fn refuse_impersonation(headers: &HeaderMap) -> Result<(), Status> {
    let asks = |name: &str| {
        let what = name.strip_prefix("impersonate-");
        what.is_some_and(|what| matches!(what, "user" | "group" | "uid") || what.starts_with("extra-"))
    };
    match headers.keys().any(|name| asks(name.as_str())) {
        true => Err(Status::impersonation_unsupported()),
        false => Ok(()),
    }
}

/// The user of a token and for which of these audiences it is good; without any, it must be good for this server.
pub fn user_of_token(server: &ApiServer, token: &str, audiences: &[String]) -> Result<(UserRef, Vec<String>), String> {
    if let Some(user) = server.tokens.find(token) {
        return Ok((user, audiences.to_vec()));
    }
    let signer = server.signer.as_ref().ok_or("unknown token")?;
    let own = [signer.issuer().to_owned()];
    let audiences = if audiences.is_empty() { &own[..] } else { audiences };
    signer.verify(token, audiences, server.clock.now_seconds(), &server.catalog.snapshot())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// Adds the group that all known users are in.
fn authenticated(mut user: User) -> UserRef {
    if !user.is_in(AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.into());
    }
    Arc::new(user)
}
