//! What field selectors may ask of events, by the names that the two groups have for it.

use rkube_machinery::Value;

use crate::kind::Selectable;

macro_rules! involved {
    ($label:literal, $field:literal) => {
        Selectable { label: $label, value: |event| event.get("involvedObject").str($field).to_owned() }
    };
}

macro_rules! own {
    ($label:literal, $field:literal) => {
        Selectable { label: $label, value: |event| event.str($field).to_owned() }
    };
}

pub const LEGACY: &[Selectable] = &[
    involved!("involvedObject.kind", "kind"),
    involved!("involvedObject.namespace", "namespace"),
    involved!("involvedObject.name", "name"),
    involved!("involvedObject.uid", "uid"),
    involved!("involvedObject.apiVersion", "apiVersion"),
    involved!("involvedObject.resourceVersion", "resourceVersion"),
    involved!("involvedObject.fieldPath", "fieldPath"),
    own!("reason", "reason"),
    own!("reportingComponent", "reportingComponent"),
    Selectable { label: "source", value: source },
    own!("type", "type"),
];

pub const NEW: &[Selectable] = &[
    involved!("regarding.kind", "kind"),
    involved!("regarding.namespace", "namespace"),
    involved!("regarding.name", "name"),
    involved!("regarding.uid", "uid"),
    involved!("regarding.apiVersion", "apiVersion"),
    involved!("regarding.resourceVersion", "resourceVersion"),
    involved!("regarding.fieldPath", "fieldPath"),
    own!("reason", "reason"),
    own!("reportingController", "reportingComponent"),
    own!("type", "type"),
];

fn source(event: &Value) -> String {
    match event.get("source").str("component") {
        "" => event.str("reportingComponent").to_owned(),
        component => component.to_owned(),
    }
}
