//! StorageClass: a way of making volumes, by the name under which claims ask for it.

mod topology;

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::checks;
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::checks::one_of;
use crate::core::pod_spec::warnings::old_node_label;
use crate::kind::{Column, Part, Row, Rules, Scope};
use crate::meta;

pub static KIND: Row = Row {
    group: "storage.k8s.io",
    kind: "StorageClass",
    resource: "storageclasses",
    singular: "storageclass",
    short_names: &["sc"],
    scope: Scope::Cluster,
    type_name: "io.k8s.api.storage.v1.StorageClass",
    storage_prefix: "storageclasses",
    columns: &[
        Column { cell: name, ..NAME },
        Column::text("Provisioner", "doc:io.k8s.api.storage.v1.StorageClass provisioner", |class, _| {
            class.str("provisioner").into()
        }),
        Column::text("ReclaimPolicy", "doc:io.k8s.api.storage.v1.StorageClass reclaimPolicy", |class, _| {
            or_default(class, "reclaimPolicy", DELETE)
        }),
        Column::text("VolumeBindingMode", "doc:io.k8s.api.storage.v1.StorageClass volumeBindingMode", |class, _| {
            or_default(class, "volumeBindingMode", IMMEDIATE)
        }),
        Column::text(
            "AllowVolumeExpansion",
            "doc:io.k8s.api.storage.v1.StorageClass allowVolumeExpansion",
            |class, _| class.bool("allowVolumeExpansion").into(),
        ),
        AGE,
    ],
    strategy: Strategy {
        repeats_meta: Repeats::all(Repeat::Nothing),
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &StorageClassRules,
    ..Row::DEFAULTS
};

const DELETE: &str = "Delete";
const IMMEDIATE: &str = "Immediate";
const DEFAULT_MARKS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

struct StorageClassRules;

impl Rules for StorageClassRules {
    fn default(&self, class: &mut Value) {
        class.set_if_absent("reclaimPolicy", DELETE);
        class.set_if_absent("volumeBindingMode", IMMEDIATE);
    }

    fn validate_create(&self, class: &Value, errors: &mut Errors) {
        checks::provisioner(Path::new("provisioner"), class.str("provisioner"), errors);
        checks::parameters(Path::new("parameters"), class, true, errors);
        let policy = class.str("reclaimPolicy");
        if !policy.is_empty() {
            one_of(Path::new("reclaimPolicy"), policy, &[DELETE, "Retain"], errors);
        }
        let mode = Path::new("volumeBindingMode");
        if class.has("volumeBindingMode") {
            one_of(mode, class.str("volumeBindingMode"), &[IMMEDIATE, "WaitForFirstConsumer"], errors);
        } else {
            errors.required(mode, "");
        }
        topology::validate(Path::new("allowedTopologies"), class.list("allowedTopologies"), errors);
    }

    fn validate_update(&self, _part: Part, class: &Value, old: &Value, errors: &mut Errors) {
        meta::validate_again(class, false, NameRule::Subdomain, errors);
        self.validate_create(class, errors);
        meta::validate_update_again(class, old, errors);
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            meta::validate_immutable(Path::new(field), class.get(field), old.get(field), errors);
        }
    }

    fn warnings(&self, class: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (term_index, term) in class.list("allowedTopologies").iter().enumerate() {
            for (index, requirement) in term.list("matchLabelExpressions").iter().enumerate() {
                if let Some(message) = old_node_label(requirement.str("key")) {
                    warnings
                        .push(format!("allowedTopologies[{term_index}].matchLabelExpressions[{index}].key: {message}"));
                }
            }
        }
        warnings
    }
}

fn name(class: &Value, _now: i64) -> Value {
    let metadata = class.get("metadata");
    let is_default = DEFAULT_MARKS.iter().any(|mark| metadata.map("annotations").str(mark) == "true");
    let mark = if is_default { " (default)" } else { "" };
    format!("{}{mark}", metadata.str("name")).into()
}

fn or_default(class: &Value, field: &str, missing: &str) -> Value {
    if class.has(field) { class.get(field).clone() } else { missing.into() }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn classes_are_checked() {
        let good = object! { "provisioner": "Example.com/P" };
        let term = |values: &[&str]| {
            let values: Vec<Value> = values.iter().map(|value| Value::from(*value)).collect();
            object! { "matchLabelExpressions": vec![object! { "key": "zone", "values": values }] }
        };
        let table: &[(&str, Value, &[&str])] = &[
            (
                "reclaimPolicy",
                "Recycle".into(),
                &["reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\""],
            ),
            ("provisioner", "".into(), &["provisioner: Required value"]),
            ("parameters", object! { "": "x" }, &["parameters: Invalid value: \"\": field can not be empty."]),
            ("allowedTopologies", vec![term(&["a"]), term(&["b"])].into(), &[]),
            (
                "allowedTopologies",
                vec![term(&["a", "b"]), term(&["b", "a"])].into(),
                &["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\""],
            ),
            (
                "allowedTopologies",
                vec![Value::object()].into(),
                &["allowedTopologies[0].matchLabelExpressions: Duplicate value: \"\""],
            ),
            (
                "allowedTopologies",
                vec![term(&[])].into(),
                &["allowedTopologies[0].matchLabelExpressions[0].values: Required value"],
            ),
        ];
        for (field, value, expected) in table {
            let mut class = good.clone();
            class.set(field, value.clone());
            StorageClassRules.default(&mut class);
            let mut errors = Errors::new();
            StorageClassRules.validate_create(&class, &mut errors);
            let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
            assert_eq!(texts, *expected, "{field}");
        }
    }
}
