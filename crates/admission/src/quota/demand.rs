//! What a write asks of quotas, and what they answer. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rkube_catalog::Entry;
use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Text, Value};
use rkube_quota::{Amounts, Container, Evaluator, Quota, Scopes, amounts};

use super::known::Known;
use crate::Attributes;

type Says = fn(&Container) -> bool;

/// Of these a quota wants containers to say how much they ask for.
const SAID: [(&str, Says); 6] = [
    ("cpu", |container| container.requests_cpu),
    ("limits.cpu", |container| container.limits_cpu),
    ("limits.memory", |container| container.limits_memory),
    ("memory", |container| container.requests_memory),
    ("requests.cpu", |container| container.requests_cpu),
    ("requests.memory", |container| container.requests_memory),
];

/// What is then used of those resources that something is taken of.
pub type Sums = Vec<(Text, Quantity)>;

/// A quota with what is charged to it and not yet written.
pub struct Running {
    pub entry: Entry,
    pub quota: Arc<Quota>,
    /// What is used of it with what is charged; None as long as that is nothing.
    pub charged: Option<Amounts>,
}

impl Running {
    pub fn new(entry: Entry, known: &Known) -> Running {
        Running { quota: known.read(&entry), entry, charged: None }
    }

    pub fn charge(&mut self, sums: Sums) {
        let charged = self.charged.get_or_insert_with(|| self.quota.used.clone().unwrap_or_default());
        charged.extend(sums);
    }

    fn used(&self) -> Option<&Amounts> {
        self.charged.as_ref().or(self.quota.used.as_ref())
    }

    pub fn name(&self) -> &Text {
        &self.entry.object.name
    }
}

/// What a write asks for, in a form of its own: it is compared with quotas more than once.
#[derive(Debug)]
pub struct Demand {
    evaluator: Evaluator,
    scopes: Scopes,
    usage: Amounts,
    /// Of the object that is changed.
    before: Option<(Scopes, Amounts)>,
    containers: Vec<Container>,
    /// What nodes and controllers report is charged, and never refused.
    is_reported: bool,
}

impl Demand {
    pub fn new(evaluator: Evaluator, attributes: &Attributes<'_>, object: &Value, now_micros: i64) -> Demand {
        let measure = |object: &Value| {
            let measure = evaluator.measure(object);
            (measure.scopes.clone(), measure.usage_at(now_micros))
        };
        let (scopes, usage) = measure(object);
        Demand {
            scopes,
            usage,
            before: attributes.old.map(measure),
            containers: evaluator.containers(object),
            is_reported: attributes.subresource == "status",
            evaluator,
        }
    }

    /// What is used of each quota, by its place, once this is charged; or why it is refused. Quotas that it takes nothing of
    /// are left out.
    pub fn check(&self, quotas: &[Running]) -> Result<Vec<(usize, Sums)>, String> {
        let mut concerned = Vec::new();
        for (place, running) in quotas.iter().enumerate() {
            if running.quota.is_about(&self.evaluator, &self.scopes) {
                self.check_known(running)?;
                concerned.push(place);
            }
        }
        let negative: Vec<&str> =
            self.usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name.as_str()).collect();
        if !negative.is_empty() {
            return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
        }
        let mut charges = Vec::new();
        for place in concerned {
            let sums = self.charge(&quotas[place])?;
            if !sums.is_empty() {
                charges.push((place, sums));
            }
        }
        Ok(charges)
    }

    /// The object says what the quota wants to know, and it is known what is used of it.
    fn check_known(&self, running: &Running) -> Result<(), String> {
        let hard = running.quota.hard.iter().flat_map(Amounts::keys);
        let counted: Vec<&Text> = hard.filter(|name| self.evaluator.counts(name)).collect();
        if let Some(missing) = self.missing(&counted) {
            return Err(format!("failed quota: {}: must specify {missing}", running.name()));
        }
        let is_known = |name: &&Text| running.used().is_some_and(|used| used.contains_key(*name));
        if !counted.iter().all(is_known) {
            let names: Vec<&str> = counted.iter().map(|name| name.as_str()).collect();
            return Err(format!("status unknown for quota: {}, resources: {}", running.name(), names.join(",")));
        }
        Ok(())
    }

    /// What containers do not say.
    fn missing(&self, counted: &[&Text]) -> Option<String> {
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, says) in SAID.iter().filter(|(name, _)| counted.iter().any(|counted| counted == name)) {
            for container in self.containers.iter().filter(|container| !says(container)) {
                missing.entry(name).or_default().insert(&container.name);
            }
        }
        let texts: Vec<String> = missing
            .into_iter()
            .map(|(name, containers)| format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(",")))
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// What is used once this is charged, of what it takes.
    fn charge(&self, running: &Running) -> Result<Sums, String> {
        let Some((hard, used)) = running.quota.hard.as_ref().zip(running.used()) else { return Ok(Sums::new()) };
        // What a quota did not count before, it counts as a whole.
        let before = self.before.as_ref().filter(|(scopes, _)| running.quota.is_about(&self.evaluator, scopes));
        let (mut sums, mut exceeded) = (Sums::new(), Exceeded::default());
        for (name, limit) in hard {
            let Some(amount) = self.usage.get(name) else { continue };
            let had = before.and_then(|(_, before)| before.get(name));
            let requested = had.map_or_else(|| amount.clone(), |had| amount.sub(had));
            if requested <= Quantity::ZERO {
                continue;
            }
            let sum = used.get(name).map_or_else(|| requested.clone(), |used| used.add(&requested));
            if sum > *limit {
                exceeded.requested.insert(name.clone(), requested);
                exceeded.used.extend(used.get(name).map(|used| (name.clone(), used.clone())));
                exceeded.limited.insert(name.clone(), limit.clone());
            }
            sums.push((name.clone(), sum));
        }
        if !self.is_reported && !exceeded.requested.is_empty() {
            return Err(exceeded.text(running.name()));
        }
        Ok(sums)
    }
}

/// What a quota has not enough of.
#[derive(Default)]
struct Exceeded {
    requested: Amounts,
    used: Amounts,
    limited: Amounts,
}

impl Exceeded {
    fn text(&self, name: &str) -> String {
        let [requested, used, limited] = [&self.requested, &self.used, &self.limited].map(amounts::to_text);
        format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}")
    }
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
