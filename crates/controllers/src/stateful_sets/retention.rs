//! Who owns the claims of a StatefulSet's pods, so that they go when they are to: with the set, or with pods that are no
//! longer wanted.

use std::sync::Arc;

use rkube_operator::Informer;
use serde_json::{Value, json};

use crate::metadata::Owner;
use crate::pods::Pod;
use crate::stateful_sets::view::{Claim, Retention, StatefulSet};

/// Where claims are looked up.
pub struct Claims<'a>(pub &'a dyn Fn(&str) -> Option<Arc<Claim>>);

/// The claims of a namespace.
pub fn find(claims: &Informer<Claim>, namespace: &str) -> impl Fn(&str) -> Option<Arc<Claim>> {
    move |name| claims.get(namespace, name)
}

impl Claims<'_> {
    fn of(&self, set: &StatefulSet, ordinal: i64) -> impl Iterator<Item = Option<Arc<Claim>>> {
        set.claims.iter().map(move |template| (self.0)(&set.claim_name(template, ordinal)))
    }

    /// Whether a claim is still that of an earlier pod with the name of this one, which it goes with.
    pub fn has_stale(&self, set: &StatefulSet, ordinal: i64) -> bool {
        if !set.retention.delete_when_scaled {
            return false;
        }
        let name = set.pod_name(ordinal);
        self.of(set, ordinal).flatten().any(|claim| claim.pods().any(|pod| pod == name))
    }

    /// Whether a claim is not there, or will not be.
    pub fn misses(&self, set: &StatefulSet, ordinal: i64) -> bool {
        self.of(set, ordinal).any(|claim| claim.is_none_or(|claim| claim.deleted.is_some()))
    }
}

fn is_named(owner: &Owner, api_version: &str, kind: &str, name: &str) -> bool {
    owner.api_version == api_version && owner.kind == kind && owner.name == name
}

/// Whether all claims of a pod are owned as they should be.
pub fn is_kept(set: &StatefulSet, ordinal: i64, pod: &Pod, claims: &Claims<'_>) -> bool {
    claims.of(set, ordinal).flatten().all(|claim| is_owned_well(set, ordinal, pod, &claim))
}

pub fn is_owned_well(set: &StatefulSet, ordinal: i64, pod: &Pod, claim: &Claim) -> bool {
    let set_uid = &set.item.uid;
    let stale = |(owner, _): &(Arc<Owner>, bool)| {
        is_named(owner, "apps/v1", "StatefulSet", &set.item.name) && owner.uid != *set_uid
            || is_named(owner, "v1", "Pod", &pod.name) && owner.uid != pod.uid
    };
    // Whoever those are, it goes with them.
    if claim.owners.iter().any(stale) {
        return true;
    }
    let has = |uid: &str| claim.owners.iter().any(|(owner, _)| owner.uid == uid);
    let (by_set, by_pod) = (has(set_uid), has(&pod.uid));
    if has_other_controller(set, pod, claim) {
        return !by_set && !by_pod;
    }
    let is_ours = |owner: &Owner| owner.uid == *set_uid || owner.uid == pod.uid;
    if claim.owners.iter().any(|(owner, controls)| is_ours(owner) && !controls) {
        return false;
    }
    (by_set, by_pod) == wanted(set, ordinal)
}

/// Whether the set, and whether the pod, is to own the claims.
fn wanted(set: &StatefulSet, ordinal: i64) -> (bool, bool) {
    let Retention { delete_with_set, delete_when_scaled } = set.retention;
    let is_scaled_down = !set.wants(ordinal);
    (delete_with_set && !(delete_when_scaled && is_scaled_down), delete_when_scaled && is_scaled_down)
}

/// Whether somebody else controls a claim, so that it is left alone.
pub fn has_other_controller(set: &StatefulSet, pod: &Pod, claim: &Claim) -> bool {
    if set.retention == Retention::default() {
        return false;
    }
    claim.owners.iter().any(|(owner, controls)| {
        if is_named(owner, "apps/v1", "StatefulSet", &set.item.name) {
            owner.uid != set.item.uid
        } else if is_named(owner, "v1", "Pod", &pod.name) {
            owner.uid != pod.uid
        } else {
            *controls
        }
    })
}

/// The owners that a claim should have, of those that its object has.
pub fn owners(set: &StatefulSet, ordinal: i64, pod: &Pod, claim: &Claim, known: &Value) -> Value {
    let named = |owner: &Value, api_version: &str, kind: &str, name: &str| {
        owner["apiVersion"] == api_version && owner["kind"] == kind && owner["name"] == name
    };
    let set_name = set.item.name.as_str();
    let others = known
        .as_array()
        .into_iter()
        .flatten()
        .filter(|owner| !named(owner, "apps/v1", "StatefulSet", set_name) && !named(owner, "v1", "Pod", &pod.name));
    let mut owners: Vec<Value> = others.cloned().collect();
    if !has_other_controller(set, pod, claim) {
        let (by_set, by_pod) = wanted(set, ordinal);
        if by_pod {
            owners.push(reference("v1", "Pod", &pod.name, &pod.uid));
        }
        if by_set {
            owners.push(by_stateful_set(set));
        }
    }
    owners.into()
}

/// The owners of a claim that is made with its pod: it need not be written again once the pod is there.
pub fn first_owners(set: &StatefulSet, ordinal: i64) -> Option<Value> {
    let (by_set, _) = wanted(set, ordinal);
    by_set.then(|| vec![by_stateful_set(set)].into())
}

fn by_stateful_set(set: &StatefulSet) -> Value {
    reference("apps/v1", "StatefulSet", &set.item.name, &set.item.uid)
}

fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}
