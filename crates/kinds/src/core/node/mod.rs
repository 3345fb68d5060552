//! Node: a machine that runs pods.

mod annotations;
mod validate;

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address;

use crate::columns::{AGE, NAME, NONE, UNKNOWN, or};
use crate::core::pod_spec::amounts;
use crate::fields::{carry, remove_inner, texts};
use crate::kind::{Column, Part, Row, Rules, Scope, Selectable, Subresource};
use crate::meta;

pub static KIND: Row = Row {
    kind: "Node",
    resource: "nodes",
    singular: "node",
    short_names: &["no"],
    scope: Scope::Cluster,
    type_name: "io.k8s.api.core.v1.Node",
    storage_prefix: "minions",
    subresources: &[
        Subresource {
            name: "proxy",
            verbs: &["create", "delete", "get", "patch", "update"],
            kind: Some("NodeProxyOptions"),
            group_version: None,
        },
        Subresource::STATUS,
    ],
    columns: &[
        NAME,
        Column::text("Status", "The status of the node", status),
        Column::text("Roles", "The roles of the node", roles),
        AGE,
        Column::text("Version", "doc:io.k8s.api.core.v1.NodeSystemInfo kubeletVersion", |node, _| {
            info(node, "kubeletVersion").into()
        }),
        Column::wide("Internal-IP", "doc:io.k8s.api.core.v1.NodeStatus addresses", |node, _| {
            address_of(node, "InternalIP")
        }),
        Column::wide("External-IP", "doc:io.k8s.api.core.v1.NodeStatus addresses", |node, _| {
            address_of(node, "ExternalIP")
        }),
        Column::wide("OS-Image", "doc:io.k8s.api.core.v1.NodeSystemInfo osImage", |node, _| {
            or(info(node, "osImage"), UNKNOWN).into()
        }),
        Column::wide("Kernel-Version", "doc:io.k8s.api.core.v1.NodeSystemInfo kernelVersion", kernel),
        Column::wide(
            "Container-Runtime",
            "doc:io.k8s.api.core.v1.NodeSystemInfo containerRuntimeVersion",
            |node, _| or(info(node, "containerRuntimeVersion"), UNKNOWN).into(),
        ),
    ],
    selectable: &[Selectable {
        label: "spec.unschedulable",
        value: |node| node.get("spec").bool("unschedulable").to_string(),
    }],
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::New, status: Repeat::Update, other: Repeat::Update },
        reset_fields: ResetFields::STATUS,
        ..Strategy::DEFAULTS
    },
    rules: &NodeRules,
    ..Row::DEFAULTS
};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

struct NodeRules;

impl Rules for NodeRules {
    fn default(&self, node: &mut Value) {
        default_pod_cidrs(node);
        if let Some(status) = node.find_mut("status") {
            default_allocatable(status, status.has("allocatable"));
            amounts::round_up_list(status, "capacity");
            amounts::round_up_list(status, "allocatable");
        }
    }

    fn prepare_create(&self, node: &mut Value) {
        remove_inner(node, "spec", "configSource");
        remove_inner(node, "status", "config");
    }

    fn validate_create(&self, node: &Value, errors: &mut Errors) {
        validate::node(node, errors);
    }

    fn prepare_update(&self, part: Part, node: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(node, old, "spec");
            if !old.get("status").has("config") {
                remove_inner(node, "status", "config");
            }
            return;
        }
        carry(node, old, "status");
        if !old.get("spec").has("configSource") {
            remove_inner(node, "spec", "configSource");
        }
    }

    fn validate_update(&self, part: Part, node: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Main {
            validate::node(node, errors);
            meta::validate_update_again(node, old, errors);
        }
        validate::update(node, old, errors);
    }

    /// An empty list is not stored, and what is read from the store gets its defaults again.
    fn canonicalize(&self, node: &mut Value) {
        if let Some(status) = node.find_mut("status") {
            default_allocatable(status, !status.map("allocatable").is_empty());
        }
    }

    fn warnings(&self, node: &Value, _old: Option<&Value>) -> Vec<String> {
        let spec = node.get("spec");
        let mut warnings = Vec::new();
        if spec.has("configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.str("externalID").is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let path = Path::new("spec");
        let path = path.child("podCIDRs");
        for (index, cidr) in texts(spec, "podCIDRs").enumerate() {
            warnings.extend(address::cidr_warnings(path.index(index), cidr));
        }
        warnings
    }
}

/// All that a node has can be used, unless it says otherwise.
fn default_allocatable(status: &mut Value, given: bool) {
    if !given && status.has("capacity") {
        status.set("allocatable", status.get("capacity").clone());
    }
}

/// `podCIDR` is the first of `podCIDRs`; where both are said and differ, the old field counts.
fn default_pod_cidrs(node: &mut Value) {
    let Some(spec) = node.find_mut("spec") else { return };
    let first = spec.list("podCIDRs").first().map_or("", Value::as_str);
    let single = spec.str("podCIDR");
    if single == first {
        return;
    }
    if single.is_empty() {
        let first = spec.list("podCIDRs")[0].clone();
        spec.set("podCIDR", first);
    } else {
        let single = spec.get("podCIDR").clone();
        spec.set("podCIDRs", vec![single]);
    }
}

fn status(node: &Value, _now: i64) -> Value {
    let conditions = node.get("status").list("conditions");
    let ready = conditions.iter().rev().find(|condition| condition.str("type") == "Ready");
    let mut text = match ready.map(|condition| condition.str("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.get("spec").bool("unschedulable") {
        text.push_str(",SchedulingDisabled");
    }
    text.into()
}

fn roles(node: &Value, _now: i64) -> Value {
    let labels = node.at(&["metadata", "labels"]).as_map();
    let mut roles: Vec<&str> = labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE => Some(value.as_str()),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or(&roles.join(","), NONE).into()
}

fn info<'a>(node: &'a Value, field: &str) -> &'a str {
    node.at(&["status", "nodeInfo"]).str(field)
}

fn address_of(node: &Value, kind: &str) -> Value {
    let addresses = node.get("status").list("addresses");
    let found = addresses.iter().find(|address| address.str("type") == kind);
    found.map_or(NONE, |address| address.str("address")).into()
}

fn kernel(node: &Value, _now: i64) -> Value {
    let version = or(info(node, "kernelVersion"), UNKNOWN);
    match info(node, "architecture") {
        "" => version.into(),
        architecture => format!("{version} ({architecture})").into(),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn what_can_be_used_follows_from_what_is_there() {
        let mut node = object! { "status": object! { "capacity": object! { "cpu": "500u" } } };
        NodeRules.default(&mut node);
        assert_eq!(node.at(&["status", "capacity"]).str("cpu"), "1m");
        assert_eq!(node.at(&["status", "allocatable"]).str("cpu"), "1m");
        let mut node = object! {
            "status": object! { "capacity": object! { "cpu": "1" }, "allocatable": Value::object() },
        };
        NodeRules.default(&mut node);
        assert!(node.at(&["status", "allocatable"]).is_empty());
        NodeRules.canonicalize(&mut node);
        assert_eq!(node.at(&["status", "allocatable"]).str("cpu"), "1");
    }
}
