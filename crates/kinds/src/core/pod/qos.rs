//! The quality of service that a pod gets, from what it asks for and what it is limited to.

use rkube_machinery::Value;
use rkube_machinery::quantity::Quantity;

use super::super::pod_spec::amounts;

/// The resources that count.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// The class that the pod has, or would get.
pub(super) fn class(pod: &Value) -> &str {
    match pod.get("status").str("qosClass") {
        "" => compute(pod.get("spec")),
        class => class,
    }
}

/// `Guaranteed` where limits are given for all and are what is asked for, `BestEffort` where nothing is said.
pub(super) fn compute(spec: &Value) -> &'static str {
    let mut totals = Totals::default();
    if spec.has("resources") {
        let resources = spec.get("resources");
        totals.add(resources);
        totals.all_limited = resources.map("limits").is_empty() || is_limited(resources);
    } else {
        for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
            let resources = container.get("resources");
            totals.add(resources);
            totals.all_limited &= is_limited(resources);
        }
    }
    totals.class()
}

fn is_limited(resources: &Value) -> bool {
    COMPUTE.iter().all(|name| amounts::is_positive(resources.get("limits").get(name)))
}

struct Totals {
    requests: [Option<Quantity>; 2],
    limits: [Option<Quantity>; 2],
    all_limited: bool,
}

impl Default for Totals {
    fn default() -> Self {
        Totals { requests: [None, None], limits: [None, None], all_limited: true }
    }
}

impl Totals {
    fn add(&mut self, resources: &Value) {
        for (field, totals) in [("requests", &mut self.requests), ("limits", &mut self.limits)] {
            let list = resources.map(field);
            for (name, total) in COMPUTE.iter().zip(totals) {
                let Some(amount) = list.get(name).filter(|amount| amounts::is_positive(amount)) else { continue };
                let amount = amounts::of(amount);
                *total = Some(total.as_ref().map_or_else(|| amount.clone(), |sum| sum.add(&amount)));
            }
        }
    }

    fn class(&self) -> &'static str {
        let given = self.requests.iter().chain(&self.limits).any(Option::is_some);
        if !given {
            "BestEffort"
        } else if self.all_limited && self.requests == self.limits {
            "Guaranteed"
        } else {
            "Burstable"
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn container(requests: Value, limits: Value) -> Value {
        object! { "resources": object! { "requests": requests, "limits": limits } }
    }

    #[test]
    fn classes() {
        let none = Value::object;
        let both = || object! { "cpu": "1", "memory": "1Gi" };
        let table = [
            (container(none(), none()), "BestEffort"),
            (container(both(), both()), "Guaranteed"),
            (container(object! { "cpu": "1000m", "memory": "1Gi" }, both()), "Guaranteed"),
            (container(both(), none()), "Burstable"),
            (container(object! { "cpu": "1" }, object! { "cpu": "1" }), "Burstable"),
            (container(object! { "example.com/gpu": "1" }, object! { "example.com/gpu": "1" }), "BestEffort"),
        ];
        for (container, class) in table {
            assert_eq!(compute(&object! { "containers": vec![container.clone()] }), class, "{container:?}");
        }
        let pod_level = object! { "resources": object! { "limits": both(), "requests": both() } };
        assert_eq!(compute(&pod_level), "Guaranteed");
    }
}
