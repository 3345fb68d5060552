//! ComponentStatus: whether the parts of the control plane are well. Made when asked for, never stored.

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;

use crate::columns::NAME;
use crate::kind::{Column, Row, Scope};

pub static KIND: Row = Row {
    kind: "ComponentStatus",
    resource: "componentstatuses",
    singular: "componentstatus",
    short_names: &["cs"],
    scope: Scope::Cluster,
    verbs: &["get", "list"],
    type_name: "io.k8s.api.core.v1.ComponentStatus",
    deprecation: "v1 ComponentStatus is deprecated in v1.19+",
    columns: &[
        NAME,
        Column::text("Status", "Status of the component conditions", |component, _| match health(component) {
            None => "Unknown".into(),
            Some(condition) if condition.str("status") == "True" => "Healthy".into(),
            Some(_) => "Unhealthy".into(),
        }),
        Column::text("Message", "Message of the component conditions", |component, _| said(component, "message")),
        Column::text("Error", "Error of the component conditions", |component, _| said(component, "error")),
    ],
    strategy: Strategy { reset_fields: ResetFields::STATUS, ..Strategy::DEFAULTS },
    ..Row::DEFAULTS
};

fn health(component: &Value) -> Option<&Value> {
    component.list("conditions").iter().find(|condition| condition.str("type") == "Healthy")
}

fn said(component: &Value, field: &str) -> Value {
    health(component).map_or("", |condition| condition.str(field)).into()
}
