//! PriorityLevelConfiguration: how much of the API server a priority level gets, and what happens beyond.

mod validate;

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;

use super::{FlowControlRules, GROUP};
use crate::columns::{AGE, NAME, NONE};
use crate::kind::{Column, Row, Scope, Subresource};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "PriorityLevelConfiguration",
    resource: "prioritylevelconfigurations",
    singular: "prioritylevelconfiguration",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
    storage_prefix: "prioritylevelconfigurations",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("Type", "doc:io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec type", |level, _| {
            level.get("spec").str("type").into()
        }),
        Column::text(
            "NominalConcurrencyShares",
            "doc:io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration nominalConcurrencyShares",
            |level, _| number(level.at(&["spec", "limited"]), "nominalConcurrencyShares"),
        ),
        Column::text("Queues", "doc:io.k8s.api.flowcontrol.v1.QueuingConfiguration queues", |level, _| {
            number(queuing(level), "queues")
        }),
        Column::text("HandSize", "doc:io.k8s.api.flowcontrol.v1.QueuingConfiguration handSize", |level, _| {
            number(queuing(level), "handSize")
        }),
        Column::text(
            "QueueLengthLimit",
            "doc:io.k8s.api.flowcontrol.v1.QueuingConfiguration queueLengthLimit",
            |level, _| number(queuing(level), "queueLengthLimit"),
        ),
        AGE,
    ],
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::New, status: Repeat::Nothing, other: Repeat::Update },
        has_generation: true,
        reset_fields: ResetFields::STATUS_ALONE,
        ..Strategy::DEFAULTS
    },
    rules: &FlowControlRules { default_spec, validate: validate::level },
    ..Row::DEFAULTS
};

const DEFAULT_SHARES: i64 = 30;
const DEFAULT_QUEUING: [(&str, i64); 3] = [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)];

fn default_spec(spec: &mut Value) {
    if let Some(limited) = spec.find_mut("limited") {
        limited.set_if_absent("nominalConcurrencyShares", DEFAULT_SHARES);
        limited.set_if_absent("lendablePercent", 0);
        if let Some(queuing) = limited.find_mut("limitResponse").and_then(|answer| answer.find_mut("queuing")) {
            for (field, value) in DEFAULT_QUEUING {
                queuing.set_default(field, value);
            }
        }
    }
    if let Some(exempt) = spec.find_mut("exempt") {
        exempt.set_if_absent("nominalConcurrencyShares", 0);
        exempt.set_if_absent("lendablePercent", 0);
    }
}

fn queuing(level: &Value) -> &Value {
    level.at(&["spec", "limited", "limitResponse", "queuing"])
}

fn number(parent: &Value, field: &str) -> Value {
    if parent.is_null() { NONE.into() } else { parent.int(field).into() }
}
