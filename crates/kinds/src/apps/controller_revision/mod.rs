//! ControllerRevision: what a controller's object once was, kept to go back to it.

use crate::strategy::NameRule;
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::numbers;
use crate::columns::{AGE, NAME, NONE};
use crate::kind::{Column, Part, Row, Rules};
use crate::meta;

pub static KIND: Row = Row {
    group: "apps",
    kind: "ControllerRevision",
    resource: "controllerrevisions",
    singular: "controllerrevision",
    type_name: "io.k8s.api.apps.v1.ControllerRevision",
    storage_prefix: "controllerrevisions",
    columns: &[
        NAME,
        Column::text("Controller", "Controller of the object", controller),
        Column::text("Revision", "doc:io.k8s.api.apps.v1.ControllerRevision revision", |object, _| {
            object.int("revision").into()
        }),
        AGE,
    ],
    rules: &ControllerRevisionRules,
    ..Row::DEFAULTS
};

const DATA: Path<'static> = Path::new("data");
const METADATA: Path<'static> = Path::new("metadata");

struct ControllerRevisionRules;

impl Rules for ControllerRevisionRules {
    fn validate_create(&self, revision: &Value, errors: &mut Errors) {
        numbers::validate_number(Path::new("revision"), revision.int("revision"), errors);
        match revision.get("data") {
            Value::Object(_) => {}
            Value::Null => errors.required(DATA, "data is mandatory"),
            _ => errors.required(DATA, "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, _part: Part, revision: &Value, old: &Value, errors: &mut Errors) {
        meta::validate(METADATA, revision.get("metadata"), true, NameRule::Subdomain, errors);
        meta::validate_known_finalizers(METADATA, revision.get("metadata"), errors);
        numbers::validate_number(Path::new("revision"), revision.int("revision"), errors);
        if revision.get("data") != old.get("data") {
            errors.invalid(DATA, revision.get("data"), "field is immutable");
        }
    }
}

/// The owner that controls the object: `statefulset.apps/web`.
fn controller(revision: &Value, _now: i64) -> Value {
    let owners = revision.get("metadata").list("ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner.bool("controller")) else { return NONE.into() };
    let (kind, name) = (owner.str("kind"), owner.str("name"));
    match owner.str("apiVersion").split_once('/') {
        Some((group, _)) => format!("{}/{name}", format!("{kind}.{group}").to_lowercase()).into(),
        None if kind.is_empty() => name.into(),
        None => format!("{}/{name}", kind.to_lowercase()).into(),
    }
}
