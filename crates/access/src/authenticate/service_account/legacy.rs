//! Tokens out of Secrets of type `kubernetes.io/service-account-token`: they never expire, and are worth as much as the
//! Secret that holds them.

// tidy: types Secret ServiceAccount

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rkube_catalog::{Object, Snapshot};
use rkube_machinery::{Value, object, time};

use super::find;
use crate::impersonate::account_of;
use crate::{User, UserRef};

pub(super) const ISSUER: &str = "kubernetes/serviceaccount";

/// When a token was last used, on its Secret.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// Since when a token is no longer good, on its Secret.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

const DAY_SECONDS: i64 = 24 * 60 * 60;

const NAMESPACE: &str = "kubernetes.io/serviceaccount/namespace";
const SECRET: &str = "kubernetes.io/serviceaccount/secret.name";
const ACCOUNT: &str = "kubernetes.io/serviceaccount/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/serviceaccount/service-account.uid";

const WARNING: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of \
                       auto-generated secret-based tokens.";

/// What such a token says.
pub struct LegacyClaims<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub secret: &'a str,
}

impl LegacyClaims<'_> {
    pub(super) fn payload(&self) -> Value {
        let mut payload = object! { "iss": ISSUER };
        for (key, text) in
            [(NAMESPACE, self.namespace), (SECRET, self.secret), (ACCOUNT, self.name), (ACCOUNT_UID, self.uid)]
        {
            payload.set(key, text);
        }
        payload.set("sub", format!("system:serviceaccount:{}:{}", self.namespace, self.name));
        payload
    }
}

/// A Secret whose token was used and does not say so yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyUse {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// The day as labels have it.
pub fn day(seconds: i64) -> String {
    time::format_seconds(seconds).chars().take(10).collect()
}

/// The Secret and the account of a token.
pub(super) struct Found {
    secret: Arc<Object>,
    account: Arc<Object>,
}

/// Claims that are verified to be ours: whether what they name is there, and the token is the Secret's.
pub(super) fn look_up(claims: &Value, token: &str, snapshot: &Snapshot) -> Result<Found, String> {
    let missing = |what: &str| Err(format!("{what} claim is missing"));
    let texts = [("sub", "sub"), (NAMESPACE, "namespace"), (SECRET, "secretName"), (ACCOUNT, "serviceAccountName")];
    for (key, words) in texts.into_iter().chain([(ACCOUNT_UID, "serviceAccountUID")]) {
        if claims.str(key).is_empty() {
            return missing(words);
        }
    }
    let (namespace, name) = (claims.str(NAMESPACE), claims.str(ACCOUNT));
    if account_of(claims.str("sub")) != Some((namespace, name)) {
        return Err("sub claim is invalid".to_owned());
    }
    let invalidated = || "Token has been invalidated".to_owned();
    let secret = find(snapshot, "secrets", namespace, claims.str(SECRET)).ok_or_else(invalidated)?;
    if secret.deleting {
        return Err(invalidated());
    }
    let held = STANDARD.decode(secret.tree().get("data").str("token")).unwrap_or_default(); // tidy: key
    // The signature is right: who compares gains nothing from how long it takes.
    if held != token.as_bytes() {
        return Err("Token does not match server's copy".to_owned());
    }
    let account = find(snapshot, "serviceaccounts", namespace, name)
        .ok_or_else(|| format!("serviceaccounts \"{name}\" not found"))?;
    if account.deleting {
        return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
    }
    let uid = claims.str(ACCOUNT_UID);
    if account.uid != uid {
        return Err(format!("ServiceAccount UID ({}) does not match claim ({uid})", account.uid));
    }
    Ok(Found { secret, account })
}

impl Found {
    pub fn user(&self) -> UserRef {
        let (namespace, name) = (&self.account.namespace, &self.account.name);
        let groups = User::account_groups(namespace);
        let user = format!("system:serviceaccount:{namespace}:{name}");
        User { name: user.into(), uid: self.account.uid.clone(), groups, ..User::default() }.authenticated()
    }

    /// Whether its use is known of: today's, or tomorrow's by the clock of another.
    pub fn is_marked_used(&self, now: i64) -> bool {
        let marked = self.secret.label(LAST_USED).unwrap_or_default();
        marked == day(now) || marked == day(now + DAY_SECONDS)
    }

    pub fn used(&self) -> LegacyUse {
        let Object { namespace, name, uid, .. } = &*self.secret;
        LegacyUse { namespace: namespace.to_string(), name: name.to_string(), uid: uid.to_string() }
    }

    pub fn check_not_invalidated(&self) -> Result<(), String> {
        if self.secret.label(INVALID_SINCE).unwrap_or_default().is_empty() {
            return Ok(());
        }
        let (namespace, secret, account) = (&self.secret.namespace, &self.secret.name, &self.account.name);
        Err(format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid. \
             Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
             '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        ))
    }

    /// Said to who uses a token that nobody asked for.
    pub fn warning(&self) -> Option<&'static str> {
        let account = self.account.tree();
        let made = account.list("secrets").iter().any(|secret| secret.str("name") == self.secret.name.as_str());
        made.then_some(WARNING)
    }
}
