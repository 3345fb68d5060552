//! The way of an object through the rules of its kind, without a server: what a create and an update do to it.

use rkube_kinds::kind::{Part, Requester};
use rkube_kinds::{Kind, all};
use rkube_machinery::field::Errors;
use rkube_machinery::{Type, Value, decode, object, time};

/// When objects are made, in seconds since 1970.
pub const NOW: i64 = 1_767_225_600;

/// The document as an object of the kind, or what a client would be told. Unknown fields are errors.
pub fn decoded(kind: &Kind, document: Value) -> Result<Value, String> {
    let decoded = decode::decode(document, kind.schema.table().unwrap()).map_err(|error| error.to_string())?;
    if !decoded.strict.is_empty() {
        return Err(format!("strict decoding error: {}", decoded.strict.join(", ")));
    }
    let mut value = decoded.value;
    value.set("kind", kind.kind.clone());
    value.set("apiVersion", kind.api_version());
    Ok(value)
}

/// A new object in its stored form.
pub fn create(kind: &Kind, mut value: Value) -> Result<Value, Errors> {
    kind.rules.default(&mut value);
    let metadata = value.object_mut("metadata");
    for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
    if kind.is_namespaced() {
        metadata.set_if_absent("namespace", "default");
    } else {
        metadata.remove("namespace");
    }
    let mut value = stored(kind, value);
    let metadata = value.object_mut("metadata");
    metadata.set("creationTimestamp", time::format_seconds(NOW));
    metadata.set("uid", "6f6e2f5e-0000-4000-8000-00000000000a");
    metadata.remove("resourceVersion");
    if kind.strategy.has_generation {
        metadata.set("generation", 1);
    }
    kind.rules.prepare_create(&mut value);
    kind.rules.stamp(&mut value, None, &Requester { user: &user, now: NOW, gave_no_labels: false });
    let errors = kind.validate_create(&value);
    if !errors.is_empty() {
        return Err(errors);
    }
    kind.rules.canonicalize(&mut value);
    decode::settle(&mut value, stored_schema(kind));
    Ok(value)
}

/// The change of a stored object into `value`, which is in the stored form as well.
pub fn update(kind: &Kind, part: Part, mut value: Value, old: &Value) -> Result<Value, Errors> {
    kind.rules.prepare_update(part, &mut value, old);
    kind.rules.stamp(&mut value, Some((part, old)), &Requester { user: &user, now: NOW, gave_no_labels: false });
    let errors = kind.validate_update(part, &value, old);
    if !errors.is_empty() {
        return Err(errors);
    }
    kind.rules.canonicalize(&mut value);
    decode::settle(&mut value, stored_schema(kind));
    Ok(value)
}

pub fn stored(kind: &Kind, value: Value) -> Value {
    kind.conversion.as_ref().map_or(value.clone(), |conversion| conversion.to_stored(value))
}

/// The stored object in the kind's version.
pub fn served(kind: &Kind, value: Value) -> Value {
    kind.conversion.as_ref().map_or(value.clone(), |conversion| conversion.from_stored(value))
}

/// The type in which objects of the kind are stored.
pub fn stored_schema(kind: &Kind) -> &'static Type {
    let empty = object! { "apiVersion": kind.api_version(), "kind": kind.kind.clone() };
    let stored = stored(kind, empty);
    let (api_version, name) = (stored.str("apiVersion"), stored.str("kind"));
    let row = all().iter().find(|row| row.kind == name && row.api_version() == api_version);
    row.unwrap_or_else(|| panic!("{api_version} {name} is stored and not served")).schema.table().unwrap()
}

fn user() -> Value {
    object! { "username": "jane", "groups": vec![Value::from("dev")] }
}
