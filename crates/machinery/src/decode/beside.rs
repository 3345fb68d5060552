//! The canonical form of an object that was made of another one which has it.

use smallvec::SmallVec;

use super::{DecodeError, Decoded, complete, convert};
use crate::schema::Type;
use crate::value::{Map, Text, Value};

/// [`convert()`] of an object in canonical form that a patch was applied to: fields that the patch does not name are as
/// they were, and need not be gone through.
pub fn convert_patched(mut raw: Value, patch: &Value, kind: &'static Type) -> Result<Decoded, DecodeError> {
    let mut kept: SmallVec<[(Text, Value); 4]> = SmallVec::new();
    if let (Value::Object(map), Value::Object(patch)) = (&mut raw, patch)
        && !patch.keys().any(|key| key.starts_with('$'))
    {
        let untouched = |key: &Text| kind.position(key).is_some() && !patch.contains(key);
        for key in map.keys().filter(|key| untouched(key)).cloned().collect::<SmallVec<[Text; 4]>>() {
            let field = map.remove(&key).unwrap_or_default();
            kept.push((key, field));
        }
    }
    if kept.is_empty() {
        return convert(raw, kind);
    }
    let mut decoded = convert(raw, kind)?;
    for (key, field) in kept {
        decoded.value.set(&key, field);
    }
    if let Value::Object(map) = decoded.value {
        let mut entries = map.into_entries();
        // What is no field of the type says what type it is, and is first.
        entries.sort_by_key(|(key, _)| kind.position(key).map_or(0, |position| position + 1));
        decoded.value = Value::Object(Map::in_order(entries));
    }
    Ok(decoded)
}

/// [`complete()`] for a change of `old`, which is in canonical form: a field that is exactly what it is there need not be
/// gone through. Most writes change the spec or the status and leave the other as it is; metadata says when, and differs.
/// `carried` is a field that is known to be.
pub fn complete_beside(value: &mut Value, old: &Value, kind: &'static Type, carried: Option<&str>) {
    let mut kept: SmallVec<[(Text, Value); 4]> = SmallVec::new();
    if let (Value::Object(map), Value::Object(old)) = (&mut *value, old) {
        for (key, field) in map.iter_mut() {
            let is_deep = matches!(field, Value::Object(_) | Value::Array(_)) && !field.is_empty();
            if is_deep
                && key != "metadata"
                && let Some(old) = old.get(key)
                && (carried == Some(key.as_str()) || field.is_exactly(old))
                && kind.position(key).is_some()
            {
                // What stands here meanwhile is not empty, so that the field keeps its place.
                kept.push((key.clone(), std::mem::replace(field, Value::Bool(true))));
            }
        }
    }
    complete(value, kind);
    for (key, field) in kept {
        value.set(&key, field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::strategic;
    use crate::schema::TypeRef;
    use crate::{json, object};

    #[test]
    fn gives_what_converting_all_of_it_gives() {
        let kind = TypeRef::find("io.k8s.api.core.v1.Pod").unwrap().get();
        let spec = r#"{"containers":[{"name":"a","image":"b"}],"nodeName":"n"}"#;
        let old = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"x","finalizers":["f","g"]}},"spec":{spec},"status":{{"phase":"Running"}}}}"#
        );
        let old = convert(json::parse(old.as_bytes()).unwrap(), kind).unwrap().value;
        let patches = [
            r#"{}"#,
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["f"]}}"#,
            r#"{"metadata":{"labels":{"a":"b"},"name":7}}"#,
            r#"{"status":{"phase":"Failed","unknown":1,"conditions":[]}}"#,
            r#"{"status":null,"other":{"a":1}}"#,
            r#"{"spec":{"containers":[{"name":"a","image":"c","ports":null}]}}"#,
            r#"{"spec":{"containers":[]},"kind":"Node"}"#,
            r#"{"$retainKeys":["metadata"],"metadata":{"name":"y"}}"#,
            r#"{"$patch":"replace","metadata":{"name":"y"}}"#,
        ];
        for text in patches {
            let patch = json::parse(text.as_bytes()).unwrap();
            let document = strategic::apply(&patch, &old, kind).unwrap();
            let shown = |decoded: Result<Decoded, DecodeError>| {
                decoded
                    .map(|found| (json::to_string(&found.value), found.strict, found.kept_empties))
                    .map_err(|error| error.to_string())
            };
            assert_eq!(
                shown(convert_patched(document.clone(), &patch, kind)),
                shown(convert(document, kind)),
                "{text}"
            );
        }
    }

    #[test]
    fn gives_what_completing_all_of_it_gives() {
        let kind = TypeRef::find("io.k8s.api.core.v1.Pod").unwrap().get();
        let spec = object! { "containers": vec![object! { "name": "a", "image": "b" }], "nodeName": "n" };
        let mut old = object! { "metadata": object! { "name": "x" }, "spec": spec.clone(), "status": Value::object() };
        complete(&mut old, kind);
        let mut reordered = object! { "nothing": object! { "a": 1 }, "status": object! { "phase": "Running" } };
        reordered.set("spec", old.get("spec").clone());
        reordered.set("metadata", object! { "namespace": "y", "name": "x" });
        let mut running = old.clone();
        running.object_mut("status").set("phase", "Running");
        let mut moved = old.clone();
        moved.object_mut("spec").set("hostname", "h");
        moved.object_mut("spec").set("nodeName", "");
        for new in [old.clone(), reordered, running, moved, object! { "spec": spec }, Value::object(), Value::Null] {
            let (mut whole, mut beside) = (new.clone(), new);
            complete(&mut whole, kind);
            complete_beside(&mut beside, &old, kind, None);
            assert_eq!(json::to_string(&beside), json::to_string(&whole));
        }
    }
}
