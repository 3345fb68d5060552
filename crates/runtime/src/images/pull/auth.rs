//! Shows a registry who we are, in the way that it asks for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Method};
use serde::Deserialize;

use super::http::Http;
use crate::api::Credentials;
use crate::images::{Error, Result};

/// How a registry wants to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Of who gives tokens; None: a name and a password will do.
    pub realm: Option<String>,
    service: Option<String>,
    scope: Option<String>,
    /// What was wrong with the token that it was shown.
    pub error: Option<String>,
}

impl Challenge {
    /// The one that asks for tokens, if there are several.
    pub(super) fn of(headers: &HeaderMap) -> Option<Challenge> {
        let all = headers.get_all(WWW_AUTHENTICATE);
        let mut found: Vec<Challenge> = all.iter().filter_map(|value| parse(value.to_str().ok()?)).collect();
        found.sort_by_key(|challenge| challenge.realm.is_none());
        found.into_iter().next()
    }
}

fn parse(text: &str) -> Option<Challenge> {
    let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::default());
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut challenge = Challenge::default();
    let mut rest = rest.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        let place = match key.trim().to_ascii_lowercase().as_str() {
            "realm" => Some(&mut challenge.realm),
            "service" => Some(&mut challenge.service),
            "scope" => Some(&mut challenge.scope),
            "error" => Some(&mut challenge.error),
            _ => None,
        };
        if let Some(place) = place {
            *place = Some(value.to_owned());
        }
        rest = left.trim_start_matches([',', ' ']);
    }
    challenge.realm.is_some().then_some(challenge)
}

/// What to show from now on.
pub(super) async fn authorize(
    http: &Http,
    challenge: &Challenge,
    repository: &str,
    credentials: Option<&Credentials>,
) -> Result<HeaderValue> {
    let credentials = credentials.filter(|credentials| **credentials != Credentials::default());
    if let Some(token) = credentials.map(|credentials| &credentials.registry_token).filter(|token| !token.is_empty()) {
        return header(&format!("Bearer {token}"));
    }
    let Some(realm) = &challenge.realm else {
        let Some(credentials) = credentials else {
            return Err(Error::Pull("no basic auth credentials".to_owned()));
        };
        return header(&basic(credentials));
    };
    let scope = challenge.scope.clone().unwrap_or_else(|| format!("repository:{repository}:pull"));
    let service = challenge.service.clone().unwrap_or_default();
    let kind = if credentials.is_some() { "oauth" } else { "anonymous" };
    let token = match credentials.filter(|credentials| !credentials.identity_token.is_empty()) {
        Some(credentials) => exchange(http, realm, &service, &scope, &credentials.identity_token).await,
        None => ask(http, realm, &service, &scope, credentials).await,
    };
    let token = token.map_err(|error| error.within(format_args!("failed to fetch {kind} token")))?;
    header(&format!("Bearer {token}"))
}

/// For a name and a password, or for nothing.
async fn ask(
    http: &Http,
    realm: &str,
    service: &str,
    scope: &str,
    credentials: Option<&Credentials>,
) -> Result<String> {
    let separator = if realm.contains('?') { '&' } else { '?' };
    let url = format!("{realm}{separator}scope={}&service={}", escaped(scope), escaped(service));
    let mut headers = super::session::headers();
    if let Some(credentials) = credentials {
        headers.insert(AUTHORIZATION, header(&basic(credentials))?);
    }
    token(http, Method::GET, &url, &headers, Bytes::new()).await
}

/// For a token that is kept for longer.
async fn exchange(http: &Http, realm: &str, service: &str, scope: &str, identity: &str) -> Result<String> {
    let mut headers = super::session::headers();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    let form = format!(
        "grant_type=refresh_token&client_id=rkube&refresh_token={}&service={}&scope={}",
        escaped(identity),
        escaped(service),
        escaped(scope)
    );
    token(http, Method::POST, realm, &headers, form.into()).await
}

async fn token(http: &Http, method: Method, url: &str, headers: &HeaderMap, body: Bytes) -> Result<String> {
    #[derive(Deserialize)]
    struct Given {
        token: Option<String>,
        access_token: Option<String>,
    }
    let answer = http.send(method, url, headers, body).await?;
    if !answer.status.is_success() {
        return Err(answer.unexpected());
    }
    let given: Given = serde_json::from_slice(&answer.document().await?)
        .map_err(|error| Error::Pull(format!("unable to decode token response: {error}")))?;
    let token = given.token.filter(|token| !token.is_empty()).or(given.access_token);
    token.filter(|token| !token.is_empty()).ok_or_else(|| Error::Pull("no token in the response".to_owned()))
}

fn basic(credentials: &Credentials) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", credentials.username, credentials.password)))
}

fn header(value: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value).map_err(|_| Error::Pull("credentials are no text".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let text =
            r#"Bearer realm="https://auth/token",service="a, b" , scope="repository:x:pull",error=insufficient_scope"#;
        assert_eq!(
            parse(text),
            Some(Challenge {
                realm: Some("https://auth/token".to_owned()),
                service: Some("a, b".to_owned()),
                scope: Some("repository:x:pull".to_owned()),
                error: Some("insufficient_scope".to_owned()),
            })
        );
        assert_eq!(parse("Basic realm=\"x\""), Some(Challenge::default()));
        assert_eq!(parse("basic"), Some(Challenge::default()));
        for text in ["", "Digest realm=\"x\"", "Bearer", "Bearer realm=\"x", "Bearer service=\"x\""] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_goes_into_an_address_is_escaped() {
        assert_eq!(escaped("repository:a/b:pull c"), "repository%3Aa%2Fb%3Apull%20c");
    }
}
