//! `metadata.managedFields`: reading, writing, order, and the bound on how many there may be.

use std::collections::HashMap;

use super::WriteContext;
use super::set::{FieldSet, FieldsError};
use crate::field::quote;
use crate::json;
use crate::value::{Map, Text, Value, key};

/// Update entries above this number are put together, oldest first.
pub(super) const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";
/// Longer lists are looked up in by hash.
const INDEXED_MIN: usize = 16;

/// Manager, whether it applies, subresource, and the version where that tells managers apart.
type Identity = (Text, bool, Text, Text);

/// Who owns what, by which kind of write, in which version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: Text,
    pub(super) applied: bool,
    pub(super) api_version: Text,
    pub(super) subresource: Text,
    pub(super) time: Option<Text>,
    pub(super) fields: FieldSet,
    /// The fields as the live object has them written; none, once they changed.
    pub(super) written: Option<Value>,
}

/// Why the entries of an object could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {} in managed fields entry {index}", quote(.kind))]
    FieldsType { kind: String, index: usize },
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

impl Entry {
    pub(super) fn new(context: &WriteContext<'_>, applied: bool, fields: FieldSet) -> Self {
        let manager = if context.manager.is_empty() { "unknown" } else { context.manager };
        Entry {
            manager: Text::new(manager),
            applied,
            api_version: Text::new(context.api_version),
            subresource: Text::new(context.subresource),
            time: None,
            fields,
            written: None,
        }
    }

    /// Whether both are the same manager's. Who applies is the same in every version.
    pub(super) fn is_same(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.applied == other.applied
            && self.subresource == other.subresource
            && (self.applied || self.api_version == other.api_version)
    }

    /// Equal for entries that are the same manager's, see [`Entry::is_same`].
    fn identity(&self) -> Identity {
        let version = if self.applied { Text::default() } else { self.api_version.clone() };
        (self.manager.clone(), self.applied, self.subresource.clone(), version)
    }

    /// The text by which managers are ordered where nothing else tells them apart.
    pub(super) fn identifier(&self) -> String {
        let mut fields = vec![
            (const { key("manager") }, Value::String(self.manager.clone())),
            (const { key("operation") }, Value::String(Text::new_static(self.operation()))),
            (const { key("apiVersion") }, Value::String(self.api_version.clone())),
            (const { key("subresource") }, Value::String(self.subresource.clone())),
        ];
        fields.retain(|(name, value)| !(value.is_empty() || self.applied && name == "apiVersion"));
        json::to_string(&Value::Object(Map::in_order(fields)))
    }

    /// As conflicts name the manager.
    pub(super) fn describe(&self) -> String {
        let mut text = quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", quote(&self.subresource)));
        }
        if !self.applied {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }

    fn operation(&self) -> &'static str {
        if self.applied { "Apply" } else { "Update" }
    }

    pub(super) fn read(value: &Value, index: usize, stored: bool) -> Result<Entry, EntryError> {
        let applied = match value.str("operation") {
            "Apply" => true,
            "Update" => false,
            _ => return Err(EntryError::Operation),
        };
        if value.str("apiVersion").is_empty() {
            return Err(EntryError::ApiVersion);
        }
        match value.str("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(EntryError::NoFieldsType(index)),
            other => return Err(EntryError::FieldsType { kind: other.to_owned(), index }),
        }
        let (fields, in_order) = FieldSet::read(value.get("fieldsV1"))?;
        Ok(Entry {
            manager: text(value.get("manager")),
            applied,
            api_version: text(value.get("apiVersion")),
            subresource: text(value.get("subresource")),
            time: Some(text(value.get("time"))).filter(|time| !time.is_empty()),
            fields,
            written: (stored && in_order).then(|| value.get("fieldsV1").clone()),
        })
    }

    /// Removes fields.
    pub(super) fn subtract(&mut self, fields: &FieldSet) {
        if self.fields.subtract(fields) {
            self.written = None;
        }
    }

    /// Adds fields.
    pub(super) fn extend(&mut self, fields: FieldSet) {
        self.fields.extend(fields);
        self.written = None;
    }

    pub(super) fn write(self) -> Value {
        let mut entry = Vec::with_capacity(7);
        let operation = self.operation();
        if !self.manager.is_empty() {
            entry.push((const { key("manager") }, Value::String(self.manager)));
        }
        entry.push((const { key("operation") }, Value::String(Text::new_static(operation))));
        entry.push((const { key("apiVersion") }, Value::String(self.api_version)));
        if let Some(time) = self.time {
            entry.push((const { key("time") }, Value::String(time)));
        }
        entry.push((const { key("fieldsType") }, Value::String(Text::new_static("FieldsV1"))));
        entry.push((const { key("fieldsV1") }, self.written.unwrap_or_else(|| self.fields.to_fields_v1())));
        if !self.subresource.is_empty() {
            entry.push((const { key("subresource") }, Value::String(self.subresource)));
        }
        Value::Object(Map::in_order(entry))
    }
}

fn text(value: &Value) -> Text {
    match value {
        Value::String(text) => text.clone(),
        _ => Text::default(),
    }
}

