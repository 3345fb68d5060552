//! FlowSchema: which requests belong to which priority level.

mod fixed;
mod validate;

use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use super::{GROUP, prepare_update, reset_fields, validate_status};
use crate::columns::{AGE, NAME, NONE};
use crate::kind::{Column, Kind, Part, Repeat, Rules, Scope, Subresource};

pub static KIND: Kind = Kind {
    group: GROUP,
    kind: "FlowSchema",
    resource: "flowschemas",
    singular: "flowschema",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.flowcontrol.v1.FlowSchema",
    storage_prefix: "flowschemas",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text(
            "PriorityLevel",
            "doc:io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference name",
            |schema, _| schema.at(&["spec", "priorityLevelConfiguration"]).str("name").into(),
        ),
        Column::text(
            "MatchingPrecedence",
            "doc:io.k8s.api.flowcontrol.v1.FlowSchemaSpec matchingPrecedence",
            |schema, _| schema.get("spec").int("matchingPrecedence").into(),
        ),
        Column::text(
            "DistinguisherMethod",
            "doc:io.k8s.api.flowcontrol.v1.FlowSchemaSpec distinguisherMethod",
            distinguisher,
        ),
        AGE,
        Column::text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration", dangling),
    ],
    rules: &FlowSchemaRules,
    ..Kind::DEFAULTS
};

const DEFAULT_PRECEDENCE: i64 = 1000;

struct FlowSchemaRules;

impl Rules for FlowSchemaRules {
    fn default(&self, schema: &mut Value) {
        schema.object_mut("spec").set_default("matchingPrecedence", DEFAULT_PRECEDENCE);
    }

    fn prepare_create(&self, schema: &mut Value) {
        schema.remove("status");
    }

    fn validate_create(&self, schema: &Value, errors: &mut Errors) {
        validate::schema(schema, errors);
        validate_status(schema, errors);
    }

    fn prepare_update(&self, part: Part, schema: &mut Value, old: &Value) {
        prepare_update(part, schema, old);
    }

    fn validate_update(&self, part: Part, schema: &Value, _old: &Value, errors: &mut Errors) {
        if part == Part::Main {
            validate::schema(schema, errors);
        }
        validate_status(schema, errors);
    }

    fn repeats_meta(&self, part: Part) -> Repeat {
        if part == Part::Main { Repeat::New } else { Repeat::Nothing }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self, part: Part) -> &'static [&'static [&'static str]] {
        reset_fields(part)
    }
}

fn distinguisher(schema: &Value, _now: i64) -> Value {
    let method = schema.at(&["spec", "distinguisherMethod"]);
    if method.is_null() { NONE.into() } else { method.str("type").into() }
}

/// Whether the priority level is missing; nobody may have looked yet.
fn dangling(schema: &Value, _now: i64) -> Value {
    let mut conditions = schema.get("status").list("conditions").iter();
    conditions.find(|condition| condition.str("type") == "Dangling").map_or("?", |found| found.str("status")).into()
}
