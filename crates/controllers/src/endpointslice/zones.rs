//! Hints by the size of zones, for services that ask for them by annotation, as pure functions: every zone gets as large a
//! part of the endpoints as it has of the CPUs of all nodes; its own first, and where these do not suffice some of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use rkube_machinery::Text;

use crate::endpointslice::plan::{Content, Plan, Unchanged};
use crate::nodes::Node;
use crate::services::slices::{Endpoint, Hints, Named, hints_digest};

/// So much more than the average an endpoint may have to do.
const OVERLOAD_MAX: f64 = 0.2;
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// How many endpoints each zone has.
pub type Counts = BTreeMap<Text, usize>;

/// Which part of the CPUs of all nodes each zone has; of two zones at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares(BTreeMap<Text, f64>);

impl Shares {
    /// None: it takes nodes in two zones, and one that does not say what it has spoils all.
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    pub fn of(nodes: &[Arc<Node>]) -> Option<Shares> {
        let is_counted = |node: &&Arc<Node>| node.ready && !EXCLUDED.iter().any(|key| node.labels.get(key).is_some());
        let mut by_zone: BTreeMap<Text, i64> = BTreeMap::new();
        for node in nodes.iter().filter(is_counted) {
            if node.zone.is_empty() || node.cpu_milli == 0 {
                return None;
            }
            *by_zone.entry(node.zone.clone()).or_default() += node.cpu_milli;
        }
        let total: i64 = by_zone.values().sum();
        let share = |(zone, cpu): (Text, i64)| (zone, cpu as f64 / total as f64);
        (by_zone.len() > 1 && total > 0).then(|| Shares(by_zone.into_iter().map(share).collect()))
    }

    /// Whether some zone has fewer endpoints than it has to have.
    pub fn overload(&self, counts: &Counts) -> bool {
        let total = counts.values().sum();
        let mut zones = self.0.iter();
        zones.any(|(zone, share)| counts.get(zone).is_none_or(|count| *count < least(*share, total)))
    }
}

/// What a zone is to have.
struct Part {
    most: usize,
    desired: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a service has not so many endpoints")]
fn parts(shares: Option<&Shares>, endpoints: usize) -> Result<BTreeMap<&Text, Part>, String> {
    let Some(Shares(shares)) = shares else {
        let what = "allocatable CPU or zone not specified on one or more nodes";
        return Err(format!("Insufficient Node information: {what}"));
    };
    let zones = shares.len();
    if zones > endpoints {
        return Err(format!("Insufficient number of endpoints ({endpoints} endpoints, {zones} zones)"));
    }
    let least_of_all: usize = shares.values().map(|share| least(*share, endpoints)).sum();
    let Some(spare) = endpoints.checked_sub(least_of_all) else {
        return Err(format!(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
             ({endpoints} endpoints, {zones} zones)"
        ));
    };
    let part = |share: f64| {
        let least = least(share, endpoints);
        Part { most: least + spare, desired: (share * endpoints as f64).max(least as f64) }
    };
    Ok(shares.iter().map(|(zone, share)| (zone, part(*share))).collect())
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is between nothing and all"
)]
fn least(share: f64, endpoints: usize) -> usize {
    (share * endpoints as f64 * (1.0 / (1.0 + OVERLOAD_MAX))).ceil() as usize
}

