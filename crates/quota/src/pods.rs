//! Pods: themselves, and what they ask for as a whole: containers, sidecars, the largest moment of their start, overhead,
//! amounts for the whole pod, and what a resize left or is about to give.

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Text, Value, time};

use crate::amounts::{self, Amounts, count};
use crate::measure::COUNT_PODS;
use crate::{Container, Measure, Scopes};

const RESOURCES: &[&str] = &[
    COUNT_PODS,
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub fn counts(name: &str) -> bool {
    if RESOURCES.contains(&name) || name.starts_with(HUGE_PAGES) {
        return true;
    }
    let Some(requested) = name.strip_prefix(REQUESTS) else { return false };
    requested.starts_with(HUGE_PAGES) || !is_native(name) || requested.starts_with(DEVICE_CLASS)
}

pub fn measure(pod: &Value) -> Measure {
    let scopes = scopes(pod);
    if matches!(pod.get("status").str("phase"), "Failed" | "Succeeded") {
        return Measure { scopes, usage: Measure::leftover(), expires: None };
    }
    let metadata = pod.get("metadata");
    let grace = metadata.get("deletionGracePeriodSeconds").as_int();
    // Hardly any has one: to find out that nothing is no time takes as long as to read one.
    let deleted = Some(metadata.str("deletionTimestamp")).filter(|time| !time.is_empty());
    let deleted = deleted.and_then(|time| time::parse(time).ok()).map(|(seconds, _)| seconds);
    let expires = deleted.zip(grace).map(|(deleted, grace)| deleted.saturating_add(grace));
    let mut usage = Measure::leftover();
    usage.insert(Text::new_static("pods"), count(1));
    for (name, amount) in total(pod, "requests") {
        match name.as_str() {
            "cpu" | "memory" | "ephemeral-storage" => {
                usage.insert(prefixed(REQUESTS, &name), amount.clone());
                usage.insert(name, amount);
            }
            _ if name.starts_with(HUGE_PAGES) => {
                usage.insert(Text::from(format!("{REQUESTS}{name}")), amount.clone());
                usage.insert(name, amount);
            }
            _ if is_extended(&name) => {
                usage.insert(Text::from(format!("{REQUESTS}{name}")), amount);
            }
            _ => {}
        }
    }
    for (name, amount) in total(pod, "limits") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(prefixed(LIMITS, &name), amount);
        }
    }
    Measure { scopes, usage, expires }
}

/// The name of an amount in a quota.
fn prefixed(list: &str, name: &str) -> Text {
    let known = RESOURCES.iter().find(|known| known.strip_prefix(list) == Some(name));
    known.map_or_else(|| Text::from(format!("{list}{name}")), |known| Text::new_static(known))
}

/// What containers say of cpu and memory. None are asked where the pod says it as a whole.
pub fn containers(pod: &Value) -> Vec<Container> {
    let spec = pod.get("spec");
    let whole = ["requests", "limits"].map(|list| spec.get("resources").map(list));
    if whole.iter().flat_map(|list| list.keys()).any(|name| is_of_whole_pods(name)) {
        return Vec::new();
    }
    let all = spec.list("containers").iter().chain(spec.list("initContainers"));
    let of = |container: &Value| {
        let resources = container.get("resources");
        let (requests, limits) = (resources.map("requests"), resources.map("limits"));
        Container {
            name: Text::new(container.str("name")),
            requests_cpu: requests.contains("cpu"),
            requests_memory: requests.contains("memory"),
            limits_cpu: limits.contains("cpu"),
            limits_memory: limits.contains("memory"),
        }
    };
    all.map(of).collect()
}

