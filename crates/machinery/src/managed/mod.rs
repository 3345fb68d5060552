//! Who owns which field: managed fields on every write, and server-side apply.
//!
//! [`track_update`] runs on each create, update and patch and gives the fields that changed to the writer; [`apply`]
//! merges an applied configuration into the live object. Both work on [`Value`]s through a [`SchemaView`], so built-in
//! kinds, custom resources and objects without a schema go the same way.
//!
//! What holds:
//! - A path is owned by at most one updater and any number of appliers.
//! - Nothing here reads a clock: the time of a write is passed in.
//! - The caller defaults, admits and validates what [`apply`] returns, as it does with any other write.

mod apply;
mod compare;
mod element;
mod entries;
mod fields;
mod last_applied;
mod merge;
mod new_object;
mod owners;
mod scale;
mod set;
mod short_way;
mod text;
mod validate;
mod view;
mod written;

#[cfg(test)]
mod short_way_tests;
#[cfg(test)]
mod tests;

pub use apply::{ApplyError, apply, unconvertible, unreadable};
pub use compare::Comparison;
pub use element::{ElementError, PathElement};
pub use entries::EntryError;
pub use scale::Replicas;
pub use set::{FieldSet, FieldsError};
pub use view::{Child, Form, List, Scalar, SchemaView, TableView};

use crate::json;
use crate::value::{Map, Value};
use entries::Entry;
use owners::Scene;

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub struct WriteContext<'a> {
    /// The field manager; empty: `unknown`.
    pub manager: &'a str,
    /// The version in which the object is written.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339, in UTC, in seconds.
    pub time: &'a str,
}

/// Which fields a writer never owns, because the server resets them on this resource. `*` stands for any step.
#[derive(Clone, Copy, Debug, Default)]
pub enum Reset<'a> {
    #[default]
    Nothing,
    /// These fields and what is below them.
    Fields(&'a [&'a [&'a str]]),
    /// All but these fields and what is below them.
    AllBut(&'a [&'a [&'a str]]),
}

/// Turns an object into another version of its kind; none where the version is not served.
pub type Convert<'a, S> = &'a dyn Fn(&Value, &str) -> Option<(Value, S)>;

/// Records in `new` who owns what after a create or update. `live` is null on create.
///
/// An object that is there and has no owners stays without them until somebody applies to it.
pub fn track_update<S: SchemaView>(
    live: &Value,
    new: &mut Value,
    schema: S,
    context: &WriteContext<'_>,
    reset: Reset<'_>,
    convert: Option<Convert<'_, S>>,
) {
    let sent = entries::take(new);
    let scene = Scene { schema, context, reset, convert };
    if let Err(sent) = short_way::track(&scene, live, new, sent) {
        track_the_long_way(&scene, live, new, &sent);
    }
}

/// The same for any object, by sets of what each owner has.
fn track_the_long_way<S: SchemaView>(scene: &Scene<'_, S>, live: &Value, new: &mut Value, sent: &Value) {
    let mut entries = known_entries(live, sent, scene.context);
    if entries.is_empty() && !live.get("metadata").str("uid").is_empty() {
        return;
    }
    if scene.track(live, new, &mut entries) {
        entries::put(new, entries);
    }
}

/// Records in a new object that all of it is the maker's, and says whether it did: [`track_update`] does the same for
/// any object. The fields are written already ([`Value::Written`]).
pub fn track_new<S: SchemaView>(new: &mut Value, schema: S, context: &WriteContext<'_>, reset: Reset<'_>) -> bool {
    if new.get("metadata").has("managedFields") {
        return false;
    }
    let fields = new_object::write(new, schema, reset, &owners::NEVER_OWNED);
    fields.map(|fields| entries::put_only(new, context, fields)).is_some()
}

/// The owners before the write: what the client sent where it may say so, else what the live object has.
fn known_entries(live: &Value, sent: &Value, context: &WriteContext<'_>) -> Vec<Entry> {
    let of_live = || entries::of(live).unwrap_or_default();
    if !context.subresource.is_empty()
        || sent.is_null()
        || is_same_list(sent, live.get("metadata").get("managedFields"))
    {
        return of_live();
    }
    if entries::is_reset(sent) {
        return Vec::new();
    }
    match entries::read(sent, false) {
        Ok(entries) if !entries.is_empty() => entries,
        _ => of_live(),
    }
}

/// Makes a tree of what each owner has, where it is still as it was stored: for who changes it step by step.
pub fn unfold(object: &mut Value) {
    let Some(metadata) = object.find_mut("metadata") else { return };
    for entry in metadata.list_mut("managedFields") {
        if let Some(fields) = entry.find_mut("fieldsV1")
            && let Value::Written(text) = fields
        {
            *fields = json::parse(text.as_bytes()).unwrap_or_default();
        }
    }
}

/// Whether [`unfold`] would do anything.
fn has_text(object: &Value) -> bool {
    let mut entries = object.get("metadata").list("managedFields").iter();
    entries.any(|entry| matches!(entry.get("fieldsV1"), Value::Written(_)))
}

/// Whether the object's managed fields can be read: whoever changes an object on its way may not break them.
pub fn check(object: &Value) -> Result<(), EntryError> {
    entries::of(object).map(|_| ())
}

/// Puts the live object's times back where a write changed nothing else, so that it changes nothing at all.
pub fn keep_times(live: &Value, new: &mut Value) {
    let old = live.get("metadata").list("managedFields");
    let list = new.get("metadata").list("managedFields");
    let same_entry = |(old, new): (&Value, &Value)| {
        let (old, new) = (old.as_map(), new.as_map());
        let timeless = |entry: &&str| *entry != "time";
        let mut keys = old.keys().chain(new.keys()).map(|key| key.as_str()).filter(timeless);
        keys.all(|key| old.get(key).zip(new.get(key)).is_some_and(|(old, new)| is_same(old, new)))
    };
    if old.is_empty() || old.len() != list.len() || old == list || !old.iter().zip(list).all(same_entry) {
        return;
    }
    // A status that is renewed again and again comes by here: nothing is copied to find out that it differs.
    if !is_same_but_for_owners(live, new) {
        return;
    }
    let kept = live.get("metadata").get("managedFields").clone();
    *new.object_mut("metadata").get_mut("managedFields") = kept;
}

/// Whether both are the same list of owners.
fn is_same_list(left: &Value, right: &Value) -> bool {
    let (Value::Array(one), Value::Array(other)) = (left, right) else { return left == right };
    let is_same_entry = |(left, right): (&Value, &Value)| {
        let (one, other) = (left.as_map(), right.as_map());
        left == right
            || one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|found| is_same(value, found)))
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same_entry)
}

/// Whether both are the same, where one may be the text of the other.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Written(text), fields @ Value::Object(_)) | (fields @ Value::Object(_), Value::Written(text)) => {
            json::to_string(fields) == **text || json::parse(text.as_bytes()).is_ok_and(|parsed| parsed == *fields)
        }
        _ => left == right,
    }
}

/// Whether two objects differ in nothing but `metadata.managedFields`.
fn is_same_but_for_owners(one: &Value, other: &Value) -> bool {
    fn same_but(one: &Map, other: &Map, left_out: &str) -> bool {
        let counted = |map: &Map| map.len() - usize::from(map.contains(left_out));
        let other_by_key = other.index();
        counted(one) == counted(other)
            && one.iter().all(|(key, value)| key == left_out || other_by_key.get(key) == Some(value))
    }
    let metadata = [one, other].map(|object| object.get("metadata").as_map());
    same_but(one.as_map(), other.as_map(), "metadata") && same_but(metadata[0], metadata[1], "managedFields")
}