/// Gives hints to all slices that are made or change, and changes others where it must. How many endpoints each zone has
/// then; or why there are no hints.
pub fn give(plan: &mut Plan, unchanged: Vec<Unchanged<'_>>, shares: Option<&Shares>) -> Result<Counts, String> {
    let contents = plan.contents().chain(unchanged.iter().map(|one| &one.content));
    let ready = contents.flat_map(|content| &content.endpoints).filter(|endpoint| endpoint.is_ready()).count();
    let parts = match parts(shares, ready) {
        Ok(parts) => parts,
        Err(why) => {
            plan.update.extend(unchanged.into_iter().filter(Unchanged::has_hints).map(Unchanged::into_update));
            return Err(why);
        }
    };
    let mut counts = Counts::new();
    for one in unchanged {
        match kept(&one, &parts, &counts) {
            Some(kept) => kept.into_iter().for_each(|(zone, count)| *counts.entry(zone.clone()).or_default() += count),
            None => plan.update.push(one.into_update()),
        }
    }
    if plan.contents_mut().flat_map(ready_endpoints).any(|endpoint| endpoint.zone.is_none()) {
        return Err("One or more endpoints do not have a zone specified".to_owned());
    }
    for endpoint in plan.contents_mut().flat_map(ready_endpoints) {
        let zone = endpoint.zone.clone().unwrap_or_default();
        endpoint.hints = Some(for_zone(&zone));
        *counts.entry(zone).or_default() += 1;
    }
    let moves = moves(&parts, &counts);
    for (from, to) in moves {
        let is_given = |endpoint: &&mut Endpoint| {
            endpoint.zone.as_ref() == Some(from) && endpoint.hints.as_ref() == Some(&for_zone(from))
        };
        let Some(endpoint) = plan.contents_mut().flat_map(ready_endpoints).find(is_given) else { continue };
        endpoint.hints = Some(for_zone(to));
        *counts.entry(to.clone()).or_default() += 1;
        counts.entry(from.clone()).and_modify(|count| *count -= 1);
    }
    Ok(counts)
}

/// The hints of a slice that can stay as it is; None: it cannot.
fn kept<'a>(
    one: &Unchanged<'_>,
    parts: &BTreeMap<&'a Text, Part>,
    counts: &Counts,
) -> Option<BTreeMap<&'a Text, usize>> {
    let mut kept: BTreeMap<&'a Text, usize> = BTreeMap::new();
    for hints in one.hints_of_ready() {
        let zone = parts.keys().find(|zone| hints_digest(Some(&for_zone(zone))) == hints)?;
        *kept.entry(*zone).or_default() += 1;
    }
    let fits = |(zone, count): (&&Text, &usize)| {
        parts.get(*zone).is_some_and(|part| count + counts.get(*zone).copied().unwrap_or(0) <= part.most)
    };
    kept.iter().all(fits).then_some(kept)
}

/// Endpoints that one zone gives to another, each time from the one that has most too many to the one that lacks most.
#[expect(clippy::cast_precision_loss, reason = "a service has not so many endpoints")]
fn moves<'a>(parts: &BTreeMap<&'a Text, Part>, counts: &Counts) -> Vec<(&'a Text, &'a Text)> {
    let beyond = |zone: &Text, part: &Part| counts.get(zone).copied().unwrap_or(0) as f64 - part.desired;
    let mut beyond: BTreeMap<&Text, f64> = parts.iter().map(|(zone, part)| (*zone, beyond(zone, part))).collect();
    let mut moves = Vec::new();
    loop {
        let most = beyond.iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
        let least = beyond.iter().min_by(|(_, one), (_, other)| one.total_cmp(other));
        let Some(((from, many), (to, few))) = most.zip(least) else { return moves };
        let (from, to, many, few) = (*from, *to, *many, -*few);
        if many < 0.5 || few < 0.5 || (many < 1.0 && few < 1.0) {
            return moves;
        }
        moves.push((from, to));
        beyond.entry(from).and_modify(|beyond| *beyond -= 1.0);
        beyond.entry(to).and_modify(|beyond| *beyond += 1.0);
    }
}

fn ready_endpoints(content: &mut Content) -> impl Iterator<Item = &mut Endpoint> {
    content.endpoints.iter_mut().filter(|endpoint| endpoint.is_ready())
}

fn for_zone(zone: &Text) -> Hints {
    Hints { for_zones: vec![Named { name: zone.clone() }], for_nodes: Vec::new() }
}

#[cfg(test)]
#[path = "zones_tests.rs"]
mod tests;
