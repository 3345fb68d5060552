//! VolumeAttributesClass: attributes of volumes that can change while they are in use, under a name.

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::checks;
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Part, Row, RowConversion, Rules, Scope};
use crate::meta;

pub static KIND: Row = Row {
    group: "storage.k8s.io",
    kind: "VolumeAttributesClass",
    resource: "volumeattributesclasses",
    singular: "volumeattributesclass",
    short_names: &["vac"],
    scope: Scope::Cluster,
    type_name: "io.k8s.api.storage.v1.VolumeAttributesClass",
    storage_prefix: "volumeattributesclasses",
    columns: &[
        NAME,
        Column::text("DriverName", "doc:io.k8s.api.storage.v1.VolumeAttributesClass driverName", |class, _| {
            class.str("driverName").into()
        }),
        AGE,
    ],
    strategy: Strategy {
        repeats_meta: Repeats::all(Repeat::Nothing),
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &AttributesClassRules,
    ..Row::DEFAULTS
};

/// The same with another version's name on it.
pub static BETA: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.storage.v1beta1.VolumeAttributesClass",
    deprecation: "storage.k8s.io/v1beta1 VolumeAttributesClass is deprecated in v1.34+, unavailable in v1.37+; use storage.k8s.io/v1 VolumeAttributesClass",
    off_by_default: true,
    conversion: Some(RowConversion {
        group: "storage.k8s.io",
        to_stored: |mut class| {
            class.set("apiVersion", "storage.k8s.io/v1");
            class
        },
        from_stored: |mut class| {
            class.set("apiVersion", "storage.k8s.io/v1beta1");
            class
        },
    }),
    ..KIND
};

struct AttributesClassRules;

impl Rules for AttributesClassRules {
    fn validate_create(&self, class: &Value, errors: &mut Errors) {
        checks::provisioner(Path::new("driverName"), class.str("driverName"), errors);
        checks::parameters(Path::new("parameters"), class, false, errors);
    }

    fn validate_update(&self, _part: Part, class: &Value, old: &Value, errors: &mut Errors) {
        meta::validate_update_again(class, old, errors);
        for field in ["driverName", "parameters"] {
            if class.get(field) != old.get(field) {
                errors.forbidden(Path::new(field), format!("updates to {field} are forbidden."));
            }
        }
        meta::validate_again(class, false, NameRule::Subdomain, errors);
        self.validate_create(class, errors);
    }
}
