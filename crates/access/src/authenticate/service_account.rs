//! Tokens of service accounts: signed by this cluster's key, good as long as the account and what they are bound to live.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use rkube_catalog::{Catalog, Object, Snapshot};
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::names::generated::uuid;
use rkube_machinery::{Text, Value, json, object, time};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use super::{CREDENTIAL_ID, TokenAuthenticator, TokenUser};
use crate::{User, UserRef};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Clocks may differ by this much, and so long after an object's deletion its tokens still hold.
const LEEWAY_SECONDS: i64 = 60;

/// The accounts of this cluster, found in the catalog.
pub struct ServiceAccounts {
    pub signer: Arc<Signer>,
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
}

impl TokenAuthenticator for ServiceAccounts {
    fn user_of(&self, token: &str, audiences: &[String]) -> Option<Result<TokenUser, String>> {
        let own = [self.signer.issuer().to_owned()];
        let audiences = if audiences.is_empty() { &own[..] } else { audiences };
        Some(self.signer.verify(token, audiences, self.clock.now_seconds(), &self.catalog.snapshot()))
    }
}

/// The cluster's key for tokens.
pub struct Signer {
    key: EcdsaKeyPair,
    key_id: String,
    random: SystemRandom,
}

/// What a token says.
pub struct Claims<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub audiences: Vec<String>,
    pub issued: i64,
    pub expires: i64,
    pub bound: Vec<Binding>,
}

/// An object without which the token is worth nothing: `pod`, `secret`, `node`.
pub struct Binding {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Signer {
    /// From the PEM of a P-256 key in PKCS#8.
    pub fn new(pem: &str) -> Result<Signer, String> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| format!("the signing key is damaged: {error}"))?;
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der(), &random)
            .map_err(|error| format!("the signing key cannot be used: {error}"))?;
        let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref());
        Ok(Signer { key_id: URL_SAFE_NO_PAD.encode(digest), key, random })
    }

    pub fn issuer(&self) -> &'static str {
        ISSUER
    }

    pub fn sign(&self, claims: &Claims<'_>, entropy: &dyn Entropy) -> Result<String, String> {
        let header = object! { "alg": "ES256", "kid": self.key_id.as_str() };
        let account = object! { "name": claims.name, "uid": claims.uid };
        let mut about = object! { "namespace": claims.namespace, "serviceaccount": account };
        for bound in &claims.bound {
            about.set(&bound.kind, object! { "name": bound.name.as_str(), "uid": bound.uid.as_str() });
        }
        let audiences: Vec<Value> = claims.audiences.iter().map(|audience| audience.as_str().into()).collect();
        let payload = object! {
            "aud": audiences,
            "exp": claims.expires,
            "iat": claims.issued,
            "iss": ISSUER,
            "jti": uuid(entropy),
            "kubernetes.io": about,
            "nbf": claims.issued,
            "sub": format!("system:serviceaccount:{}:{}", claims.namespace, claims.name),
        };
        let text = format!("{}.{}", encode(&header), encode(&payload));
        let signature =
            self.key.sign(&self.random, text.as_bytes()).map_err(|_| "the token could not be signed".to_owned())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The user of a token, if it is one of ours, for one of these audiences, and still good.
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: i64,
        resources: &Snapshot,
    ) -> Result<TokenUser, String> {
        let (text, signature) = token.rsplit_once('.').ok_or("not a token of ours")?;
        let (header, payload) = text.split_once('.').ok_or("not a token of ours")?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| "not a token of ours".to_owned());
        let header = json::parse(&decode(header)?).map_err(|error| error.to_string())?;
        if header.str("alg") != "ES256" {
            return Err("not a token of ours".to_owned());
        }
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref())
            .verify(text.as_bytes(), &decode(signature)?)
            .map_err(|_| "the token's signature is not ours".to_owned())?;
        let claims = json::parse(&decode(payload)?).map_err(|error| error.to_string())?;
        check_times(&claims, now)?;
        let matched: Vec<String> = match claims.get("aud") {
            Value::String(one) => vec![one.to_string()],
            many => many.items().iter().map(|one| one.as_str().to_owned()).collect(),
        };
        let matched: Vec<String> = matched.into_iter().filter(|audience| audiences.contains(audience)).collect();
        if matched.is_empty() {
            return Err(format!("invalid bearer token, token audiences are not any of {audiences:?}"));
        }
        let user = user_of(&claims, now, resources)?;
        Ok((user, matched))
    }
}

