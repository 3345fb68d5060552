//! The life cycle of an object without a server: what a create and an update do to it.

use rkube_kinds::kind::{Part, Requester};
use rkube_kinds::lifecycle::{self, Lifecycle};
use rkube_kinds::{Kind, all};
use rkube_machinery::field::Errors;
use rkube_machinery::schema::Schema;
use rkube_machinery::{Type, Value, decode, object};

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
    lifecycle::begin(kind, &mut value);
    let metadata = value.object_mut("metadata");
    if kind.is_namespaced() {
        metadata.set_if_absent("namespace", "default");
    } else {
        metadata.remove("namespace");
    }
    let mut value = stored(kind, value);
    lifecycle::identify(kind, &mut value, "6f6e2f5e-0000-4000-8000-00000000000a".to_owned(), None, NOW);
    in_lifecycle(kind, Part::Main, |lifecycle| lifecycle.create(&mut value))?;
    Ok(value)
}

/// The change of a stored object into `value`, which is in the stored form as well.
pub fn update(kind: &Kind, part: Part, mut value: Value, old: &Value) -> Result<Value, Errors> {
    in_lifecycle(kind, part, |lifecycle| lifecycle.update(&mut value, old))?;
    Ok(value)
}

fn in_lifecycle<T>(kind: &Kind, part: Part, run: impl FnOnce(&Lifecycle<'_>) -> T) -> T {
    run(&Lifecycle {
        kind,
        schema: &Schema::Table(stored_schema(kind)),
        part,
        requester: Requester { user: &user, now: NOW, gave_no_labels: false },
        namespace: &|| Value::Null,
        kept_empties: true,
    })
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
