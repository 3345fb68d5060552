//! What becomes of the claims of a pod, and of a claim, as pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use rkube_machinery::Text;
use serde_json::{Value, json};

use crate::pods::{DeviceClaim, Meant, Phase, Pod};
use crate::resource_claims::view::{Claim, Consumer, POD_CLAIM};

/// The letters of a name that are not random, at most.
const BASE_MAX: usize = 57;

/// A claim that a pod lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// What the pod calls it.
    pub name: Text,
    pub template: Text,
    /// It was made, but the pod does not say so.
    pub found: Option<Text>,
}

/// What the claims of a pod lack. `own` are the objects that the pod controls.
pub fn lacking(pod: &Pod, claim: impl Fn(&str) -> Option<Arc<Claim>>, own: &[Arc<Claim>]) -> Vec<Lacking> {
    let lacks = |wanted: &DeviceClaim| {
        let template = wanted.template.as_ref().filter(|_| wanted.named.is_none())?;
        match wanted.meant() {
            Meant::NotNeeded | Meant::Named(_) => return None,
            Meant::Made(name) if claim(name).is_some_and(|claim| claim.is_of(pod)) => return None,
            Meant::Made(_) | Meant::NotYet => {}
        }
        let found = own.iter().find(|claim| claim.pod_claim.as_ref() == Some(&wanted.name));
        let found = found.map(|claim| claim.item.name.clone());
        Some(Lacking { name: wanted.name.clone(), template: template.clone(), found })
    };
    claims(pod).iter().filter_map(lacks).collect()
}

/// What the pod's status says when these were made.
pub fn statuses(pod: &Pod, made: &BTreeMap<Text, Text>) -> Value {
    let statuses = claims(pod).iter().filter_map(|claim| {
        let known = || claim.made.as_ref().and_then(Option::as_ref).filter(|_| claim.template.is_some());
        let object = made.get(&claim.name).or_else(known)?;
        Some(json!({ "name": claim.name.as_str(), "resourceClaimName": object.as_str() }))
    });
    statuses.collect()
}

/// An object for a claim of a pod, from its template.
pub fn object(pod: &Pod, name: &str, template: &Value) -> Value {
    let source = &template["spec"];
    let mut metadata = json!({
        "generateName": base(&pod.name, name),
        "annotations": source["metadata"]["annotations"].as_object().cloned().unwrap_or_default(),
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Pod", "name": pod.name.as_str(), "uid": pod.uid.as_str(), "controller": true,
        }],
    });
    metadata["annotations"][POD_CLAIM] = name.into();
    if source["metadata"]["labels"].is_object() {
        metadata["labels"] = source["metadata"]["labels"].clone();
    }
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": source["spec"],
    })
}

/// What the names of objects begin with. Of both names a part is left when they are too long.
fn base(pod: &str, name: &str) -> String {
    let whole = format!("{pod}-{name}-");
    if whole.len() <= BASE_MAX {
        return whole;
    }
    let part = |text: &str| text.get(..text.len() * BASE_MAX / whole.len()).unwrap_or_default().to_owned();
    format!("{}-{}", part(pod), part(name))
}

/// The claims that a pod with a node uses without having reserved them.
pub fn unreserved(pod: &Pod, claim: impl Fn(&str) -> Option<Arc<Claim>>) -> Vec<Arc<Claim>> {
    let mut unreserved = Vec::new();
    if pod.node.is_empty() {
        // The scheduler sees to it.
        return unreserved;
    }
    for wanted in claims(pod) {
        let Some(found) = wanted.object().and_then(|name| claim(name)) else { continue };
        let is_meant = matches!(wanted.meant(), Meant::Named(_)) || found.is_of(pod);
        if is_meant && found.allocation.is_some() && !found.is_reserved_for(pod) {
            unreserved.push(found);
        }
    }
    unreserved
}

/// Whether it is certain that the pod does not run, and will not.
pub fn is_done(pod: &Pod) -> bool {
    matches!(pod.phase, Phase::Succeeded | Phase::Failed) || (pod.deleted.is_some() && pod.node.is_empty())
}

/// What becomes of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    Kept,
    Over,
    /// Nobody here knows the pod: the API does.
    Unknown,
}

