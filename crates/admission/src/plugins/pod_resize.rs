//! PodResizeValidator: a running pod may not ask for more than its node has, nor grow where nodes cannot do that.

// tidy: types Pod Node

use rkube_machinery::field::quote;
use rkube_machinery::quantity::Quantity;
use rkube_machinery::status::Cause;
use rkube_machinery::{Status, Value};

use super::limit_ranger::{add, amounts, of_pod};
use crate::{Attributes, ImmediatePlugin, Objects};

const OS_LABEL: &str = "kubernetes.io/os";

pub struct PodResizeValidator {
    pub nodes: Objects,
}

impl ImmediatePlugin for PodResizeValidator {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_update() && attributes.is_part("", "pods", "resize")
    }

    fn validate(&self, attributes: &mut Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let name = pod.get("spec").str("nodeName");
        let generation = |pod: &Value| pod.get("metadata").int("generation");
        if name.is_empty() || attributes.old.is_none_or(|old| generation(old) == generation(pod)) {
            return Ok(());
        }
        let Some(node) = self.nodes.find("", name) else {
            return Err(attributes.forbidden(pod, format!("node {} not found", quote(name))));
        };
        let system = node.label(OS_LABEL).unwrap_or("linux");
        if system != "linux" {
            let (node, system) = (quote(name), quote(system));
            let why = format!("pod resize is only supported on linux nodes, node {node} is {system}");
            return Err(because(attributes.forbidden(pod, why), "UnsupportedPlatform"));
        }
        match too_much(pod.get("spec"), node.tree().get("status")) {
            Some(why) => Err(because(attributes.forbidden(pod, why), "NodeCapacity")),
            None => Ok(()),
        }
    }
}

fn because(mut status: Status, reason: &str) -> Status {
    let cause = Cause { reason: reason.to_owned(), message: String::new(), field: String::new() };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

/// What the pod asks for beyond what the node has for pods.
fn too_much(spec: &Value, node: &Value) -> Option<String> {
    let mut asked = of_pod(spec, "requests");
    add(&mut asked, &amounts(spec, "overhead"));
    let has = amounts(node, "allocatable");
    let beyond = |name: &str, unit: fn(&Quantity) -> i64| {
        let (asked, has) = (asked.get(name)?, has.get(name).unwrap_or(&Quantity::ZERO));
        (asked > has).then(|| format!("{name}, requested: {}, allocatable: {}", unit(asked), unit(has)))
    };
    let found = [beyond("cpu", Quantity::milli_value), beyond("memory", Quantity::value)];
    let found: Vec<String> = found.into_iter().flatten().collect();
    if found.is_empty() {
        return None;
    }
    Some(format!("node didn't have enough allocatable resources: {}", found.join("; ")))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn a_pod_fits_or_not() {
        let spec = |cpu: &str| {
            let resources = object! { "requests": object! { "cpu": cpu, "memory": "1Gi" } };
            object! { "containers": vec![object! { "name": "c", "resources": resources }] }
        };
        let node = object! { "allocatable": object! { "cpu": "2", "memory": "1Gi" } };
        assert_eq!(too_much(&spec("2"), &node), None);
        assert_eq!(
            too_much(&spec("2500m"), &node).unwrap(),
            "node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000"
        );
    }
}
