//! ResourceSlice: devices that a driver offers, on one node or on several.

mod attributes;
mod capacity;
mod device;
mod spec;

use crate::strategy::Strategy;
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, quote};

use super::conversion::{slice_from_stored, slice_to_stored};
use super::{GROUP, taints};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Part, Row, RowConversion, Rules, Scope, Selectable, renamed};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "ResourceSlice",
    resource: "resourceslices",
    singular: "resourceslice",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.resource.v1.ResourceSlice",
    storage_prefix: "resourceslices",
    columns: &[
        NAME,
        Column::text("Node", "doc:io.k8s.api.resource.v1.ResourceSliceSpec nodeName", |slice, _| {
            slice.get("spec").str("nodeName").into()
        }),
        Column::text("Driver", "doc:io.k8s.api.resource.v1.ResourceSliceSpec driver", |slice, _| {
            slice.get("spec").str("driver").into()
        }),
        Column::text("Pool", "doc:io.k8s.api.resource.v1.ResourcePool name", |slice, _| {
            slice.at(&["spec", "pool"]).str("name").into()
        }),
        AGE,
    ],
    selectable: &[
        Selectable { label: "spec.nodeName", value: |slice| slice.get("spec").str("nodeName").to_owned() },
        Selectable { label: "spec.driver", value: |slice| slice.get("spec").str("driver").to_owned() },
    ],
    strategy: Strategy { has_generation: true, returns_deleted_object: true, ..Strategy::DEFAULTS },
    rules: &SliceRules,
    ..Row::DEFAULTS
};

pub static BETA2: Row = Row {
    version: "v1beta2",
    type_name: "io.k8s.api.resource.v1beta2.ResourceSlice",
    deprecation: "resource.k8s.io/v1beta2 ResourceSlice is deprecated in v1.36+, unavailable in v1.39+",
    off_by_default: true,
    conversion: Some(renamed!("resource.k8s.io", "v1beta2", stored as "v1")),
    ..KIND
};

pub static BETA1: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.resource.v1beta1.ResourceSlice",
    deprecation: "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+",
    off_by_default: true,
    conversion: Some(RowConversion { group: GROUP, to_stored: slice_to_stored, from_stored: slice_from_stored }),
    ..KIND
};

struct SliceRules;

impl Rules for SliceRules {
    fn prepare_create(&self, slice: &mut Value) {
        prepare(slice, None);
    }

    fn validate_create(&self, slice: &Value, errors: &mut Errors) {
        spec::validate(slice.get("spec"), None, errors);
    }

    fn prepare_update(&self, _part: Part, slice: &mut Value, old: &Value) {
        prepare(slice, Some(old));
    }

    fn validate_update(&self, _part: Part, slice: &Value, old: &Value, errors: &mut Errors) {
        spec::validate(slice.get("spec"), Some(old.get("spec")), errors);
    }

    fn warnings(&self, slice: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = slice.get("spec").str("driver");
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let driver = quote(driver);
        vec![format!("spec.driver: driver names should be lowercase; {driver} contains uppercase characters")]
    }
}

/// Taints get their time; attributes that are lists and resources of nodes that devices stand for are off.
fn prepare(slice: &mut Value, old: Option<&Value>) {
    let now = taints::now(slice, old);
    let Some(spec) = slice.find_mut("spec") else { return };
    for device in spec.list_mut("devices") {
        device.remove("nodeAllocatableResourceMappings");
        taints::stamp(device.list_mut("taints"), now.as_ref());
        if let Some(Value::Object(attributes)) = device.find_mut("attributes") {
            for (_, attribute) in attributes.iter_mut() {
                for field in ["bools", "ints", "strings", "versions"] {
                    attribute.remove(field);
                }
            }
        }
    }
}