pub fn reservation(consumer: &Consumer, pod: Option<&Pod>) -> Reservation {
    match pod {
        _ if !consumer.is_pod() => Reservation::Kept,
        None => Reservation::Unknown,
        Some(pod) if pod.uid != consumer.uid || is_done(pod) => Reservation::Over,
        Some(_) => Reservation::Kept,
    }
}

/// What is done with a claim of which so many reservations remain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// Reservations that are over are taken out.
    pub reservations: bool,
    /// Its devices are free.
    pub allocation: bool,
    /// It need not be kept.
    pub finalizer: bool,
    /// It was made for a pod that does not need it.
    pub delete: bool,
}

pub fn release(claim: &Claim, remaining: usize, owner: Option<&Pod>) -> Release {
    let (unused, over) = (remaining == 0, remaining < claim.reserved_for.len());
    let ends = unused && claim.finalized && (over || claim.deleted);
    let is_useless = |pod: &Pod| claim.pod.as_ref().is_some_and(|(_, uid)| *uid != pod.uid) || is_done(pod);
    Release {
        reservations: over,
        allocation: ends && claim.allocation.is_some(),
        finalizer: ends || (over && claim.finalized && claim.allocation.is_none()),
        delete: unused && !claim.deleted && claim.pod.is_some() && owner.is_some_and(is_useless),
    }
}

fn claims(pod: &Pod) -> &[DeviceClaim] {
    pod.devices.as_ref().map_or(&[], |devices| &devices.claims)
}

#[cfg(test)]
mod tests {
    use rkube_operator::Item;

    use super::*;

    fn pod(spec: &Value, status: &Value) -> Pod {
        let object = json!({ "metadata": {}, "spec": spec, "status": status });
        let json = object.to_string().into();
        Pod::read(&Item { namespace: "n".into(), name: "p".into(), uid: "u".into(), revision: 1, json }).unwrap()
    }

    fn claim(name: &str, owner: &str, status: &Value) -> Arc<Claim> {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": true });
        let metadata = json!({
            "annotations": { POD_CLAIM: "gpu" }, "ownerReferences": [owner], "finalizers": [super::super::view::FINALIZER],
        });
        let object = json!({ "metadata": metadata, "status": status });
        let json = object.to_string().into();
        let item = Item { namespace: "n".into(), name: name.into(), uid: "c".into(), revision: 1, json };
        Arc::new(Claim::read(&item).unwrap())
    }

    #[test]
    fn claims_are_made_once() {
        let spec = json!({ "resourceClaims": [
            { "name": "gpu", "resourceClaimTemplateName": "t" }, { "name": "nic", "resourceClaimName": "mine" },
            { "name": "tpu", "resourceClaimTemplateName": "t" },
        ] });
        let made = |name: &str| json!({ "resourceClaimStatuses": [{ "name": "gpu", "resourceClaimName": name }, { "name": "tpu" }] });
        let (ours, theirs) = (claim("p-gpu-1", "u", &json!({})), claim("p-gpu-2", "other", &json!({})));
        let all = [ours.clone(), theirs];
        let find = |name: &str| all.iter().find(|claim| claim.item.name == name).cloned();
        let lack = |name: &str, found: Option<&str>| Lacking {
            name: name.into(),
            template: "t".into(),
            found: found.map(Into::into),
        };
        // What the pod's status says, which claims it has, and what it lacks.
        let table = [
            (json!({}), vec![], vec![lack("gpu", None), lack("tpu", None)]),
            (json!({}), vec![ours.clone()], vec![lack("gpu", Some("p-gpu-1")), lack("tpu", None)]),
            (made("p-gpu-1"), vec![ours.clone()], vec![]),
            (made("p-gpu-2"), vec![ours.clone()], vec![lack("gpu", Some("p-gpu-1"))]),
            (made("gone"), vec![], vec![lack("gpu", None)]),
        ];
        for (status, own, expected) in table {
            assert_eq!(lacking(&pod(&spec, &status), find, &own), expected, "{status}");
        }
        let both = BTreeMap::from([("tpu".into(), "p-tpu-1".into())]);
        let expected = json!([
            { "name": "gpu", "resourceClaimName": "p-gpu-1" }, { "name": "tpu", "resourceClaimName": "p-tpu-1" },
        ]);
        assert_eq!(statuses(&pod(&spec, &made("p-gpu-1")), &both), expected);
    }

