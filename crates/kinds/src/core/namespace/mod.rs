//! Namespace: a room for names. It goes once everything in it is gone and the last of its `spec.finalizers` is taken
//! away through the `finalize` part.

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::managed::Reset;
use rkube_machinery::{Value, names, object};

use crate::columns::{AGE, NAME};
use crate::fields::{carry, carry_inner};
use crate::kind::{Column, Part, Row, Rules, Scope, Selectable, Subresource};
use crate::meta::validate_known_finalizer;

pub static KIND: Row = Row {
    kind: "Namespace",
    resource: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    scope: Scope::Cluster,
    verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    type_name: "io.k8s.api.core.v1.Namespace",
    storage_prefix: "namespaces",
    subresources: &[
        Subresource { name: "finalize", verbs: &["update"], kind: None, group_version: None },
        Subresource::STATUS,
    ],
    columns: &[NAME, Column::text("Status", "The status of the namespace", phase), AGE],
    selectable: &[Selectable { label: "status.phase", value: |object| object.get("status").str("phase").to_owned() }],
    strategy: Strategy {
        name_rule: NameRule::Label,
        repeats_meta: Repeats { main: Repeat::WholeFirst, status: Repeat::Update, other: Repeat::Update },
        reset_fields: ResetFields { other: Reset::Fields(&[&["status"]]), ..ResetFields::STATUS },
        returns_deleted_object: true,
        marks_before_deletion: true,
        ..Strategy::DEFAULTS
    },
    rules: &NamespaceRules,
    ..Row::DEFAULTS
};

/// Carries the namespace's own name, so that selectors can name namespaces.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";

struct NamespaceRules;

impl Rules for NamespaceRules {
    fn prepare_deletion(&self, object: &mut Value) {
        object.object_mut("metadata").remove("deletionGracePeriodSeconds");
        object.object_mut("status").set("phase", "Terminating");
    }

    fn default(&self, object: &mut Value) {
        label_with_name(object);
        object.object_mut("spec");
        object.object_mut("status").set_default("phase", "Active");
    }

    fn prepare_create(&self, object: &mut Value) {
        object.set("status", object! { "phase": "Active" });
        let finalizers = object.object_mut("spec").array_mut("finalizers");
        if !finalizers.iter().any(|finalizer| finalizer.as_str() == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        let spec = Path::new("spec");
        for finalizer in object.get("spec").list("finalizers") {
            validate_finalizer(spec.child("finalizers"), finalizer.as_str(), errors);
        }
    }

    fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        match part {
            Part::Main => {
                carry_inner(object, old, "spec", "finalizers");
                carry(object, old, "status");
            }
            Part::Status => carry(object, old, "spec"),
            Part::Other(_) => carry(object, old, "status"),
        }
    }

    fn validate_update(&self, part: Part, object: &Value, _old: &Value, errors: &mut Errors) {
        match part {
            Part::Main => self.validate_create(object, errors),
            Part::Status => validate_phase(object, errors),
            Part::Other(_) => {
                let spec = Path::new("spec");
                let path = spec.child("finalizers");
                for (index, finalizer) in object.get("spec").list("finalizers").iter().enumerate() {
                    validate_finalizer(path.index(index), finalizer.as_str(), errors);
                }
            }
        }
    }

    fn canonicalize(&self, object: &mut Value) {
        label_with_name(object);
    }

    fn keep_until_finalized(&self, object: &Value) -> bool {
        !object.get("spec").list("finalizers").is_empty()
    }
}

/// The name is not known yet where it is to be generated.
fn label_with_name(object: &mut Value) {
    let meta = object.object_mut("metadata");
    let Value::String(name) = meta.get("name").clone() else { return };
    if !name.is_empty() && meta.get("labels").str(NAME_LABEL) != name {
        meta.object_mut("labels").set(NAME_LABEL, name);
    }
}

fn validate_finalizer(path: Path<'_>, finalizer: &str, errors: &mut Errors) {
    for message in names::qualified_name(finalizer) {
        errors.invalid(path, finalizer, message);
    }
    validate_known_finalizer(path, finalizer, errors);
}

fn validate_phase(object: &Value, errors: &mut Errors) {
    let phase = object.get("status").str("phase");
    let (wanted, detail) = if object.get("metadata").has("deletionTimestamp") {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    if phase != wanted {
        let status = Path::new("status");
        errors.invalid(status.child("Phase"), phase, detail);
    }
}

fn phase(object: &Value, _now: i64) -> Value {
    object.get("status").str("phase").into()
}
