//! A bearer token in the `Authorization` header. A token that no member knows is refused: who brings one wants to be
//! somebody.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::{Authenticator, Credentials, Known, Verdict};
use crate::UserRef;

/// What is said of tokens that nobody knows.
const INVALID: &str = "invalid bearer token";

/// The user of a token.
#[derive(Debug)]
pub struct TokenUser {
    pub user: UserRef,
    /// For which of the audiences asked about the token is good.
    pub audiences: Vec<String>,
    /// Said to who uses it.
    pub warning: Option<&'static str>,
}

pub trait TokenAuthenticator: Send + Sync {
    /// `None`: a token of another kind. Without audiences, the token must be good for this server.
    fn user_of(&self, token: &str, audiences: &[String]) -> Option<Result<TokenUser, String>>;
}

/// The members in their order.
pub struct Bearer {
    pub members: Vec<Box<dyn TokenAuthenticator>>,
}

impl Bearer {
    pub fn user_of(&self, token: &str, audiences: &[String]) -> Result<TokenUser, String> {
        match self.members.iter().find_map(|member| member.user_of(token, audiences)) {
            Some(found) => found.map_err(|why| format!("[{INVALID}, {why}]")),
            None => Err(INVALID.to_owned()),
        }
    }
}

impl Authenticator for Arc<Bearer> {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Verdict {
        let Some(token) = token_of(credentials.headers) else { return Verdict::NoOpinion };
        match self.user_of(token, &[]) {
            Ok(TokenUser { user, warning, .. }) => Verdict::User(Known { user, warning }),
            Err(why) => Verdict::Refused(why),
        }
    }
}

fn token_of(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_in_headers() {
        let found = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, text.parse().unwrap());
            token_of(&headers).map(str::to_owned)
        };
        let table = [("Bearer a", Some("a")), ("bearer  a ", Some("a")), ("Basic a", None), ("Bearer ", None)];
        for (text, want) in table {
            assert_eq!(found(text).as_deref(), want, "{text}");
        }
    }
}
