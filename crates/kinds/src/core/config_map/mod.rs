//! ConfigMap: configuration as keys and texts or bytes.

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use crate::columns::{AGE, NAME};
use crate::kind::{Column, Part, Row, Rules};
use crate::meta::same;

pub static KIND: Row = Row {
    kind: "ConfigMap",
    resource: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    type_name: "io.k8s.api.core.v1.ConfigMap",
    storage_prefix: "configmaps",
    columns: &[NAME, Column::text("Data", "doc:io.k8s.api.core.v1.ConfigMap data", keys), AGE],
    strategy: Strategy { repeats_meta: Repeats::all(Repeat::Whole), ..Strategy::DEFAULTS },
    rules: &ConfigMapRules,
    ..Row::DEFAULTS
};

/// All values of a ConfigMap or Secret together.
pub const DATA_MAX_BYTES: usize = 1024 * 1024;

struct ConfigMapRules;

impl Rules for ConfigMapRules {
    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        let (data, binary) = (object.map("data"), object.map("binaryData"));
        let mut size = 0;
        let path = Path::new("data");
        for (key, value) in data.iter() {
            validate_key(path, key, errors);
            if binary.contains(key) {
                errors.invalid(path.key(key), key.as_str(), "duplicate of key present in binaryData");
            }
            size += value.as_str().len();
        }
        for (key, value) in binary.iter() {
            validate_key(Path::new("binaryData"), key, errors);
            size += decoded_len(value.as_str());
        }
        if size > DATA_MAX_BYTES {
            errors.too_long(Path::new(""), DATA_MAX_BYTES);
            // The whole object is meant, which has no name here.
            if let Some(error) = errors.0.last_mut() {
                error.field.clear();
            }
        }
    }

    fn validate_update(&self, _part: Part, object: &Value, old: &Value, errors: &mut Errors) {
        validate_immutable(object, old, &["data", "binaryData"], errors);
        self.validate_create(object, errors);
    }
}

/// A key of a ConfigMap or Secret must do as a file's name.
pub fn validate_key(path: Path<'_>, key: &str, errors: &mut Errors) {
    for message in names::config_map_key(key) {
        errors.invalid(path.key(key), key, message);
    }
}

/// Once `immutable` is set, it stays, and so do these fields.
pub fn validate_immutable(object: &Value, old: &Value, fields: &[&str], errors: &mut Errors) {
    if !old.bool("immutable") {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !object.bool("immutable") {
        errors.forbidden(Path::new("immutable"), detail);
    }
    for field in fields {
        if !same(object.get(field), old.get(field)) {
            errors.forbidden(Path::new(field), detail);
        }
    }
}

/// How many bytes a base64 text stands for.
pub fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn keys(object: &Value, _now: i64) -> Value {
    let count = object.map("data").len() + object.map("binaryData").len();
    i64::try_from(count).unwrap_or(i64::MAX).into()
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn wrong(object: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        ConfigMapRules.validate_create(object, &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn keys_and_size_are_checked() {
        assert!(wrong(&object! { "data": object! { "a": "1" }, "binaryData": object! { "b": "AAEC" } }).is_empty());
        assert_eq!(
            wrong(&object! { "data": object! { "a": "1" }, "binaryData": object! { "a": "AAEC" } }),
            ["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"]
        );
        let large = "x".repeat(DATA_MAX_BYTES + 1);
        assert_eq!(
            wrong(&object! { "data": object! { "a": large } }),
            [": Too long: may not be more than 1048576 bytes"]
        );
    }

    #[test]
    fn immutable_stays() {
        let old = object! { "immutable": true, "data": object! { "a": "1" } };
        let mut errors = Errors::new();
        validate_immutable(&object! { "data": object! { "a": "2" } }, &old, &["data", "binaryData"], &mut errors);
        let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set"
            ]
        );
    }
}
