//! NetworkPolicy: who may talk to the pods that it selects, and to whom they may talk.

mod validate;

use crate::strategy::Strategy;
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address;
use rkube_machinery::selector::labels::Selector;

use super::GROUP;
use crate::columns::{AGE, NAME, NONE};
use crate::fields::texts;
use crate::kind::{Column, Part, Row, Rules};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "NetworkPolicy",
    resource: "networkpolicies",
    singular: "networkpolicy",
    short_names: &["netpol"],
    type_name: "io.k8s.api.networking.v1.NetworkPolicy",
    storage_prefix: "networkpolicies",
    columns: &[
        NAME,
        Column::text("Pod-Selector", "doc:io.k8s.api.networking.v1.NetworkPolicySpec podSelector", pod_selector),
        AGE,
    ],
    strategy: Strategy { has_generation: true, ..Strategy::DEFAULTS },
    rules: &NetworkPolicyRules,
    ..Row::DEFAULTS
};

/// The two directions: the list of rules and the field of a rule that names the other side.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const SPEC: Path<'static> = Path::new("spec");

struct NetworkPolicyRules;

impl Rules for NetworkPolicyRules {
    fn default(&self, policy: &mut Value) {
        let spec = policy.object_mut("spec");
        for (direction, _) in DIRECTIONS {
            for port in spec.list_mut(direction).iter_mut().flat_map(|rule| rule.list_mut("ports")) {
                port.set_if_absent("protocol", "TCP");
            }
        }
        if spec.list("policyTypes").is_empty() {
            let mut types = vec![Value::from("Ingress")];
            if !spec.list("egress").is_empty() {
                types.push("Egress".into());
            }
            spec.set("policyTypes", types);
        }
    }

    fn validate_create(&self, policy: &Value, errors: &mut Errors) {
        validate::spec(policy.get("spec"), None, errors);
    }

    /// An empty list is a change from an absent one here, though nothing of it is stored.
    fn prepare_update(&self, _part: Part, policy: &mut Value, old: &Value) {
        if policy.get("spec") != old.get("spec") {
            let generation = old.get("metadata").int("generation");
            policy.object_mut("metadata").set("generation", generation.wrapping_add(1));
        }
    }

    fn validate_update(&self, _part: Part, policy: &Value, old: &Value, errors: &mut Errors) {
        validate::spec(policy.get("spec"), Some(old.get("spec")), errors);
    }

    fn warnings(&self, policy: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (direction, side) in DIRECTIONS {
            let path = SPEC.child(direction);
            for (index, rule) in policy.get("spec").list(direction).iter().enumerate() {
                let path = path.index(index);
                let path = path.child(side);
                for (index, peer) in rule.list(side).iter().enumerate().filter(|(_, peer)| peer.has("ipBlock")) {
                    let path = path.index(index);
                    block_warnings(path.child("ipBlock"), peer.get("ipBlock"), &mut warnings);
                }
            }
        }
        warnings
    }
}

fn block_warnings(path: Path<'_>, block: &Value, warnings: &mut Vec<String>) {
    warnings.extend(address::cidr_warnings(path.child("cidr"), block.str("cidr")));
    let path = path.child("except");
    for (index, except) in texts(block, "except").enumerate() {
        warnings.extend(address::cidr_warnings(path.index(index), except));
    }
}

fn pod_selector(policy: &Value, _now: i64) -> Value {
    let selector = policy.get("spec").get("podSelector");
    if selector.is_null() {
        return NONE.into();
    }
    match Selector::from_label_selector(selector) {
        Ok(selector) if selector.is_everything() => NONE.into(),
        Ok(selector) => selector.to_string().into(),
        Err(_) => "<error>".into(),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn empty_lists_count_as_changes() {
        let policy = |spec: Value| object! { "metadata": object! { "generation": 3 }, "spec": spec };
        let old = policy(object! { "podSelector": Value::object() });
        let table = [
            (object! { "podSelector": Value::object() }, 3),
            (object! { "podSelector": Value::object(), "ingress": Value::Array(Vec::new()) }, 4),
        ];
        for (spec, want) in table {
            let mut new = policy(spec);
            NetworkPolicyRules.prepare_update(Part::Main, &mut new, &old);
            assert_eq!(new.get("metadata").int("generation"), want);
        }
    }
}