/// Requests or limits of the whole pod.
fn total(pod: &Value, list: &str) -> Amounts {
    let spec = pod.get("spec");
    let status = Statuses::of(pod);
    let mut total = Amounts::new();
    for container in spec.list("containers") {
        amounts::add_all(&mut total, status.effective(container, list));
    }
    let (mut sidecars, mut start) = (Amounts::new(), Amounts::new());
    for container in spec.list("initContainers") {
        if container.str("restartPolicy") == "Always" {
            let own = status.effective(container, list);
            amounts::add(&mut total, &own);
            amounts::add(&mut sidecars, &own);
            amounts::raise(&mut start, &sidecars);
        } else {
            let mut now = amounts::read(container.get("resources").map(list));
            amounts::add(&mut now, &sidecars);
            amounts::raise(&mut start, &now);
        }
    }
    amounts::raise(&mut total, &start);
    let whole = amounts::read(spec.get("resources").map(list));
    total.extend(whole.into_iter().filter(|(name, _)| is_of_whole_pods(name)));
    for (name, amount) in amounts::read(spec.map("overhead")) {
        if list == "requests" {
            amounts::add_one(&mut total, &name, &amount);
        } else if let Some(limit) = total.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = limit.add(&amount);
        }
    }
    total
}

/// What nodes say of containers while they are resized.
struct Statuses<'a> {
    status: &'a Value,
    is_infeasible: bool,
}

impl<'a> Statuses<'a> {
    fn of(pod: &'a Value) -> Statuses<'a> {
        let status = pod.get("status");
        let pending = status.list("conditions").iter().find(|condition| condition.str("type") == "PodResizePending");
        Statuses { status, is_infeasible: pending.is_some_and(|condition| condition.str("reason") == "Infeasible") }
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        let of = |list: &str| self.status.list(list).iter().find(|status| status.str("name") == name);
        of("initContainerStatuses").or_else(|| of("containerStatuses"))
    }

    /// The most of what a container asks for, has, and was promised. What it cannot have it does not take.
    fn effective(&self, container: &Value, list: &str) -> Amounts {
        let asked = amounts::read(container.get("resources").map(list));
        let Some(status) = self.find(container.str("name")).filter(|status| status.has("resources")) else {
            return asked;
        };
        let mut total = if self.is_infeasible { Amounts::new() } else { asked };
        amounts::raise(&mut total, &amounts::read(status.get("resources").map(list)));
        if list == "requests" {
            amounts::raise(&mut total, &amounts::read(status.map("allocatedResources")));
        }
        total
    }
}

fn scopes(pod: &Value) -> Scopes {
    let spec = pod.get("spec");
    Scopes::Pod {
        terminating: spec.get("activeDeadlineSeconds").as_int().is_some_and(|seconds| seconds >= 0),
        best_effort: is_best_effort(pod),
        cross_namespace: ["podAffinity", "podAntiAffinity"]
            .iter()
            .any(|affinity| looks_elsewhere(spec.get("affinity").get(affinity))),
        priority_class: Text::new(spec.str("priorityClassName")),
    }
}

fn is_best_effort(pod: &Value) -> bool {
    let known = pod.get("status").str("qosClass");
    if !known.is_empty() {
        return known == "BestEffort";
    }
    let spec = pod.get("spec");
    let asks = |list: &Map| {
        let positive = |name| Quantity::parse(list.str(name)).is_ok_and(|amount| amount > Quantity::ZERO);
        positive("cpu") || positive("memory")
    };
    let asks = |holder: &Value| {
        let resources = holder.get("resources");
        asks(resources.map("requests")) || asks(resources.map("limits"))
    };
    if spec.has("resources") {
        return !asks(spec);
    }
    !spec.list("containers").iter().chain(spec.list("initContainers")).any(asks)
}

/// Whether a term of the affinity is about pods of other namespaces, too.
fn looks_elsewhere(affinity: &Value) -> bool {
    let elsewhere = |term: &Value| !term.list("namespaces").is_empty() || term.has("namespaceSelector");
    affinity.list("requiredDuringSchedulingIgnoredDuringExecution").iter().any(elsewhere)
        || affinity
            .list("preferredDuringSchedulingIgnoredDuringExecution")
            .iter()
            .any(|weighted| elsewhere(weighted.get("podAffinityTerm")))
}

/// What a pod may ask for as a whole.
fn is_of_whole_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) || name.starts_with(DEVICE_CLASS)
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
