//! Tokens of service accounts: signed by a key of this cluster, good as long as the account and what they are bound to
//! live ([`bound`]), or as long as the Secret that holds them ([`legacy`]).

mod bound;
pub mod discovery;
mod keys;
mod legacy;
mod verified;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rkube_catalog::{Catalog, Object, Snapshot};
use rkube_machinery::field::quote;
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::names::generated::uuid;
use rkube_machinery::{Value, json, object};

use super::{TokenAuthenticator, TokenUser};
use keys::{SigningKey, VerifyingKey};
use verified::Verified;

pub use legacy::{LAST_USED, LegacyClaims, LegacyUse, day};

/// Who issues tokens unless flags say otherwise.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How long a pod's token lasts that is meant for an hour, so that who never reads it anew has time to learn it.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;
/// The lifetime that such tokens are asked for with.
const EXTENSIBLE_SECONDS: i64 = 60 * 60 + 7;

/// Told of each use of a token out of a Secret.
pub type OnLegacyUse = Arc<dyn Fn(LegacyUse) + Send + Sync>;

/// The accounts of this cluster, found in the catalog.
pub struct ServiceAccounts {
    pub signer: Arc<Signer>,
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
    pub on_legacy_use: OnLegacyUse,
}

impl TokenAuthenticator for ServiceAccounts {
    fn user_of(&self, token: &str, audiences: &[String]) -> Option<Result<TokenUser, String>> {
        let audiences = if audiences.is_empty() { &self.signer.audiences } else { audiences };
        let claims = match self.signer.read(token)? {
            Ok(claims) => claims,
            Err(why) => return Some(Err(why)),
        };
        Some(self.judge(&claims, token, audiences))
    }
}

impl ServiceAccounts {
    /// The user whom verified claims are of.
    fn judge(&self, claims: &Value, token: &str, audiences: &[String]) -> Result<TokenUser, String> {
        let audiences = self.signer.matching(claims, audiences)?;
        let (snapshot, now) = (self.catalog.snapshot(), self.clock.now_seconds());
        if claims.str("iss") != legacy::ISSUER {
            let user = bound::user_of(claims, now, &snapshot)?;
            return Ok(TokenUser { user, audiences, warning: None });
        }
        let found = legacy::look_up(claims, token, &snapshot)?;
        if !found.is_marked_used(now) {
            (self.on_legacy_use)(found.used());
        }
        found.check_not_invalidated()?;
        Ok(TokenUser { user: found.user(), audiences, warning: found.warning() })
    }
}

/// What flags say of tokens.
#[derive(Clone, Debug, Default)]
pub struct TokenOptions {
    /// PEM of the key that signs; without one there are no tokens.
    pub signing_key: String,
    /// PEM of more keys whose tokens are good: public ones, certificates or private ones.
    pub keys: Vec<String>,
    /// The first is in new tokens, and tokens of the others are good. Without any it is [`DEFAULT_ISSUER`].
    pub issuers: Vec<String>,
    /// For whom tokens are that are for this server. Without any it is its issuers.
    pub audiences: Vec<String>,
    /// Tokens last no longer, where that is said.
    pub seconds_max: Option<i64>,
    /// Whether pods' tokens of an hour last a year, and only warn after the hour.
    pub extends: bool,
    /// Where others find the keys; empty: at this server.
    pub keys_url: String,
}

/// The cluster's keys for tokens.
pub struct Signer {
    key: SigningKey,
    /// The signing one among them.
    verifying: Vec<VerifyingKey>,
    issuers: Vec<String>,
    audiences: Vec<String>,
    seconds_max: Option<i64>,
    extends: bool,
    verified: Verified,
}

/// What a token says.
pub struct Claims<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub audiences: Vec<String>,
    pub issued: i64,
    pub expires: i64,
    /// From when on its use is noticed.
    pub warns: Option<i64>,
    pub bound: Vec<Binding>,
}

/// An object without which the token is worth nothing: `pod`, `secret`, `node`.
pub struct Binding {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Signer {
    pub fn new(options: &TokenOptions) -> Result<Signer, String> {
        let key = SigningKey::new(&options.signing_key)?;
        let mut verifying: Vec<VerifyingKey> = Vec::new();
        let given = options.keys.iter().map(|pem| VerifyingKey::all(pem)).collect::<Result<Vec<_>, _>>()?;
        for key in given.into_iter().flatten().chain(VerifyingKey::all(&options.signing_key)?) {
            if verifying.iter().all(|known| known.id != key.id) {
                verifying.push(key);
            }
        }
        let mut issuers = options.issuers.clone();
        if issuers.is_empty() {
            issuers.push(DEFAULT_ISSUER.to_owned());
        }
        let audiences = if options.audiences.is_empty() { issuers.clone() } else { options.audiences.clone() };
        let TokenOptions { seconds_max, extends, .. } = *options;
        Ok(Signer { key, verifying, issuers, audiences, seconds_max, extends, verified: Verified::default() })
    }

