//! HorizontalPodAutoscaler: as many pods as their load asks for.
//!
//! Two versions are served, and objects are stored as `v2`. What `v1` has no fields for, it keeps in annotations.

mod conversion;
mod defaults;
mod metrics;
mod printer;
mod validate;

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use crate::fields::carry;
use crate::kind::{Part, Row, RowConversion, Rules, Subresource};

pub static V2: Row = Row {
    group: "autoscaling",
    version: "v2",
    kind: "HorizontalPodAutoscaler",
    resource: "horizontalpodautoscalers",
    singular: "horizontalpodautoscaler",
    short_names: &["hpa"],
    categories: &["all"],
    type_name: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    storage_prefix: "horizontalpodautoscalers",
    subresources: &[Subresource::STATUS],
    columns: printer::COLUMNS,
    strategy: Strategy { reset_fields: ResetFields::STATUS, ..Strategy::DEFAULTS },
    rules: &AutoscalerRules { first_version: false },
    ..Row::DEFAULTS
};

pub static V1: Row = Row {
    group: "autoscaling",
    version: "v1",
    kind: "HorizontalPodAutoscaler",
    resource: "horizontalpodautoscalers",
    singular: "horizontalpodautoscaler",
    short_names: &["hpa"],
    categories: &["all"],
    type_name: "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
    storage_prefix: "horizontalpodautoscalers",
    conversion: Some(RowConversion {
        group: "autoscaling",
        to_stored: conversion::to_stored,
        from_stored: conversion::from_stored,
    }),
    subresources: &[Subresource::STATUS],
    columns: printer::COLUMNS,
    strategy: Strategy { reset_fields: ResetFields::STATUS, ..Strategy::DEFAULTS },
    rules: &AutoscalerRules { first_version: true },
    ..Row::DEFAULTS
};

struct AutoscalerRules {
    /// `v1`; else `v2`.
    first_version: bool,
}

impl Rules for AutoscalerRules {
    fn default(&self, autoscaler: &mut Value) {
        if !self.first_version {
            conversion::drop_annotations(autoscaler);
            return defaults::fill(autoscaler);
        }
        autoscaler.object_mut("spec").set_if_absent("minReplicas", 1);
        // The metric that there is by default, and annotations that say nothing, show only in the stored form.
        let given = std::mem::take(autoscaler);
        *autoscaler = conversion::from_stored(conversion::to_stored(given));
    }

    fn prepare_create(&self, autoscaler: &mut Value) {
        autoscaler.remove("status");
    }

    fn validate_create(&self, autoscaler: &Value, errors: &mut Errors) {
        validate::autoscaler(autoscaler, None, errors);
    }

    fn prepare_update(&self, part: Part, autoscaler: &mut Value, old: &Value) {
        carry(autoscaler, old, if part == Part::Status { "spec" } else { "status" });
    }

    fn validate_update(&self, part: Part, autoscaler: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate::status(autoscaler.get("status"), errors);
        } else {
            validate::autoscaler(autoscaler, Some(old), errors);
        }
    }

    /// A behavior that came in an annotation is whole only now.
    fn canonicalize(&self, autoscaler: &mut Value) {
        if self.first_version {
            defaults::fill(autoscaler);
        }
    }
}