/// The entries of a list of managed fields. Of two of the same manager the later one stays. What is `stored` was
/// written here, so that what does not change need not be written again.
pub(super) fn read(list: &Value, stored: bool) -> Result<Vec<Entry>, EntryError> {
    let mut entries: Vec<Entry> = Vec::with_capacity(list.items().len() + 1);
    // Objects have a few; clients may send thousands.
    let mut known: HashMap<Identity, usize> = HashMap::new();
    let is_long = list.items().len() > INDEXED_MIN;
    for (index, value) in list.items().iter().enumerate() {
        let entry = Entry::read(value, index, stored)?;
        let place = match is_long {
            true => *known.entry(entry.identity()).or_insert(entries.len()),
            false => entries.iter().position(|other| other.is_same(&entry)).unwrap_or(entries.len()),
        };
        match entries.get_mut(place) {
            Some(other) => *other = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

/// The entries that the object has.
pub(super) fn of(object: &Value) -> Result<Vec<Entry>, EntryError> {
    read(object.get("metadata").get("managedFields"), true)
}

/// Whether a client asks to forget all owners: an empty list, or one with one empty item.
pub(super) fn is_reset(list: &Value) -> bool {
    match list {
        Value::Array(items) => match &items[..] {
            [] => true,
            [Value::Object(entry)] => entry.iter().all(|(_, value)| value.is_empty()),
            _ => false,
        },
        _ => false,
    }
}

/// Takes `metadata.managedFields` out of the object.
pub(super) fn take(object: &mut Value) -> Value {
    object.find_mut("metadata").and_then(|metadata| metadata.remove("managedFields")).unwrap_or_default()
}

/// Writes the entries as the last field of the object's metadata; none, where there are none.
pub(super) fn put(object: &mut Value, mut entries: Vec<Entry>) {
    take(object);
    sort(&mut entries);
    place(object, entries.into_iter().map(Entry::write).collect());
}

/// Makes the list the last field of the metadata of an object that has none.
pub(super) fn place(object: &mut Value, list: Vec<Value>) {
    if list.is_empty() {
        return;
    }
    let metadata = object.object_mut("metadata").make_map();
    let mut fields = std::mem::take(metadata).into_entries();
    fields.push((const { key("managedFields") }, Value::Array(list)));
    *metadata = Map::in_order(fields);
}

/// Writes the only entry of a new object, whose fields are written already.
pub(super) fn put_only(object: &mut Value, context: &WriteContext<'_>, fields: String) {
    if fields == "{}" {
        return;
    }
    let mut entry = Entry::new(context, false, FieldSet::new());
    entry.time = Some(Text::new(context.time));
    entry.written = Some(Value::Written(fields.into()));
    put(object, vec![entry]);
}

/// Appliers first, then by time, manager, version and subresource.
fn sort(entries: &mut [Entry]) {
    entries.sort_by(|left, right| {
        (left.operation().cmp(right.operation()))
            .then_with(|| left.time.cmp(&right.time))
            .then_with(|| left.manager.cmp(&right.manager))
            .then_with(|| left.api_version.cmp(&right.api_version))
            .then_with(|| left.subresource.cmp(&right.subresource))
    });
}

/// All sets in one, the small ones first: one by one, each would be walked again for all that follow.
pub(super) fn union(mut sets: Vec<FieldSet>) -> FieldSet {
    while sets.len() > 1 {
        let mut pairs = sets.into_iter();
        let mut merged = Vec::new();
        while let Some(mut left) = pairs.next() {
            if let Some(right) = pairs.next() {
                left.extend(right);
            }
            merged.push(left);
        }
        sets = merged;
    }
    sets.pop().unwrap_or_default()
}

/// Puts the oldest updaters of a version together until there are no more than the bound.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let mut count = entries.iter().filter(|entry| !entry.applied).count();
    if count <= UPDATERS_MAX {
        return;
    }
    let (mut updaters, appliers): (Vec<_>, Vec<_>) = entries.drain(..).partition(|entry| !entry.applied);
    updaters.sort_by_cached_key(|entry| (entry.time.clone(), entry.identifier()));
    let mut kept: Vec<Entry> = Vec::with_capacity(UPDATERS_MAX);
    // By version: the first of those kept, and the first bucket; by place: what goes into a bucket.
    let mut firsts: HashMap<Text, usize> = HashMap::new();
    let mut buckets: HashMap<Text, usize> = HashMap::new();
    let mut absorbed: HashMap<usize, Vec<FieldSet>> = HashMap::new();
    for entry in updaters {
        let first = firsts.get(&entry.api_version).copied();
        let Some(first) = first.filter(|_| count > UPDATERS_MAX) else {
            firsts.entry(entry.api_version.clone()).or_insert(kept.len());
            if entry.manager == ANCIENT && entry.subresource.is_empty() {
                buckets.entry(entry.api_version.clone()).or_insert(kept.len());
            }
            kept.push(entry);
            continue;
        };
        // An older bucket of the version may stand among those kept; it takes the entry, else the oldest becomes one.
        let place = *buckets.entry(entry.api_version.clone()).or_insert(first);
        let bucket = &mut kept[place];
        bucket.manager = Text::new_static(ANCIENT);
        bucket.subresource = Text::default();
        bucket.time = entry.time;
        absorbed.entry(place).or_default().push(entry.fields);
        count -= 1;
    }
    for (place, sets) in absorbed {
        kept[place].extend(union(sets));
    }
    entries.extend(appliers);
    entries.extend(kept);
}
