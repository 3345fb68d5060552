//! CSIStorageCapacity: how much storage of a class is left in a part of the cluster.

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::columns::NAME;
use crate::core::pod_spec::warnings::old_node_label;
use crate::core::pod_spec::{amounts, checks, go_form};
use crate::fields::shown_selector;
use crate::kind::{Column, Part, Row, Rules};
use crate::meta;

pub static KIND: Row = Row {
    group: "storage.k8s.io",
    kind: "CSIStorageCapacity",
    resource: "csistoragecapacities",
    singular: "csistoragecapacity",
    type_name: "io.k8s.api.storage.v1.CSIStorageCapacity",
    storage_prefix: "csistoragecapacities",
    columns: &[
        NAME,
        Column {
            kind: "date",
            ..Column::text(
                "Created At",
                "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta creationTimestamp",
                |capacity, _| capacity.get("metadata").str("creationTimestamp").into(),
            )
        },
    ],
    strategy: Strategy {
        repeats_meta: Repeats::all(Repeat::Nothing),
        unconditional_update: false,
        ..Strategy::DEFAULTS
    },
    rules: &CapacityRules,
    ..Row::DEFAULTS
};

const TOPOLOGY: Path<'static> = Path::new("nodeTopology");

struct CapacityRules;

impl Rules for CapacityRules {
    fn validate_create(&self, capacity: &Value, errors: &mut Errors) {
        validate(capacity, false, errors);
    }

    fn validate_update(&self, _part: Part, capacity: &Value, old: &Value, errors: &mut Errors) {
        meta::validate_again(capacity, true, NameRule::Subdomain, errors);
        validate(capacity, has_bad_topology(old), errors);
        meta::validate_update_again(capacity, old, errors);
        let (topology, before) = (capacity.get("nodeTopology"), old.get("nodeTopology"));
        if topology.is_null() != before.is_null() || !go_form::same_plain(topology, before) {
            errors.invalid(TOPOLOGY, &shown_selector(topology), "field is immutable");
        }
        let class = capacity.str("storageClassName");
        if class != old.str("storageClassName") {
            errors.invalid(Path::new("storageClassName"), class, "field is immutable");
        }
    }

    fn warnings(&self, capacity: &Value, _old: Option<&Value>) -> Vec<String> {
        let topology = capacity.get("nodeTopology");
        let mut warnings = Vec::new();
        for (index, requirement) in topology.list("matchExpressions").iter().enumerate() {
            let key = requirement.str("key");
            if let Some(message) = old_node_label(key) {
                warnings.push(format!("nodeTopology.matchExpressions[{index}].key: {key} is {message}"));
            }
        }
        for key in topology.map("matchLabels").keys() {
            if let Some(message) = old_node_label(key) {
                warnings.push(format!("nodeTopology.matchLabels.{key}: {message}"));
            }
        }
        warnings
    }
}

/// `lenient` lets label values pass in the topology that no label can have.
fn validate(capacity: &Value, lenient: bool, errors: &mut Errors) {
    meta::validate_label_selector(TOPOLOGY, capacity.get("nodeTopology"), lenient, errors);
    checks::dns_subdomain(Path::new("storageClassName"), capacity.str("storageClassName"), errors);
    let amount = capacity.get("capacity");
    if amounts::is_negative(amount) {
        errors.invalid(Path::new("capacity"), amount, "must be greater than or equal to 0");
    }
}

fn has_bad_topology(capacity: &Value) -> bool {
    let mut errors = Errors::new();
    meta::validate_label_selector(TOPOLOGY, capacity.get("nodeTopology"), false, &mut errors);
    !errors.is_empty()
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn topologies_stay_and_are_shown_without_what_is_empty() {
        let capacity = |topology: Value| object! { "nodeTopology": topology, "storageClassName": "a" };
        let old = capacity(object! { "matchLabels": object! { "a": "b" } });
        let empty = Value::Array(Vec::new());
        let expression = object! { "key": "a", "operator": "Exists", "values": empty.clone() };
        let table = [
            (object! { "matchLabels": object! { "a": "b" }, "matchExpressions": empty }, None),
            (object! { "matchLabels": Value::object() }, Some("{}")),
            (
                object! { "matchExpressions": vec![expression] },
                Some("{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"}]}"),
            ),
            (Value::Null, Some("null")),
        ];
        for (topology, want) in table {
            let mut errors = Errors::new();
            CapacityRules.validate_update(Part::Main, &capacity(topology), &old, &mut errors);
            let texts = errors.0.iter().map(ToString::to_string);
            let found: Vec<String> = texts.filter(|text| text.starts_with("nodeTopology")).collect();
            let want: Vec<String> = want
                .map(|shown| format!("nodeTopology: Invalid value: {shown}: field is immutable"))
                .into_iter()
                .collect();
            assert_eq!(found, want);
        }
    }
}