fn check_times(claims: &Value, now: i64) -> Result<(), String> {
    if claims.str("iss") != ISSUER {
        return Err("the token's issuer is not us".to_owned());
    }
    if now + LEEWAY_SECONDS < claims.int("nbf") {
        return Err("service account token is not valid yet".to_owned());
    }
    if now - LEEWAY_SECONDS > claims.int("exp") {
        return Err("service account token has expired".to_owned());
    }
    if now + LEEWAY_SECONDS < claims.int("iat") {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}

/// The account's user, if the account and all that the token is bound to are there, and not deleted for long.
fn user_of(claims: &Value, now: i64, resources: &Snapshot) -> Result<UserRef, String> {
    let about = claims.get("kubernetes.io");
    let namespace = about.str("namespace");
    let account = about.get("serviceaccount");
    let find = |resource: &str, namespace: &str, name: &str| {
        let cache = resources.find("", "v1", resource)?.cache.as_ref()?;
        cache.find(namespace, name).map(|entry| entry.object)
    };
    let name = account.str("name");
    let found =
        find("serviceaccounts", namespace, name).ok_or_else(|| format!("serviceaccounts \"{name}\" not found"))?;
    if found.uid != account.str("uid") {
        return Err(format!("service account UID ({}) does not match claim ({})", found.uid, account.str("uid")));
    }
    if is_over(&found, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    for (kind, resource, namespace) in
        [("secret", "secrets", namespace), ("pod", "pods", namespace), ("node", "nodes", "")]
    {
        // With a pod, its node is only said: the token ends with the pod.
        if !about.has(kind) || (kind == "node" && about.has("pod")) {
            continue;
        }
        let invalidated = || "service account token has been invalidated".to_owned();
        let (name, uid) = (about.get(kind).str("name"), about.get(kind).str("uid"));
        let found = find(resource, namespace, name).ok_or_else(invalidated)?;
        if found.uid != uid {
            return Err(format!("{kind} UID ({}) does not match service account {kind} ref claim ({uid})", found.uid));
        }
        if is_over(&found, now) {
            return Err(invalidated());
        }
    }
    let mut extra: Vec<(Text, Vec<Text>)> =
        vec![(CREDENTIAL_ID.into(), vec![format!("JTI={}", claims.str("jti")).into()])];
    for kind in ["node", "pod"] {
        for field in ["name", "uid"].iter().filter(|field| !about.get(kind).str(field).is_empty()) {
            let key = format!("authentication.kubernetes.io/{kind}-{field}");
            extra.push((key.into(), vec![about.get(kind).str(field).into()]));
        }
    }
    let groups = User::account_groups(namespace);
    let name = format!("system:serviceaccount:{namespace}:{}", account.str("name"));
    Ok(User { name: name.into(), uid: account.str("uid").into(), groups, extra }.authenticated())
}

/// Whether an object that is terminating backs tokens no more.
fn is_over(object: &Object, now: i64) -> bool {
    let deleted = || time::parse(object.tree().at(&["metadata", "deletionTimestamp"]).as_str());
    object.deleting && deleted().map_or(true, |(seconds, _)| seconds < now - LEEWAY_SECONDS)
}

fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json::to_string(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only object of a resource, terminating since `deleted` where that is said.
    fn put(snapshot: &Snapshot, resource: &str, namespace: &str, deleted: Option<i64>) {
        let mut metadata = object! { "name": "a", "namespace": namespace, "uid": "u" };
        if let Some(deleted) = deleted {
            metadata.set("deletionTimestamp", time::format_seconds(deleted));
        }
        snapshot.resource("", "v1", resource).unwrap().fill(&[object! { "metadata": metadata }], 1);
    }

    #[test]
    fn what_is_terminating_backs_tokens_for_a_minute() {
        let invalidated = "service account token has been invalidated";
        let table = [
            ("serviceaccount", "serviceaccounts", "default", "service account default/a has been deleted"),
            ("secret", "secrets", "default", invalidated),
            ("pod", "pods", "default", invalidated),
            ("node", "nodes", "", invalidated),
        ];
        let snapshot = Snapshot::unfed(rkube_kinds::all());
        put(&snapshot, "serviceaccounts", "default", None);
        for (kind, resource, namespace, words) in table {
            let reference = || object! { "name": "a", "uid": "u" };
            let mut about = object! { "namespace": "default", "serviceaccount": reference() };
            about.set(kind, reference());
            let claims = object! { "kubernetes.io": about };
            let says = |now: i64| user_of(&claims, now, &snapshot).map(|user| user.name.to_string());
            let name = "system:serviceaccount:default:a".to_owned();
            put(&snapshot, resource, namespace, None);
            assert_eq!(says(1_000_000), Ok(name.clone()), "{kind}");
            put(&snapshot, resource, namespace, Some(1000));
            assert_eq!(says(1000 + LEEWAY_SECONDS), Ok(name), "{kind}");
            assert_eq!(says(1001 + LEEWAY_SECONDS), Err(words.to_owned()), "{kind}");
            put(&snapshot, resource, namespace, None);
        }
    }

    #[test]
    fn times_have_leeway() {
        let claims = object! { "iss": ISSUER, "iat": 1000, "nbf": 1000, "exp": 2000 };
        let says = |now: i64| check_times(&claims, now).err().unwrap_or_default();
        assert_eq!([says(940), says(2060)], ["", ""]);
        assert_eq!(says(939), "service account token is not valid yet");
        assert_eq!(says(2061), "service account token has expired");
    }
}
