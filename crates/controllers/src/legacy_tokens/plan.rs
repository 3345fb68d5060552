//! What is to be done with a token that may be unused. Pure.

use std::collections::BTreeSet;

use rkube_machinery::{Text, time};
use rkube_operator::Item;
use serde::Deserialize;
use serde_json::Value;

use crate::metadata::RawMetadata;

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A Secret with a token.
#[derive(Clone, Debug, Default)]
pub struct TokenSecret {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub revision: u64,
    pub account: String,
    account_uid: String,
    created: i64,
    is_deleting: bool,
    last_used: Option<String>,
    invalid_since: String,
}

#[derive(Deserialize)]
struct RawSecret<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(rename = "type", default)]
    kind: String,
}

impl TokenSecret {
    pub fn read(item: &Item) -> Option<TokenSecret> {
        if !std::str::from_utf8(&item.json).ok()?.contains(TYPE) {
            return None;
        }
        let raw: RawSecret<'_> = serde_json::from_slice(&item.json).ok()?;
        let metadata = &raw.metadata;
        let annotation = |key: &str| metadata.annotations.get(key).unwrap_or_default().to_owned();
        (raw.kind == TYPE).then(|| TokenSecret {
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            uid: item.uid.clone(),
            revision: item.revision,
            account: annotation(ACCOUNT),
            account_uid: annotation(ACCOUNT_UID),
            created: metadata.created().unwrap_or_default(),
            is_deleting: metadata.deleted().is_some(),
            last_used: metadata.labels.get(LAST_USED).map(str::to_owned),
            invalid_since: metadata.labels.get(INVALID_SINCE).unwrap_or_default().to_owned(),
        })
    }
}

/// A service account, and the Secrets that it lists: those that were made for it by themselves.
#[derive(Clone, Debug, Default)]
pub struct Account {
    uid: Text,
    secrets: Vec<String>,
}

#[derive(Deserialize)]
struct RawAccount {
    secrets: Option<Vec<RawReference>>,
}

#[derive(Deserialize)]
struct RawReference {
    #[serde(default)]
    name: String,
}

impl Account {
    pub fn read(item: &Item) -> Option<Account> {
        let raw: RawAccount = item.parse().ok()?;
        let secrets = raw.secrets.unwrap_or_default().into_iter().map(|reference| reference.name);
        Some(Account { uid: item.uid.clone(), secrets: secrets.collect() })
    }
}

/// The Secrets that a pod names, wherever it does.
pub struct UsedSecrets(pub BTreeSet<String>);

impl UsedSecrets {
    pub fn read(item: &Item) -> Option<UsedSecrets> {
        let pod: Value = item.parse().ok()?;
        let mut names = BTreeSet::new();
        gather(&pod["spec"], &mut names);
        Some(UsedSecrets(names))
    }
}

/// What is stored has a limited depth: JSON that is deeper is not read.
fn gather(value: &Value, names: &mut BTreeSet<String>) {
    let mut add = |value: &Value| names.extend(value.as_str().map(str::to_owned));
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "secretName" => add(value),
                    "secret" | "secretRef" | "secretKeyRef" | "nodePublishSecretRef" => add(&value["name"]),
                    "imagePullSecrets" => value.as_array().into_iter().flatten().for_each(|one| add(&one["name"])),
                    _ => {}
                }
            }
            fields.values().for_each(|value| gather(value, names));
        }
        Value::Array(values) => values.iter().for_each(|value| gather(value, names)),
        _ => {}
    }
}

/// In seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The day since which uses are known.
    pub since: i64,
    pub now: i64,
    /// How long a token must be unused.
    pub unused: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Keep,
    /// Mark it as invalid since this day.
    Invalidate(String),
    Delete,
}