    pub fn issuer(&self) -> &str {
        &self.issuers[0]
    }

    /// For whom tokens are that are for this server.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The most seconds that a token may last, where there is a limit.
    pub fn seconds_max(&self) -> Option<i64> {
        self.seconds_max
    }

    /// How long a pod's token lasts instead of the `seconds` asked for, if it does.
    pub fn extended_seconds(&self, seconds: i64, audiences: &[String]) -> Option<i64> {
        let is_ours = audiences.iter().all(|audience| self.audiences.contains(audience));
        (self.extends && seconds == EXTENSIBLE_SECONDS && is_ours).then_some(EXTENDED_SECONDS)
    }

    pub fn sign(&self, claims: &Claims<'_>, entropy: &dyn Entropy) -> Result<String, String> {
        let mut about = object! { "namespace": claims.namespace };
        for kind in ["node", "pod", "secret"] {
            if let Some(bound) = claims.bound.iter().find(|bound| bound.kind == kind) {
                let mut reference = object! { "name": bound.name.as_str() };
                if !bound.uid.is_empty() {
                    reference.set("uid", bound.uid.as_str());
                }
                about.set(kind, reference);
            }
        }
        about.set("serviceaccount", object! { "name": claims.name, "uid": claims.uid });
        if let Some(warns) = claims.warns {
            about.set("warnafter", warns);
        }
        let audiences: Vec<Value> = claims.audiences.iter().map(|audience| audience.as_str().into()).collect();
        let payload = object! {
            "aud": audiences,
            "exp": claims.expires,
            "iat": claims.issued,
            "iss": self.issuer(),
            "jti": uuid(entropy),
            "kubernetes.io": about,
            "nbf": claims.issued,
            "sub": format!("system:serviceaccount:{}:{}", claims.namespace, claims.name),
        };
        self.seal(&payload)
    }

    /// A token that lasts as long as its Secret.
    pub fn sign_legacy(&self, claims: &LegacyClaims<'_>) -> Result<String, String> {
        self.seal(&claims.payload())
    }

    fn seal(&self, payload: &Value) -> Result<String, String> {
        let header = object! { "alg": self.key.algorithm(), "kid": self.key.public.id.as_str() };
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(json::to_string(value));
        let text = format!("{}.{}", encode(&header), encode(payload));
        let signature = self.key.sign(&text)?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// What a token says, if it says that it is one of ours, and is.
    fn read(&self, token: &str) -> Option<Result<Arc<Value>, String>> {
        if let Some(claims) = self.verified.find(token) {
            return Some(Ok(claims));
        }
        let (text, signature) = token.rsplit_once('.')?;
        let (header, payload) = text.split_once('.').filter(|(_, payload)| !payload.contains('.'))?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let claims = json::parse(&decode(payload)?).ok()?;
        let issuer = claims.str("iss");
        if issuer != legacy::ISSUER && !self.issuers.iter().any(|known| known == issuer) {
            return None;
        }
        let header = json::parse(&decode(header)?).ok()?;
        let signature = decode(signature)?;
        let (algorithm, id) = (header.str("alg"), header.str("kid"));
        let mut keys = self.verifying.iter().filter(|key| id.is_empty() || key.id == id).peekable();
        if keys.peek().is_none() {
            return Some(Err("invalid signature, no keys found".to_owned()));
        }
        if !keys.any(|key| key.has_signed(algorithm, text, &signature)) {
            return Some(Err("go-jose/go-jose: error in cryptographic primitive".to_owned()));
        }
        let claims = Arc::new(claims);
        self.verified.keep(token, &claims);
        Some(Ok(claims))
    }

    /// Which of the token's audiences are among those wanted. Without any, it is for this server.
    fn matching(&self, claims: &Value, wanted: &[String]) -> Result<Vec<String>, String> {
        let mut said: Vec<String> = match claims.get("aud") {
            Value::String(one) => vec![one.to_string()],
            many => many.items().iter().map(|one| one.as_str().to_owned()).collect(),
        };
        if said.is_empty() {
            said.clone_from(&self.audiences);
        }
        let matched: Vec<String> = said.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
        if !matched.is_empty() {
            return Ok(matched);
        }
        let list = |texts: &[String]| texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(" ");
        Err(format!("token audiences [{}] is invalid for the target audiences [{}]", list(&said), list(wanted)))
    }
}

/// An object of the core group, as the caches have it.
pub(super) fn find(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
    let cache = snapshot.find("", "v1", resource)?.cache.as_ref()?;
    cache.find(namespace, name).map(|entry| entry.object)
}

#[cfg(test)]
mod tests;