    #[test]
    fn objects_come_from_templates() {
        let template = json!({ "spec": {
            "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } }, "spec": { "devices": {} },
        } });
        let object = object(&pod(&json!({}), &json!({})), "gpu", &template);
        let metadata = &object["metadata"];
        assert_eq!(metadata["generateName"], "p-gpu-");
        assert_eq!(metadata["annotations"], json!({ "c": "d", POD_CLAIM: "gpu" }));
        assert_eq!((&metadata["labels"], &object["spec"]), (&json!({ "a": "b" }), &json!({ "devices": {} })));
        assert_eq!(metadata["ownerReferences"][0]["uid"], "u");
        assert_eq!(base(&"p".repeat(60), &"c".repeat(38)).len(), 34 + 1 + 21);
    }

    #[test]
    fn reservations_end_with_pods() {
        let consumer =
            |uid: &str| Consumer { resource: "pods".into(), name: "p".into(), uid: uid.into(), ..Consumer::default() };
        let other = Consumer { api_group: "example.com".into(), ..consumer("u") };
        let running = pod(&json!({ "nodeName": "node" }), &json!({ "phase": "Running" }));
        let ended = pod(&json!({ "nodeName": "node" }), &json!({ "phase": "Failed" }));
        let unscheduled = Pod { deleted: Some(1), node: Text::default(), ..running.clone() };
        let terminating = Pod { deleted: Some(1), ..running.clone() };
        // Who reserved it, the pod of that name, and what becomes of it.
        let table = [
            (consumer("u"), Some(&running), Reservation::Kept),
            (consumer("u"), Some(&terminating), Reservation::Kept),
            (consumer("u"), Some(&ended), Reservation::Over),
            (consumer("u"), Some(&unscheduled), Reservation::Over),
            (consumer("before"), Some(&running), Reservation::Over),
            (consumer("u"), None, Reservation::Unknown),
            (other, None, Reservation::Kept),
        ];
        for (consumer, pod, expected) in table {
            assert_eq!(reservation(&consumer, pod), expected, "{consumer:?}");
        }
    }

    #[test]
    fn claims_that_nobody_uses_are_released() {
        let reserved = json!({ "reservedFor": [{ "resource": "pods", "name": "p", "uid": "u" }], "allocation": {} });
        let (running, done) = (pod(&json!({}), &json!({})), pod(&json!({}), &json!({ "phase": "Succeeded" })));
        let nothing = Release::default();
        let all = Release { reservations: true, allocation: true, finalizer: true, delete: false };
        let gone = Claim { deleted: true, ..Claim::clone(&claim("c", "u", &json!({ "allocation": {} }))) };
        // The claim, how many reservations remain, its pod, and what is done.
        let table = [
            (claim("c", "u", &reserved), 1, Some(&running), nothing),
            (claim("c", "u", &reserved), 0, Some(&running), all),
            (claim("c", "u", &reserved), 0, Some(&done), Release { delete: true, ..all }),
            (claim("c", "u", &reserved), 0, None, all),
            (claim("c", "u", &json!({ "allocation": {} })), 0, Some(&running), nothing),
            (claim("c", "u", &json!({})), 0, Some(&done), Release { delete: true, ..nothing }),
            (claim("c", "before", &json!({})), 0, Some(&running), Release { delete: true, ..nothing }),
            (Arc::new(gone), 0, None, Release { allocation: true, finalizer: true, ..nothing }),
        ];
        for (index, (claim, remaining, owner, expected)) in table.into_iter().enumerate() {
            assert_eq!(release(&claim, remaining, owner), expected, "{index}");
        }
    }

    #[test]
    fn pods_with_nodes_reserve_what_they_use() {
        let spec = json!({ "nodeName": "node", "resourceClaims": [{ "name": "gpu", "resourceClaimName": "c" }] });
        let scheduled = pod(&spec, &json!({}));
        let unscheduled = Pod { node: Text::default(), ..scheduled.clone() };
        let reserved = json!({ "allocation": {}, "reservedFor": [{ "resource": "pods", "name": "p", "uid": "u" }] });
        for (pod, status, expected) in [
            (&scheduled, json!({ "allocation": {} }), 1),
            (&unscheduled, json!({ "allocation": {} }), 0),
            (&scheduled, json!({}), 0),
            (&scheduled, reserved, 0),
        ] {
            let found = unreserved(pod, |_| Some(claim("c", "other", &status)));
            assert_eq!(found.len(), expected, "{status}");
        }
    }
}
