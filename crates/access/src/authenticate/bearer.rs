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

/// Tokens that say nothing of audiences.
pub trait PlainTokens: Send + Sync {
    /// `None`: nobody knows the token.
    fn user_of(&self, token: &str) -> Option<UserRef>;
}

/// Such tokens are good for this server, and for nobody else who asks about them.
pub struct ForServer<T> {
    pub tokens: T,
    /// What this server answers to.
    pub audiences: Vec<String>,
}

impl<T: PlainTokens> TokenAuthenticator for ForServer<T> {
    fn user_of(&self, token: &str, audiences: &[String]) -> Option<Result<TokenUser, String>> {
        let good: Vec<String> = audiences.iter().filter(|one| self.audiences.contains(one)).cloned().collect();
        if good.is_empty() && !audiences.is_empty() {
            return None;
        }
        let user = self.tokens.user_of(token)?;
        Some(Ok(TokenUser { user, audiences: good, warning: None }))
    }
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
    use crate::User;
    use crate::authenticate::TokenFile;

    #[test]
    fn plain_tokens_are_good_for_the_server_alone() {
        let mut tokens = TokenFile::default();
        tokens.insert("known", User { name: "a".into(), ..User::default() });
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let tokens = ForServer { tokens, audiences: texts(&["api", "https://own"]) };
        /// A token, the audiences asked about, and for which it is good.
        type Row = (&'static str, &'static [&'static str], Option<&'static [&'static str]>);
        let table: [Row; 6] = [
            ("known", &[], Some(&[])),
            ("known", &["https://own", "vault", "api"], Some(&["https://own", "api"])),
            ("known", &["api"], Some(&["api"])),
            ("known", &["vault"], None),
            ("other", &[], None),
            ("other", &["api"], None),
        ];
        for (token, asked, want) in table {
            let found = tokens.user_of(token, &texts(asked)).map(|found| found.unwrap().audiences);
            assert_eq!(found, want.map(texts), "{token} {asked:?}");
        }
    }

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
