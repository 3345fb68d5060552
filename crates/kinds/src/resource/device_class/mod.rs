//! DeviceClass: devices that claims can ask for by one name.

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::configuration::{self, CONFIGURATIONS_MAX};
use super::lists::slice;
use super::{GROUP, selector};
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::resources::is_extended;
use crate::kind::{Part, Row, Rules, Scope, renamed};
use crate::meta;

pub static KIND: Row = Row {
    group: GROUP,
    kind: "DeviceClass",
    resource: "deviceclasses",
    singular: "deviceclass",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.resource.v1.DeviceClass",
    storage_prefix: "deviceclasses",
    columns: &[NAME, AGE],
    strategy: Strategy {
        name_rule: NameRule::LongName,
        repeats_meta: Repeats::all(Repeat::Nothing),
        has_generation: true,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &DeviceClassRules,
    ..Row::DEFAULTS
};

pub static BETA2: Row = Row {
    version: "v1beta2",
    type_name: "io.k8s.api.resource.v1beta2.DeviceClass",
    deprecation: "resource.k8s.io/v1beta2 DeviceClass is deprecated in v1.36+, unavailable in v1.39+",
    off_by_default: true,
    conversion: Some(renamed!("resource.k8s.io", "v1beta2", stored as "v1")),
    ..KIND
};

pub static BETA1: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.resource.v1beta1.DeviceClass",
    deprecation: "resource.k8s.io/v1beta1 DeviceClass is deprecated in v1.35+, unavailable in v1.38+",
    off_by_default: true,
    conversion: Some(renamed!("resource.k8s.io", "v1beta1", stored as "v1")),
    ..KIND
};

const SPEC: Path<'static> = Path::new("spec");

struct DeviceClassRules;

impl Rules for DeviceClassRules {
    fn validate_create(&self, class: &Value, errors: &mut Errors) {
        validate(class.get("spec"), &Value::Null, errors);
    }

    fn validate_update(&self, _part: Part, class: &Value, old: &Value, errors: &mut Errors) {
        meta::validate_again(class, false, NameRule::LongName, errors);
        meta::validate_update_again(class, old, errors);
        validate(class.get("spec"), old.get("spec"), errors);
    }
}

fn validate(spec: &Value, old: &Value, errors: &mut Errors) {
    selector::validate_all(SPEC.child("selectors"), spec.list("selectors"), errors);
    let configurations = spec.list("config");
    let stored = !old.is_null() && configurations == old.list("config");
    slice(SPEC.child("config"), configurations, CONFIGURATIONS_MAX, errors, |path, configuration, errors| {
        configuration::validate(path, configuration, stored, errors);
    });
    let name = spec.str("extendedResourceName");
    if spec.has("extendedResourceName") && !is_extended(name) {
        errors.invalid(SPEC.child("extendedResourceName"), name, "must be a valid extended resource name");
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn classes_are_checked() {
        let opaque = |parameters: Value| {
            vec![object! { "opaque": object! { "driver": "d.io", "parameters": parameters } }].into()
        };
        let table: &[(&str, Value, &[&str])] = &[
            ("extendedResourceName", "example.com/gpu".into(), &[]),
            (
                "extendedResourceName",
                "cpu".into(),
                &["spec.extendedResourceName: Invalid value: \"cpu\": must be a valid extended resource name"],
            ),
            ("config", opaque(Value::object()), &[]),
            ("config", opaque(Value::Null), &["spec.config[0].opaque.parameters: Required value"]),
            (
                "config",
                opaque(3.into()),
                &["spec.config[0].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object"],
            ),
            ("config", vec![Value::object()].into(), &["spec.config[0].opaque: Required value"]),
            ("selectors", vec![Value::object()].into(), &["spec.selectors[0].cel: Required value"]),
        ];
        for (field, value, expected) in table {
            let mut spec = Value::object();
            spec.set(field, value.clone());
            let mut errors = Errors::new();
            validate(&spec, &Value::Null, &mut errors);
            let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
            assert_eq!(texts, *expected, "{field}");
        }
    }
}
