//! JSON merge patch (RFC 7386): an object whose fields replace those of the document; null removes a field.
//!
//! Beyond the RFC, and as Kubernetes does it: what is put where no object was loses its null fields, inside lists too.

use super::{Decoding, PatchError, go_text, json_type};
use crate::value::{Map, Value};

/// Applies the patch, which must be an object.
pub fn apply(patch: &Value, document: &mut Value) -> Result<(), PatchError> {
    apply_as(patch, document, Decoding::Checked)
}

/// Applies the patch; [`Decoding::Lenient`] lets a list replace the whole document.
pub fn apply_as(patch: &Value, document: &mut Value, decoding: Decoding) -> Result<(), PatchError> {
    match patch {
        Value::Object(changes) => {
            merge_into(document.make_map(), changes);
            Ok(())
        }
        Value::Array(_) if decoding == Decoding::Lenient => {
            *document = without_nulls(patch);
            Ok(())
        }
        Value::Null => Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        _ if decoding == Decoding::Lenient => Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        other => Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type {}",
            json_type(other),
            go_text::MAP_TYPE
        ))),
    }
}

fn merge_into(map: &mut Map, changes: &Map) {
    let mut document = std::mem::take(map).edit(changes.len());
    for (key, change) in changes.iter() {
        if change.is_null() {
            document.remove(key);
            continue;
        }
        let current = document.entry(key);
        match (&mut *current, change) {
            (Value::Object(current), Value::Object(changes)) => merge_into(current, changes),
            (Value::Object(_), other) => *current = other.clone(),
            (_, other) => *current = without_nulls(other),
        }
    }
    *map = document.finish();
}

/// The value without fields that are null; null items of lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::object;
    use crate::patch::generators::{any_object, any_value};

    #[test]
    fn fields_are_replaced_added_and_removed() {
        let list = |items: &[&str]| Value::Array(items.iter().map(|item| Value::from(*item)).collect());
        let null_field = || object! { "x": Value::Null };
        for (document, patch, result) in [
            (object! { "a": "b" }, object! { "a": "c" }, object! { "a": "c" }),
            (object! { "a": "b" }, object! { "b": "c" }, object! { "a": "b", "b": "c" }),
            (object! { "a": "b" }, object! { "a": Value::Null }, object! {}),
            (object! { "a": "b", "b": "c" }, object! { "a": Value::Null }, object! { "b": "c" }),
            (object! { "a": list(&["b"]) }, object! { "a": "c" }, object! { "a": "c" }),
            (object! { "a": "c" }, object! { "a": list(&["b"]) }, object! { "a": list(&["b"]) }),
            (
                object! { "a": object! { "b": "c" } },
                object! { "a": object! { "b": "d", "c": Value::Null } },
                object! { "a": object! { "b": "d" } },
            ),
            (object! { "e": Value::Null }, object! { "a": 1 }, object! { "e": Value::Null, "a": 1 }),
            (
                object! {},
                object! { "a": object! { "bb": null_field() } },
                object! { "a": object! { "bb": object! {} } },
            ),
            // A new list loses null fields, one in place of an object keeps them.
            (object! {}, object! { "a": vec![null_field()] }, object! { "a": vec![object! {}] }),
            (object! { "a": object! {} }, object! { "a": vec![null_field()] }, object! { "a": vec![null_field()] }),
        ] {
            let mut patched = document.clone();
            apply(&patch, &mut patched).unwrap();
            assert_eq!(patched, result, "{document:?} {patch:?}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let refused = |patch: Value, decoding| {
            apply_as(&patch, &mut object! { "a": 1 }, decoding).map_err(|error| error.to_string())
        };
        let decoding_error = |kind: &str| {
            let into = "into Go value of type map[string]interface {}";
            Err(format!("error decoding patch: json: cannot unmarshal {kind} {into}"))
        };
        assert_eq!(refused(vec![].into(), Decoding::Checked), decoding_error("array"));
        assert_eq!(refused("x".into(), Decoding::Checked), decoding_error("string"));
        assert_eq!(refused(Value::Null, Decoding::Checked), Err("Invalid JSON Patch".to_owned()));
        assert_eq!(refused(1.into(), Decoding::Lenient), Err("Invalid JSON Patch".to_owned()));
        assert_eq!(refused(vec![].into(), Decoding::Lenient), Ok(()));
    }

    proptest! {
        #[test]
        fn a_third_time_changes_nothing(patch in any_value(), document in any_object()) {
            let mut twice = document;
            // The second time may: the null fields of a list that took the place of an object are lost then.
            if apply(&patch, &mut twice).is_ok() {
                apply(&patch, &mut twice).unwrap();
                let mut thrice = twice.clone();
                apply(&patch, &mut thrice).unwrap();
                prop_assert_eq!(thrice, twice);
            }
        }

        #[test]
        fn an_empty_patch_changes_nothing(document in any_object()) {
            let mut patched = document.clone();
            apply(&Value::object(), &mut patched).unwrap();
            prop_assert_eq!(patched, document);
        }
    }
}
