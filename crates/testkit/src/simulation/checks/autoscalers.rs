//! An autoscaler sets no number but one that it may: from its least to its most.

use std::collections::HashMap;

use super::lately::Lately;
use super::view::Autoscaler;
use crate::Writer;

const CONTROLLER: &str = ":horizontal-pod-autoscaler";

#[derive(Default)]
pub(super) struct Autoscalers {
    /// By key.
    known: HashMap<String, Known>,
    /// How many pods each Deployment asks for, by key.
    replicas: HashMap<String, i64>,
}

struct Known {
    /// The key of the Deployment that it scales.
    target: String,
    /// The opposite, so that the least of late is known.
    least: Lately,
    most: Lately,
}

impl Autoscalers {
    pub fn autoscaler(&mut self, key: &str, autoscaler: Option<Autoscaler>, at_micros: u64) {
        let Some(Autoscaler { spec }) = autoscaler else {
            self.known.remove(key);
            return;
        };
        let target = format!("/registry/deployments/{}/{}", namespace(key), spec.scale_target_ref.name);
        let (least, most) = (-spec.min_replicas.unwrap_or(1), spec.max_replicas);
        let known = self.known.entry(key.to_owned()).or_insert_with(|| Known {
            target: String::new(),
            least: Lately::starting(least),
            most: Lately::starting(most),
        });
        known.target = target;
        known.least.set(least, at_micros);
        known.most.set(most, at_micros);
    }

    pub fn deployment(
        &mut self,
        key: &str,
        replicas: Option<i64>,
        writer: Option<&Writer<'_>>,
        at_micros: u64,
    ) -> Option<String> {
        let Some(replicas) = replicas else {
            self.replicas.remove(key);
            return None;
        };
        let before = self.replicas.insert(key.to_owned(), replicas);
        let is_scaled = before.is_some_and(|before| before != replicas);
        writer.filter(|writer| is_scaled && writer.user.ends_with(CONTROLLER))?;
        let its: Vec<&Known> = self.known.values().filter(|known| known.target == key).collect();
        let range = |known: &&Known| (-known.least.max(at_micros), known.most.max(at_micros));
        let least = its.iter().map(|known| range(known).0).min()?;
        let most = its.iter().map(|known| range(known).1).max()?;
        (!(least..=most).contains(&replicas))
            .then(|| format!("is scaled to {replicas}, and it may be from {least} to {most}"))
    }
}

fn namespace(key: &str) -> &str {
    key.split('/').nth(3).unwrap_or_default()
}
