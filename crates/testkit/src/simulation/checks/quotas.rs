//! What a quota counts does not grow beyond what it allows.

use std::collections::HashMap;

use rkube_machinery::quantity::Quantity;

use super::lately::Lately;
use super::view::{Pod, Quota};
use crate::Writer;

const CONTROLLER: &str = ":resourcequota-controller";

#[derive(Default)]
pub(super) struct Quotas {
    known: HashMap<String, Quota>,
    /// How many pods a namespace may have, by the quota's key.
    pods_max: HashMap<String, Lately>,
    /// How many there are that count, by namespace.
    pods: HashMap<String, i64>,
}

impl Quotas {
    pub fn quota(
        &mut self,
        key: &str,
        quota: Option<Quota>,
        writer: Option<&Writer<'_>>,
        at_micros: u64,
    ) -> Option<String> {
        let old = self.known.remove(key).unwrap_or_default();
        let Some(quota) = quota else {
            self.pods_max.remove(key);
            return None;
        };
        if let Some(pods) = quota.status.hard.get("pods").and_then(|text| Quantity::parse(text).ok()) {
            let pods = pods.value();
            self.pods_max.entry(key.to_owned()).or_default().set(pods, at_micros);
        }
        // It counts what is there, which may be more: a quota can be lowered.
        let counts = writer.is_some_and(|writer| writer.user.ends_with(CONTROLLER));
        let grown = quota.status.used.iter().filter(|_| !counts).find_map(|(resource, used)| {
            let hard = quota.status.hard.get(resource)?;
            let before = old.status.used.get(resource).and_then(|text| amount(text)).unwrap_or(0);
            let now = amount(used)?;
            (now > before && now > amount(hard)?)
                .then(|| format!("{resource}: {used} are charged for, and {hard} allowed"))
        });
        self.known.insert(key.to_owned(), quota);
        grown
    }

    pub fn pod(&mut self, key: &str, old: Option<&Pod>, new: Option<&Pod>, at_micros: u64) -> Option<String> {
        let namespace = key.split('/').nth(3).unwrap_or_default();
        // One that is to go counts for as long as its grace lasts, and no longer, whether it ends or not.
        let (was, is) = (old.is_some_and(Pod::is_active), new.is_some_and(Pod::is_active));
        let count = self.pods.entry(namespace.to_owned()).or_default();
        *count += i64::from(is) - i64::from(was);
        if was || !is {
            return None;
        }
        let prefix = format!("/registry/resourcequotas/{namespace}/");
        let here = self.pods_max.iter().filter(|(key, _)| key.starts_with(&prefix));
        let allowed = here.map(|(_, max)| max.max(at_micros)).min()?;
        (*count > allowed).then(|| format!("is the {count}. pod of its namespace, and {allowed} are allowed"))
    }
}

fn amount(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(|quantity| quantity.milli_value())
}