pub fn step(secret: &TokenSecret, account: Option<&Account>, times: &Times) -> Step {
    let Times { since, now, unused } = *times;
    let limit = now.saturating_sub(unused);
    // The first day is not known as a whole.
    if since.saturating_add(DAY_SECONDS) > limit || secret.created >= limit || secret.is_deleting {
        return Step::Keep;
    }
    let keeps_from = day(limit);
    let unclear = secret.last_used.as_ref().is_some_and(|day| day_seconds(day).is_none() || *day >= keeps_from);
    let is_its_own = account.is_some_and(|account| {
        (secret.account_uid.is_empty() || account.uid == secret.account_uid)
            && account.secrets.iter().any(|name| *name == secret.name)
    });
    if unclear || !is_its_own {
        return Step::Keep;
    }
    if day_seconds(&secret.invalid_since).is_none() {
        return Step::Invalidate(day(now));
    }
    if secret.invalid_since >= keeps_from { Step::Keep } else { Step::Delete }
}

/// The day as labels have it.
fn day(seconds: i64) -> String {
    time::format_seconds(seconds).chars().take(10).collect()
}

/// The beginning of such a day.
pub fn day_seconds(day: &str) -> Option<i64> {
    time::parse(&format!("{day}T00:00:00Z")).ok().map(|(seconds, _)| seconds)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    #[test]
    fn unused_tokens_are_marked_first_and_deleted_later() {
        let seconds = |day: &str| day_seconds(day).unwrap();
        let times = Times { since: seconds("2025-01-01"), now: seconds("2026-06-15"), unused: 365 * DAY_SECONDS };
        let account = Account { uid: "1".into(), secrets: vec!["t".to_owned()] };
        let secret = TokenSecret {
            name: "t".into(),
            account: "a".to_owned(),
            account_uid: "1".to_owned(),
            created: seconds("2024-01-01"),
            ..TokenSecret::default()
        };
        let used = |day: &str| TokenSecret { last_used: Some(day.to_owned()), ..secret.clone() };
        let marked = |day: &str| TokenSecret { invalid_since: day.to_owned(), ..secret.clone() };
        let mark = || Step::Invalidate("2026-06-15".to_owned());
        let table = [
            (secret.clone(), mark()),
            (used("2025-06-14"), mark()),
            (used("2025-06-15"), Step::Keep),
            (used("yesterday"), Step::Keep),
            (TokenSecret { created: seconds("2026-01-01"), ..secret.clone() }, Step::Keep),
            (TokenSecret { is_deleting: true, ..secret.clone() }, Step::Keep),
            (TokenSecret { account_uid: "2".to_owned(), ..secret.clone() }, Step::Keep),
            (TokenSecret { name: "by-hand".into(), ..secret.clone() }, Step::Keep),
            (marked("2025-06-14"), Step::Delete),
            (marked("2025-06-15"), Step::Keep),
            (marked("?"), mark()),
        ];
        for (secret, expected) in table {
            assert_eq!(step(&secret, Some(&account), &times), expected, "{secret:?}");
        }
        assert_eq!(step(&secret, None, &times), Step::Keep, "whose it is is not known");
        let young = Times { since: seconds("2025-06-15"), ..times };
        assert_eq!(step(&secret, Some(&account), &young), Step::Keep, "uses are not known for long enough");
    }

    #[test]
    fn pods_name_secrets_in_many_places() {
        let pod = json!({ "spec": {
            "imagePullSecrets": [{ "name": "a" }],
            "containers": [{ "env": [{ "valueFrom": { "secretKeyRef": { "name": "b", "key": "k" } } }],
                "envFrom": [{ "secretRef": { "name": "c" } }] }],
            "volumes": [
                { "secret": { "secretName": "d" } },
                { "projected": { "sources": [{ "secret": { "name": "e" } }] } },
                { "csi": { "nodePublishSecretRef": { "name": "f" } } },
                { "configMap": { "name": "g" } },
            ],
        } });
        let json = Bytes::from(pod.to_string());
        let item = Item { namespace: "n".into(), name: "p".into(), uid: "1".into(), revision: 1, json };
        let UsedSecrets(names) = UsedSecrets::read(&item).unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "e", "f"]);
    }
}
