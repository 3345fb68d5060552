//! What Secrets lack, and what they are with it: pure functions.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};

pub const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const TOKEN: &str = "token";
const AUTHORITY: &str = "ca.crt";
const NAMESPACE: &str = "namespace";

/// What is to be known of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Account {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The names of those that it lists.
    pub secrets: Vec<String>,
}

impl Account {
    pub fn of(account: &ServiceAccount) -> Account {
        let metadata = &account.metadata;
        Account {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            secrets: account.secrets.iter().flatten().filter_map(|reference| reference.name.clone()).collect(),
        }
    }

    /// What tells it from others.
    pub fn identity(&self) -> Account {
        Account { secrets: Vec::new(), ..self.clone() }
    }
}

/// What is to be known of a Secret for a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TokenSecret {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub account: String,
    /// Empty until the Secret is filled, unless who made it said it.
    pub account_uid: String,
    authority: Vec<u8>,
    has_token: bool,
    has_namespace: bool,
}

impl TokenSecret {
    /// None of any other Secret.
    pub fn of(secret: &Secret) -> Option<TokenSecret> {
        if secret.type_.as_deref() != Some(TYPE) {
            return None;
        }
        let metadata = &secret.metadata;
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let data = |key: &str| secret.data.as_ref().and_then(|all| all.get(key)).map(|bytes| bytes.0.clone());
        Some(TokenSecret {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            account: annotation(ACCOUNT_NAME).unwrap_or_default(),
            account_uid: annotation(ACCOUNT_UID).unwrap_or_default(),
            authority: data(AUTHORITY).unwrap_or_default(),
            has_token: data(TOKEN).is_some_and(|bytes| !bytes.is_empty()),
            has_namespace: data(NAMESPACE).is_some_and(|bytes| !bytes.is_empty()),
        })
    }

    /// What tells it, and whose it is, from others.
    pub fn identity(&self) -> TokenSecret {
        TokenSecret { authority: Vec::new(), has_token: false, has_namespace: false, ..self.clone() }
    }

    /// Whether the Secret is for this account, and not for another one of its name.
    pub fn is_of(&self, account: &Account) -> bool {
        let same_uid = self.account_uid.is_empty() || self.account_uid == account.uid;
        self.namespace == account.namespace && self.account == account.name && same_uid
    }

    pub fn is_filled(&self, root_ca: &str) -> bool {
        self.has_token && self.has_namespace && self.has_authority(root_ca)
    }

    fn has_authority(&self, root_ca: &str) -> bool {
        root_ca.is_empty() || self.authority == root_ca.as_bytes()
    }
}

/// The Secret with what it lacks. None: it lacks nothing, or is no longer the one that was looked at.
pub fn fill(
    live: Secret,
    seen: &TokenSecret,
    account: &Account,
    root_ca: &str,
    token: impl FnOnce() -> Result<String, String>,
) -> Result<Option<Secret>, String> {
    let found = TokenSecret::of(&live).filter(|found| found.uid == seen.uid && found.is_of(account));
    let Some(found) = found.filter(|found| !found.is_filled(root_ca)) else { return Ok(None) };
    let mut filled = live;
    let data = filled.data.get_or_insert_default();
    let mut put = |key: &str, text: &str| data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
    if !found.has_authority(root_ca) {
        put(AUTHORITY, root_ca);
    }
    if !found.has_namespace {
        put(NAMESPACE, &found.namespace);
    }
    if !found.has_token {
        put(TOKEN, &token()?);
    }
    let annotations = filled.metadata.annotations.get_or_insert_default();
    annotations.insert(ACCOUNT_NAME.to_owned(), account.name.clone());
    annotations.insert(ACCOUNT_UID.to_owned(), account.uid.clone());
    Ok(Some(filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: serde_json::Value) -> Secret {
        serde_json::from_value(text).unwrap()
    }

    fn new() -> Secret {
        secret(serde_json::json!({
            "metadata": { "namespace": "n", "name": "s", "uid": "1", "annotations": { ACCOUNT_NAME: "a" } },
            "type": TYPE,
        }))
    }

    fn account(uid: &str) -> Account {
        Account { namespace: "n".to_owned(), name: "a".to_owned(), uid: uid.to_owned(), secrets: Vec::new() }
    }

    fn filled(live: Secret, uid: &str) -> Option<Secret> {
        let seen = TokenSecret::of(&new()).unwrap();
        fill(live, &seen, &account(uid), "ca", || Ok("made".to_owned())).unwrap()
    }

    #[test]
    fn what_is_missing_is_put_in_once() {
        let made = filled(new(), "u").unwrap();
        let shown = serde_json::to_value(&made).unwrap();
        assert_eq!(shown["data"], serde_json::json!({ "ca.crt": "Y2E=", "namespace": "bg==", "token": "bWFkZQ==" }));
        assert_eq!(shown["metadata"]["annotations"][ACCOUNT_UID], "u");
        assert_eq!(filled(made.clone(), "u"), None);
        // A token that is there stays, and an authority that is not ours does not.
        let mut other = made;
        let data = other.data.as_mut().unwrap();
        data.insert(TOKEN.to_owned(), ByteString(b"mine".to_vec()));
        data.insert(AUTHORITY.to_owned(), ByteString(b"other".to_vec()));
        let again = serde_json::to_value(filled(other, "u").unwrap()).unwrap();
        assert_eq!((&again["data"]["token"], &again["data"]["ca.crt"]), (&"bWluZQ==".into(), &"Y2E=".into()));
    }

    #[test]
    fn what_is_of_others_is_left_alone() {
        let mut of_another = new();
        of_another.metadata.annotations.as_mut().unwrap().insert(ACCOUNT_UID.to_owned(), "other".to_owned());
        assert_eq!(filled(of_another, "u"), None);
        let mut renewed = new();
        renewed.metadata.uid = Some("2".to_owned());
        assert_eq!(filled(renewed, "u"), None);
        let mut opaque = new();
        opaque.type_ = Some("Opaque".to_owned());
        assert_eq!(filled(opaque, "u"), None);
    }

    #[test]
    fn a_secret_is_of_the_account_of_its_name_and_uid() {
        let mut seen = TokenSecret::of(&new()).unwrap();
        assert!(seen.is_of(&account("any")));
        seen.account_uid = "u".to_owned();
        assert!(seen.is_of(&account("u")) && !seen.is_of(&account("v")));
        assert!(!seen.is_of(&Account { namespace: "m".to_owned(), ..account("u") }));
    }

    #[test]
    fn who_cannot_sign_fills_nothing() {
        let seen = TokenSecret::of(&new()).unwrap();
        let failed = fill(new(), &seen, &account("u"), "ca", || Err("no key".to_owned()));
        assert_eq!(failed, Err("no key".to_owned()));
    }
}
