//! When a pod has to go because of its devices, as pure functions.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::DeviceToleration;

use crate::device_taint_eviction::view::{Pool, Slice, Taint};
use crate::pods::{Meant, Pod};
use crate::resource_claims::view::{Allocated, Claim};

/// The time from which on a pod must not run, in seconds since 1970; None: it may.
pub fn eviction(
    pod: &Pod,
    claim: impl Fn(&str) -> Option<Arc<Claim>>,
    slices: impl Fn(&Pool) -> Vec<Arc<Slice>>,
) -> Option<i64> {
    let devices = pod.devices.as_ref().filter(|_| !pod.node.is_empty())?;
    let used = devices.claims.iter().filter_map(|wanted| {
        let found = claim(wanted.object()?)?;
        let is_meant = matches!(wanted.meant(), Meant::Named(_)) || found.is_of(pod);
        (is_meant && found.is_reserved_for(pod)).then_some(found)
    });
    used.filter_map(|claim| claim.allocation.iter().flatten().filter_map(|device| of_device(device, &slices)).min())
        .min()
}

fn of_device(device: &Allocated, slices: impl Fn(&Pool) -> Vec<Arc<Slice>>) -> Option<i64> {
    let all = slices(&(device.driver.clone(), device.pool.clone()));
    let last = all.iter().map(|slice| slice.generation).max()?;
    let current = all.iter().filter(|slice| slice.generation == last);
    let (_, taints) = current.flat_map(|slice| &slice.tainted).find(|(name, _)| *name == device.device)?;
    taints.iter().filter_map(|taint| of_taint(taint, &device.tolerations)).min()
}

/// None: it is tolerated for ever.
fn of_taint(taint: &Taint, tolerations: &[DeviceToleration]) -> Option<i64> {
    let added = taint.added?;
    let tolerating = tolerations.iter().filter(|toleration| tolerates(toleration, taint));
    let mut shortest: Option<i64> = None;
    for toleration in tolerating {
        let seconds = toleration.toleration_seconds?.max(0);
        shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
    }
    Some(added.saturating_add(shortest.unwrap_or(0)))
}

fn tolerates(toleration: &DeviceToleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let key = text(&toleration.key);
    if toleration.effect.as_deref() != Some("NoExecute") || (!key.is_empty() && taint.key != key) {
        return false;
    }
    match toleration.operator.as_deref() {
        None | Some("" | "Equal") => taint.value == text(&toleration.value),
        Some("Exists") => true,
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use rkube_operator::Item;
    use serde_json::{Value, json};

    use super::*;

    fn item(object: &Value) -> Item {
        let json = object.to_string().into();
        Item { namespace: "n".into(), name: "p".into(), uid: "u".into(), revision: 1, json }
    }

    fn pod(node: &str) -> Pod {
        let spec = json!({ "nodeName": node, "resourceClaims": [{ "name": "gpu", "resourceClaimName": "c" }] });
        Pod::read(&item(&json!({ "metadata": {}, "spec": spec }))).unwrap()
    }

    fn claim(uid: &str, tolerations: &Value) -> Claim {
        let device = json!({ "driver": "d", "pool": "p", "device": "gpu-0", "tolerations": tolerations });
        let reserved = json!([{ "resource": "pods", "name": "p", "uid": uid }]);
        let status = json!({ "allocation": { "devices": { "results": [device] } }, "reservedFor": reserved });
        Claim::read(&item(&json!({ "metadata": {}, "status": status }))).unwrap()
    }

    fn slice(generation: i64, device: &str, taints: &Value) -> Arc<Slice> {
        let pool = json!({ "name": "p", "generation": generation });
        let devices = json!([{ "name": device, "taints": taints }]);
        Arc::new(Slice::read(&item(&json!({ "spec": { "driver": "d", "pool": pool, "devices": devices } }))).unwrap())
    }

    #[test]
    fn pods_go_when_their_devices_do() {
        let taint = |effect: &str, seconds: u32| json!([{ "key": "k", "value": "v", "effect": effect, "timeAdded": format!("1970-01-01T00:00:{seconds:02}Z") }]);
        let tolerating = |operator: &str, value: &str, seconds: Option<i64>| json!([{ "key": "k", "operator": operator, "value": value, "effect": "NoExecute", "tolerationSeconds": seconds }]);
        let bad = || vec![slice(1, "gpu-0", &taint("NoExecute", 10))];
        let none = json!([]);
        let any_effect = json!([{ "operator": "Exists" }]);
        // The node and uid of the pod, tolerations, slices, and when it goes.
        let table = [
            ("node", "u", &none, bad(), Some(10)),
            ("", "u", &none, bad(), None),
            ("node", "other", &none, bad(), None),
            ("node", "u", &none, vec![slice(1, "gpu-0", &taint("NoSchedule", 10))], None),
            ("node", "u", &none, vec![slice(1, "gpu-1", &taint("NoExecute", 10))], None),
            ("node", "u", &none, [bad(), vec![slice(2, "gpu-1", &none)]].concat(), None),
            ("node", "u", &none, vec![], None),
            ("node", "u", &tolerating("Equal", "v", None), bad(), None),
            ("node", "u", &tolerating("Equal", "w", None), bad(), Some(10)),
            ("node", "u", &tolerating("Exists", "", Some(30)), bad(), Some(40)),
            ("node", "u", &tolerating("Exists", "", Some(-5)), bad(), Some(10)),
            ("node", "u", &tolerating("Unknown", "v", None), bad(), Some(10)),
            // As upstream: only those that name the effect count.
            ("node", "u", &any_effect, bad(), Some(10)),
        ];
        for (index, (node, uid, tolerations, slices, expected)) in table.into_iter().enumerate() {
            let claim = Arc::new(claim(uid, tolerations));
            let found = eviction(&pod(node), |_| Some(claim.clone()), |_| slices.clone());
            assert_eq!(found, expected, "{index}");
        }
    }
}
