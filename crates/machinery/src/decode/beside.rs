//! The canonical form of an object that was made of another one.

use smallvec::SmallVec;

use super::complete;
use crate::schema::Type;
use crate::value::{Text, Value};

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
    use crate::schema::TypeRef;
    use crate::{json, object};

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
