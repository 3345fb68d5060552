//! The type and the metadata of objects that are embedded in custom resources.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural::Structural;
use rkube_machinery::{Map, TypeRef, Value, decode, names};

use crate::meta;
use crate::strategy::NameRule;

/// A name for those that have none: embedded objects need not.
const ANY_NAME: &str = "fakename";

/// All that is wrong with the `apiVersion`, `kind` and `metadata` of objects below this one.
pub fn validate_embedded(schema: &Structural, object: &Value, errors: &mut Errors) {
    of_value(Some(schema), object, &Path::ROOT, errors);
}

fn of_value(schema: Option<&Structural>, value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(map) => {
            if schema.extensions.embedded_resource {
                of_object(value, path, errors);
            }
            for (name, value) in map.iter() {
                match schema.property(name) {
                    Some(property) => of_value(Some(property), value, &path.child(name), errors),
                    None => of_value(schema.map_values(), value, &path.key(name), errors),
                }
            }
        }
        Value::Array(items) => {
            let schema = schema.items.as_deref();
            items.iter().enumerate().for_each(|(index, item)| of_value(schema, item, &path.index(index), errors));
        }
        _ => {}
    }
}

fn of_object(object: &Value, path: &Path<'_>, errors: &mut Errors) {
    let map = object.as_map();
    for field in ["apiVersion", "kind"] {
        if !map.contains(field) {
            errors.required(path.child(field), "");
        }
    }
    type_field(map, "apiVersion", path, errors, |version| {
        (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
    });
    type_field(map, "kind", path, errors, |kind| {
        let messages = names::dns1035_label(&kind.to_lowercase());
        let words = || format!("may have mixed case, but should otherwise match: {}", messages.join(","));
        (!messages.is_empty()).then(words)
    });
    if let Some(metadata) = map.get("metadata") {
        of_metadata(metadata, path.child("metadata"), errors);
    }
}

fn type_field(map: &Map, field: &str, path: &Path<'_>, errors: &mut Errors, fault: impl Fn(&str) -> Option<String>) {
    let here = path.child(field);
    match map.get(field) {
        None => {}
        Some(Value::String(text)) if text.is_empty() => errors.invalid(here, "", "must not be empty"),
        Some(Value::String(text)) => {
            if let Some(words) = fault(text) {
                errors.invalid(here, text.as_str(), words);
            }
        }
        Some(other) => errors.invalid(here, other, "must be a string"),
    }
}

fn of_metadata(metadata: &Value, path: Path<'_>, errors: &mut Errors) {
    let kind = TypeRef::find("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("the table has ObjectMeta");
    let mut read = match decode::decode(metadata.clone(), kind.get()) {
        Ok(decoded) => decoded.value,
        Err(error) => return errors.invalid(path, metadata, error.to_string()),
    };
    if read.str("name").is_empty() {
        read.set("name", ANY_NAME);
    }
    let namespaced = !read.str("namespace").is_empty();
    meta::validate(path, &read, namespaced, NameRule::PathSegment, errors);
}
