//! Small moves on objects that many kinds share.

use rkube_machinery::{TypeRef, Value, decode};

/// Makes the field what it is in `old`, absent where it is absent there.
pub fn carry(object: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Value::Null => {
            object.remove(field);
        }
        // Most writes leave alone what they may not change, and to see that takes less than a copy.
        value if object.get(field).is_exactly(value) => {}
        value => object.set(field, value.clone()),
    }
}

/// [`carry`] for a field inside an object field.
pub fn carry_inner(object: &mut Value, old: &Value, outer: &str, field: &str) {
    if object.has(outer) || old.get(outer).has(field) {
        carry(object.object_mut(outer), old.get(outer), field);
    }
}

/// Takes the field out of an object field, where that is there.
pub fn remove_inner(object: &mut Value, outer: &str, field: &str) {
    if let Some(outer) = object.find_mut(outer) {
        outer.remove(field);
    }
}

/// Makes the metadata what it is in `old`, as far as a write of the status may not change it.
pub fn carry_metadata(object: &mut Value, old: &Value) {
    const KEPT: [&str; 7] =
        ["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"];
    let metadata = object.object_mut("metadata");
    for field in KEPT {
        carry(metadata, old.get("metadata"), field);
    }
}

/// The time of the write that is under way: it stands with the fields that the writer owns. None where nobody keeps
/// track of them.
pub fn written_at(object: &Value) -> Option<Value> {
    let times = object.get("metadata").list("managedFields").iter().map(|entry| entry.str("time"));
    times.max().filter(|time| !time.is_empty()).map(Value::from)
}

/// The items of a list of strings.
pub fn texts<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + Clone {
    object.list(field).iter().map(Value::as_str)
}

/// Makes the metadata what it is in `old`, but for the managed fields, which say who writes this.
pub fn carry_metadata_but_managed_fields(object: &mut Value, old: &Value) {
    let managed = object.object_mut("metadata").remove("managedFields");
    let version = object.object_mut("metadata").remove("resourceVersion");
    carry(object, old, "metadata");
    let metadata = object.object_mut("metadata");
    for (field, value) in [("managedFields", managed), ("resourceVersion", version)] {
        match value {
            Some(value) => metadata.set(field, value),
            None => drop(metadata.remove(field)),
        }
    }
}

/// A label selector as messages show it: without what is empty.
pub fn shown_selector(selector: &Value) -> Value {
    let mut shown = selector.clone();
    if !shown.is_null()
        && let Some(kind) = TypeRef::find("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")
    {
        decode::complete(&mut shown, kind.get());
    }
    shown
}
