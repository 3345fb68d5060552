//! FlowSchema: which requests belong to which priority level.

mod fixed;
mod validate;

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;

use super::{FlowControlRules, GROUP};
use crate::columns::{AGE, NAME, NONE};
use crate::kind::{Column, Row, Scope, Subresource};

pub static KIND: Row = Row {
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
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::New, status: Repeat::Nothing, other: Repeat::Update },
        has_generation: true,
        reset_fields: ResetFields::STATUS_ALONE,
        ..Strategy::DEFAULTS
    },
    rules: &FlowControlRules { default_spec, validate: validate::schema },
    ..Row::DEFAULTS
};

const DEFAULT_PRECEDENCE: i64 = 1000;

fn default_spec(spec: &mut Value) {
    spec.set_default("matchingPrecedence", DEFAULT_PRECEDENCE);
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
