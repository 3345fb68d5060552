//! The rules of built-in kinds on arbitrary objects: defaults, preparation, validation, columns.

use rkube_kinds::kind::Part;
use rkube_kinds::{Kind, all};
use rkube_machinery::decode::decode;
use rkube_machinery::{Value, json};

use super::documents::Choices;

pub fn kinds(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = &all()[choices.below(all().len())];
    let Some(old) = object(&mut choices, kind) else { return };
    let mut old = stored(kind, old);
    kind.rules.prepare_create(&mut old);
    let _ = kind.validate_create(&old);
    let _ = kind.rules.warnings(&old, None);
    kind.rules.canonicalize(&mut old);
    read(kind, &old);
    let Some(new) = object(&mut choices, kind) else { return };
    let mut new = stored(kind, new);
    let part = [Part::Main, Part::Status, Part::Other("ephemeralcontainers"), Part::Other("resize")][choices.below(4)];
    kind.rules.prepare_update(part, &mut new, &old);
    let _ = kind.validate_update(part, &new, &old);
    let _ = (kind.rules.warnings(&new, Some(&old)), kind.rules.status_warnings(&new));
    kind.rules.canonicalize(&mut new);
    read(kind, &new);
}

/// A decoded object with its defaults, which stay when they are filled in again.
fn object(choices: &mut Choices<'_>, kind: &Kind) -> Option<Value> {
    let schema = kind.schema.table()?;
    let mut object = decode(choices.fitting(schema, 0), schema).ok()?.value;
    kind.rules.default(&mut object);
    let once = json::to_string(&object);
    kind.rules.default(&mut object);
    assert_eq!(json::to_string(&object), once, "{}: defaults do not stay", kind.kind);
    Some(object)
}

fn stored(kind: &Kind, object: Value) -> Value {
    kind.conversion.as_ref().map_or_else(|| object.clone(), |conversion| conversion.to_stored(object.clone()))
}

/// Everything that looks at a stored object.
fn read(kind: &Kind, object: &Value) {
    for column in kind.columns.iter() {
        let _ = column.cell(object, 1_700_000_000);
    }
    let _ = kind.selectable.values(object);
    let _ = kind.rules.grace_period_seconds(object, None);
    let mut deleted = object.clone();
    kind.rules.prepare_deletion(&mut deleted);
    if let Some(conversion) = &kind.conversion {
        let _ = conversion.from_stored(object.clone());
    }
}
