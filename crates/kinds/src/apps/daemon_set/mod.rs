//! DaemonSet: one pod of a template on each node.
//!
//! How often the template has changed is counted in an annotation, which older versions of the API had as a field.

mod validate;

use crate::strategy::{ResetFields, Strategy};
use std::num::IntErrorKind;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, quote};

use super::{cells, template};
use crate::columns::{self, AGE, NAME};
use crate::fields::carry;
use crate::kind::{Column, Part, Row, Rules, Subresource};

pub static KIND: Row = Row {
    group: "apps",
    kind: "DaemonSet",
    resource: "daemonsets",
    singular: "daemonset",
    short_names: &["ds"],
    categories: &["all"],
    type_name: "io.k8s.api.apps.v1.DaemonSet",
    storage_prefix: "daemonsets",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        cells::number("Desired", "doc:io.k8s.api.apps.v1.DaemonSetStatus desiredNumberScheduled", |set, _| {
            count(set, "desiredNumberScheduled")
        }),
        cells::number("Current", "doc:io.k8s.api.apps.v1.DaemonSetStatus currentNumberScheduled", |set, _| {
            count(set, "currentNumberScheduled")
        }),
        cells::number("Ready", "doc:io.k8s.api.apps.v1.DaemonSetStatus numberReady", |set, _| {
            count(set, "numberReady")
        }),
        cells::number("Up-to-date", "doc:io.k8s.api.apps.v1.DaemonSetStatus updatedNumberScheduled", |set, _| {
            count(set, "updatedNumberScheduled")
        }),
        cells::number("Available", "doc:io.k8s.api.apps.v1.DaemonSetStatus numberAvailable", |set, _| {
            count(set, "numberAvailable")
        }),
        Column::text("Node Selector", "doc:io.k8s.api.core.v1.PodSpec nodeSelector", |set, _| {
            columns::labels(set.at(&["spec", "template", "spec", "nodeSelector"]).as_map()).into()
        }),
        AGE,
        cells::CONTAINERS,
        cells::IMAGES,
        Column::wide("Selector", "doc:io.k8s.api.apps.v1.DaemonSetSpec selector", cells::selector),
    ],
    strategy: Strategy {
        reset_fields: ResetFields::STATUS,
        field_annotations: &["deprecated.daemonset.template.generation"],
        ..Strategy::DEFAULTS
    },
    rules: &DaemonSetRules,
    ..Row::DEFAULTS
};

/// Counts changes of the template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const REVISIONS_KEPT: i64 = 10;

struct DaemonSetRules;

impl Rules for DaemonSetRules {
    fn default(&self, set: &mut Value) {
        let generation = template_generation(set);
        set_template_generation(set, generation);
        let spec = set.object_mut("spec");
        let strategy = spec.object_mut("updateStrategy");
        strategy.set_default("type", "RollingUpdate");
        if strategy.str("type") == "RollingUpdate" {
            let rolling = strategy.object_mut("rollingUpdate");
            rolling.set_if_absent("maxUnavailable", 1);
            rolling.set_if_absent("maxSurge", 0);
        }
        spec.set_if_absent("revisionHistoryLimit", REVISIONS_KEPT);
        template::default_template(spec);
    }

    fn prepare_create(&self, set: &mut Value) {
        template::prepare_create(set);
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    }

    fn validate_create(&self, set: &Value, errors: &mut Errors) {
        validate::spec(set.get("spec"), &template::options(None), errors);
    }

    fn prepare_update(&self, part: Part, set: &mut Value, old: &Value) {
        let generation = template_generation(old);
        set_template_generation(set, generation);
        if part == Part::Status {
            return carry(set, old, "spec");
        }
        template::drop_disabled(set, old);
        carry(set, old, "status");
        if !template::same(set.at(&["spec", "template"]), old.at(&["spec", "template"])) {
            set_template_generation(set, generation.wrapping_add(1));
            template::count_generation(set, old);
        } else if !template::same_specs(set.get("spec"), old.get("spec")) {
            template::count_generation(set, old);
        }
    }

    fn validate_update(&self, part: Part, set: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate::status(set.get("status"), old.get("status"), errors);
        } else {
            validate::update(set.get("spec"), old, errors);
        }
    }

    fn unreadable(&self, set: &Value) -> Option<String> {
        let annotations = set.at(&["metadata", "annotations"]);
        let text = annotations.as_map().get(TEMPLATE_GENERATION)?.as_str();
        let error = text.parse::<i64>().err()?;
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Some(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            Some(old) if template_generation(set) == template_generation(old) => Vec::new(),
            _ => template::warnings(set),
        }
    }
}

fn count(set: &Value, field: &str) -> Value {
    set.get("status").int(field).into()
}

fn template_generation(set: &Value) -> i64 {
    set.at(&["metadata", "annotations"]).str(TEMPLATE_GENERATION).parse().unwrap_or(0)
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = set.object_mut("metadata").object_mut("annotations");
    annotations.set(TEMPLATE_GENERATION, generation.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_must_be_a_number() {
        let table = [
            ("", Some("parsing \"\": invalid syntax")),
            ("x", Some("parsing \"x\": invalid syntax")),
            ("99999999999999999999", Some("parsing \"99999999999999999999\": value out of range")),
            ("-1", None),
        ];
        for (text, want) in table {
            let mut set = Value::object();
            set.object_mut("metadata").object_mut("annotations").set(TEMPLATE_GENERATION, text);
            let want = want.map(|want| format!("strconv.ParseInt: {want}"));
            assert_eq!(DaemonSetRules.unreadable(&set), want, "{text}");
        }
        assert_eq!(DaemonSetRules.unreadable(&Value::object()), None);
    }
}
