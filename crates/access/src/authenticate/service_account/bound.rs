//! Tokens that a request was made for: good for a time, and as long as the account and what they are bound to are there.

use rkube_catalog::{Object, Snapshot};
use rkube_machinery::{Text, Value, time};

use super::super::CREDENTIAL_ID;
use super::find;
use crate::{User, UserRef};

/// Clocks may differ by this much, and so long after an object's deletion its tokens still hold.
const LEEWAY_SECONDS: i64 = 60;

/// The account's user, if the token's time is now, and the account and all that the token is bound to are there, and not
/// deleted for long.
pub fn user_of(claims: &Value, now: i64, snapshot: &Snapshot) -> Result<UserRef, String> {
    check_times(claims, now)?;
    let about = claims.get("kubernetes.io");
    let (namespace, account) = (about.str("namespace"), about.get("serviceaccount"));
    let name = account.str("name");
    let found = find(snapshot, "serviceaccounts", namespace, name)
        .ok_or_else(|| format!("serviceaccounts \"{name}\" not found"))?;
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
        let found = find(snapshot, resource, namespace, name).ok_or_else(invalidated)?;
        if found.uid != uid {
            return Err(format!("{kind} UID ({}) does not match service account {kind} ref claim ({uid})", found.uid));
        }
        if is_over(&found, now) {
            return Err(invalidated());
        }
    }
    let name = format!("system:serviceaccount:{namespace}:{name}").into();
    let groups = User::account_groups(namespace);
    Ok(User { name, uid: account.str("uid").into(), groups, extra: extra(claims) }.authenticated())
}

/// What is to be known of the token besides.
fn extra(claims: &Value) -> Vec<(Text, Vec<Text>)> {
    let mut extra: Vec<(Text, Vec<Text>)> = Vec::new();
    if !claims.str("jti").is_empty() {
        extra.push((CREDENTIAL_ID.into(), vec![format!("JTI={}", claims.str("jti")).into()]));
    }
    let about = claims.get("kubernetes.io");
    for kind in ["node", "pod"] {
        for field in ["name", "uid"].iter().filter(|field| !about.get(kind).str(field).is_empty()) {
            let key = format!("authentication.kubernetes.io/{kind}-{field}");
            extra.push((key.into(), vec![about.get(kind).str(field).into()]));
        }
    }
    extra
}

/// Of a time that the token does not say nothing follows.
fn check_times(claims: &Value, now: i64) -> Result<(), String> {
    let read = |name: &str| match claims.get(name) {
        Value::Null => Ok(None),
        number => match number.as_int() {
            Some(seconds) => Ok(Some(seconds)),
            None => Err("go-jose/go-jose/jwt: expected number value to unmarshal NumericDate".to_owned()),
        },
    };
    let (issued, begins, ends) = (read("iat")?, read("nbf")?, read("exp")?);
    if begins.is_some_and(|begins| now + LEEWAY_SECONDS < begins) {
        return Err("service account token is not valid yet".to_owned());
    }
    if ends.is_some_and(|ends| now - LEEWAY_SECONDS > ends) {
        return Err("service account token has expired".to_owned());
    }
    if issued.is_some_and(|issued| now + LEEWAY_SECONDS < issued) {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}

/// Whether an object that is terminating backs tokens no more.
fn is_over(object: &Object, now: i64) -> bool {
    let deleted = || time::parse(object.tree().at(&["metadata", "deletionTimestamp"]).as_str());
    object.deleting && deleted().map_or(true, |(seconds, _)| seconds < now - LEEWAY_SECONDS)
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

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
        let claims = object! { "iat": 1000, "nbf": 1000, "exp": 2000 };
        let says = |now: i64| check_times(&claims, now).err().unwrap_or_default();
        assert_eq!([says(940), says(2060)], ["", ""]);
        assert_eq!(says(939), "service account token is not valid yet");
        assert_eq!(says(2061), "service account token has expired");
        assert_eq!(check_times(&Value::object(), 0), Ok(()));
        let future = check_times(&object! { "iat": 1000 }, 0).unwrap_err();
        assert_eq!(future, "service account token is issued in the future");
        let words = check_times(&object! { "exp": "x" }, 0).unwrap_err();
        assert_eq!(words, "go-jose/go-jose/jwt: expected number value to unmarshal NumericDate");
    }
}
