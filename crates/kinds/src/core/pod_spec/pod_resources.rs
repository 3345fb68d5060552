//! The resources of a pod as a whole, and what its containers come to together.

use std::collections::BTreeMap;

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Text, Value};

use super::options::PodOptions;
use super::resources::{self, ClaimNames};
use super::{amounts, checks};

type Amounts = BTreeMap<Text, Quantity>;

/// What all containers need at most at one time; `field` is `requests` or `limits`.
///
/// Init containers run one after the other, sidecars run on beside all that come later.
pub(crate) fn aggregate(spec: &Value, field: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in spec.list("containers") {
        add(&mut total, container.get("resources").map(field).iter());
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.list("initContainers") {
        let list = container.get("resources").map(field);
        let mut during = if checks::is_sidecar(container) {
            add(&mut total, list.iter());
            Amounts::new()
        } else {
            list.iter().map(|(name, amount)| (name.clone(), amounts::of(amount))).collect()
        };
        if checks::is_sidecar(container) {
            add(&mut sidecars, list.iter());
        }
        for (name, amount) in &sidecars {
            let sum = during.get(name).map_or_else(|| amount.clone(), |own| own.add(amount));
            during.insert(name.clone(), sum);
        }
        raise(&mut peak, during);
    }
    raise(&mut total, peak);
    total
}

fn add<'a>(total: &mut Amounts, list: impl Iterator<Item = (&'a Text, &'a Value)>) {
    for (name, amount) in list {
        let amount = amounts::of(amount);
        let sum = total.get(name).map_or_else(|| amount.clone(), |old| old.add(&amount));
        total.insert(name.clone(), sum);
    }
}

fn raise(total: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        if total.get(&name).is_none_or(|old| amount > *old) {
            total.insert(name, amount);
        }
    }
}

/// Requests and limits of the pod itself from those of its containers, where some are given.
pub(crate) fn default_pod_resources(spec: &mut Value) {
    let resources = spec.get("resources");
    if resources.map("limits").is_empty() && resources.map("requests").is_empty() {
        return;
    }
    let limits = aggregate(spec, "limits");
    for (name, amount) in limits.iter().filter(|(name, _)| amounts::is_huge_page(name)) {
        let resources = spec.object_mut("resources");
        if !resources.map("requests").contains(name) {
            put_if_absent(resources.object_mut("limits"), name, &amount.to_string());
        }
    }
    if spec.get("resources").map("limits").is_empty() {
        return;
    }
    let requests = aggregate(spec, "requests");
    let resources = spec.object_mut("resources");
    for (name, amount) in &requests {
        if resources::is_pod_level(name) && resources::is_overcommit_allowed(name) {
            put_if_absent(resources.object_mut("requests"), name, &amount.to_string());
        }
    }
    let limits = resources.map("limits").clone();
    for (name, amount) in limits.iter().filter(|(name, _)| resources::is_pod_level(name)) {
        put_if_absent(resources.object_mut("requests"), name, amount.as_str());
    }
}

fn put_if_absent(list: &mut Value, name: &str, amount: &str) {
    list.set_if_absent(name, amount);
}

pub(super) fn validate_pod_resources(
    path: Path<'_>,
    spec: &Value,
    claims: &ClaimNames<'_>,
    options: &PodOptions,
    errors: &mut Errors,
) {
    let resources = spec.get("resources");
    if resources.is_null() {
        return;
    }
    if spec.get("os").str("name") == "windows" {
        return errors.forbidden(path, "may not be set for a windows pod");
    }
    if resources.has("claims") {
        errors.forbidden(path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    resources::validate_pod_requirements(path, resources, claims, options, errors);
    if resources.map("requests").is_empty() && resources.map("limits").is_empty() {
        return;
    }
    compare_total(path.child("requests"), resources.get("requests"), &aggregate(spec, "requests"), "requests", errors);
    let mut limits = aggregate(spec, "limits");
    limits.retain(|name, _| amounts::is_huge_page(name));
    compare_total(path.child("limits"), resources.get("limits"), &limits, "limits", errors);
    let containers = path.child("containers");
    for (index, container) in spec.list("containers").iter().enumerate() {
        for (name, amount) in container.get("resources").map("limits").iter() {
            let Some(limit) = resources.map("limits").get(name) else { continue };
            if amounts::of(amount) > amounts::of(limit) {
                let words = format!("must be less than or equal to pod limits of {}", limit.as_str());
                let path = containers.index(index);
                errors.invalid(path.key(name).child("limits"), amount, words);
            }
        }
    }
}

fn compare_total(path: Path<'_>, list: &Value, total: &Amounts, what: &str, errors: &mut Errors) {
    for (name, needed) in total {
        let Some(amount) = list.as_map().get(name) else { continue };
        if *needed > amounts::of(amount) {
            let words = format!("must be greater than or equal to aggregate container {what} of {needed}");
            errors.invalid(path.key(name), amount, words);
        }
    }
}
