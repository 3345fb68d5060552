//! An object as it is kept and sent: its JSON bytes with a small parsed header.
//!
//! The bytes begin with `kind` and `apiVersion`, hold no `resourceVersion`, and are never changed. The revision is known only
//! after commit, so it is spliced in on output at `version_offset`; items of lists leave out the kind, so they start
//! at `metadata_offset`.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use rkube_kinds::Kind;
use rkube_machinery::schema::Schema;
use rkube_machinery::value::{Map, Text, Value};
use rkube_machinery::{Type, TypeRef, decode, json};

use crate::label_marks::LabelMarks;

/// What a thread keeps of its buffer between objects.
const SCRATCH_BYTES_MAX: usize = 64 * 1024;
/// How nearly all custom resources begin, since their keys are sorted.
const SORTED_START: &[u8] = b"{\"apiVersion\":\"";

static METADATA: LazyLock<TypeRef> = LazyLock::new(|| {
    let found = TypeRef::find("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    found.expect("every kind has metadata, and the kinds' own test makes sure that their types are in the table")
});

thread_local! {
    /// Where objects are written until their size is known.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub struct Object {
    bytes: Bytes,
    metadata_offset: u32,
    version_offset: u32,
    /// Keys are sorted, as those of custom resources.
    sorted: bool,
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub labels: Box<[(Text, Text)]>,
    /// Values of the kind's selectable fields, in the row's order.
    pub fields: Box<[Text]>,
    pub deleting: bool,
    pub marks: LabelMarks,
    /// How long its protobuf message is with its resource version, once somebody measured it; 0 before.
    protobuf_length: AtomicU32,
    /// The object as a tree, once somebody looked at it.
    tree: OnceLock<Box<Value>>,
}

impl Object {
    /// From a whole object; it is kept in canonical form. Its `resourceVersion` is left out.
    pub fn new(value: &Value, kind: &Kind) -> Object {
        let metadata = value.get("metadata");
        let (bytes, metadata_offset, version_offset) = SCRATCH.with_borrow_mut(|out| {
            out.clear();
            let (metadata_offset, version_offset) = match &kind.schema {
                Schema::Table(table) => write_object(value, table, out),
                Schema::Structural(_) => write_sorted(value, out),
            };
            let bytes = Bytes::copy_from_slice(out);
            out.shrink_to(SCRATCH_BYTES_MAX);
            (bytes, metadata_offset, version_offset)
        });
        let labels: Box<[(Text, Text)]> =
            metadata.map("labels").iter().map(|(key, value)| (key.clone(), text(value))).collect();
        Object {
            bytes,
            metadata_offset: metadata_offset as u32,
            version_offset: version_offset as u32,
            sorted: kind.schema.table().is_none(),
            namespace: text(metadata.get("namespace")),
            name: text(metadata.get("name")),
            uid: text(metadata.get("uid")),
            marks: LabelMarks::of(&labels),
            labels,
            fields: kind.selectable.values(value),
            deleting: metadata.has("deletionTimestamp"),
            protobuf_length: AtomicU32::new(0),
            tree: OnceLock::new(),
        }
    }

    /// From bytes that the store kept, in the form of today's schema. A custom resource that was stored in another
    /// version stays as it is: [`Object::has_api_version`] tells it, and [`crate::Served`] converts it.
    pub fn parse(bytes: &[u8], kind: &Kind) -> Result<Object, json::SyntaxError> {
        let mut value = json::parse(bytes)?;
        match &kind.schema {
            Schema::Structural(_) if !kind.has_api_version(value.str("apiVersion")) => kind.schema.complete(&mut value),
            schema => schema.modernize(&mut value),
        }
        Ok(Object::new(&value, kind))
    }

    /// Whether the object of a custom resource says that it is of this version.
    pub fn has_api_version(&self, api_version: &str) -> bool {
        match self.bytes.strip_prefix(SORTED_START) {
            Some(rest) => rest.strip_prefix(api_version.as_bytes()).is_some_and(|behind| behind.first() == Some(&b'"')),
            // A field is before it in the alphabet.
            None => json::parse(&self.bytes).is_ok_and(|value| value.str("apiVersion") == api_version),
        }
    }

    /// What is stored.
    pub fn stored(&self) -> Bytes {
        self.bytes.clone()
    }

    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// How long the object's protobuf message is, in the stored version and with the resource version that it was
    /// stored at. An object is stored once, so this never changes.
    pub fn protobuf_length(&self, measure: impl FnOnce() -> usize) -> usize {
        match self.protobuf_length.load(Ordering::Relaxed) {
            0 => {
                let length = measure();
                self.protobuf_length.store(u32::try_from(length).unwrap_or(0), Ordering::Relaxed);
                length
            }
            length => length as usize,
        }
    }

    /// Appends the whole object with its resource version; without one where the revision is 0 (a dry run).
    pub fn write(&self, revision: u64, out: &mut Vec<u8>) {
        self.write_from(0, revision, out);
    }

    /// Appends the object as an item of a list: without kind and apiVersion.
    pub fn write_item(&self, revision: u64, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_from(self.metadata_offset as usize, revision, out);
    }

    fn write_from(&self, start: usize, revision: u64, out: &mut Vec<u8>) {
        let splice = self.version_offset as usize;
        out.reserve(self.bytes.len() + 48);
        out.extend_from_slice(&self.bytes[start..splice]);
        if revision == 0 {
            out.extend_from_slice(&self.bytes[splice..]);
            return;
        }
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(itoa(revision, &mut [0; 20]));
        out.extend_from_slice(b"\",");
        out.extend_from_slice(&self.bytes[splice..]);
    }

    /// The object as a tree, with its resource version. Bytes that were parsed once parse again.
    pub fn value(&self, revision: u64) -> Value {
        self.versioned(json::parse(&self.bytes).unwrap_or_default(), revision)
    }

    /// The same for a write, which hardly ever looks into what owners have: that stays text, see [`json::parse_stored`].
    pub fn value_to_change(&self, revision: u64) -> Value {
        self.versioned(json::parse_stored(&self.bytes).unwrap_or_default(), revision)
    }

    /// A tree of nothing but what stands at these paths, and the resource version.
    pub fn parts(&self, paths: &[&[Text]], revision: u64) -> Value {
        self.versioned(json::parse_parts(&self.bytes, paths).unwrap_or_default(), revision)
    }

    fn versioned(&self, mut value: Value, revision: u64) -> Value {
        if revision > 0 {
            place_version(&mut value, revision, self.sorted);
        }
        value
    }

    /// The object as a tree that is kept from the first time on, without its resource version: for the few objects
    /// that many requests look at.
    pub fn tree(&self) -> &Value {
        self.tree.get_or_init(|| Box::new(json::parse(&self.bytes).unwrap_or_default()))
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|label| label.0 == key).map(|label| label.1.as_str())
    }
}

/// Writes the object as it is kept, in canonical form; returns where its metadata and its resource version belong.
fn write_object(value: &Value, schema: &'static Type, out: &mut Vec<u8>) -> (usize, usize) {
    out.extend_from_slice(b"{\"kind\":");
    json::write_string(value.str("kind"), out);
    out.extend_from_slice(b",\"apiVersion\":");
    json::write_string(value.str("apiVersion"), out);
    out.push(b',');
    let metadata_offset = out.len();
    out.extend_from_slice(b"\"metadata\":");
    let version_offset = write_metadata(value.get("metadata").as_map(), out);
    let rest = schema.position("metadata").map_or(0, |position| position + 1);
    decode::write_fields(value.as_map(), schema, rest..schema.json_len(), out);
    out.push(b'}');
    (metadata_offset, version_offset)
}

/// The same for a custom resource, whose keys are sorted. Its items in lists are whole objects.
fn write_sorted(value: &Value, out: &mut Vec<u8>) -> (usize, usize) {
    let mut version_offset = 0;
    out.push(b'{');
    for (index, (key, item)) in in_order(value.as_map()).enumerate() {
        write_key(index, key, out);
        if key == "metadata" {
            version_offset = write_sorted_metadata(item.as_map(), out);
        } else {
            write_sorted_value(item, out);
        }
    }
    out.push(b'}');
    (1, version_offset)
}

fn write_sorted_metadata(metadata: &Map, out: &mut Vec<u8>) -> usize {
    let kept = |entry: &(&Text, &Value)| entry.0 != "resourceVersion";
    let before = in_order(metadata).filter(kept).filter(|(key, _)| key.as_str() < "resourceVersion");
    let behind = in_order(metadata).filter(kept).filter(|(key, _)| key.as_str() > "resourceVersion");
    out.push(b'{');
    if write_entries(before, out) > 0 {
        out.push(b',');
    }
    let splice = out.len();
    if write_entries(behind, out) == 0 {
        // Every stored object has a uid; if it should not, an empty one keeps the JSON right.
        out.extend_from_slice(b"\"uid\":\"\"");
    }
    out.push(b'}');
    splice
}

fn write_sorted_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            out.push(b'{');
            write_entries(in_order(map), out);
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_sorted_value(item, out);
            }
            out.push(b']');
        }
        other => json::write(other, out),
    }
}

/// Writes these entries and says how many they were.
fn write_entries<'a>(entries: impl Iterator<Item = (&'a Text, &'a Value)>, out: &mut Vec<u8>) -> usize {
    let mut count = 0;
    for (key, item) in entries {
        write_key(count, key, out);
        write_sorted_value(item, out);
        count += 1;
    }
    count
}

/// The entries in the order of their keys. Most are in it already: what the server sets in metadata is not.
fn in_order(map: &Map) -> impl Iterator<Item = (&Text, &Value)> {
    let sorted = map.keys().is_sorted();
    let mut moved: Vec<(&Text, &Value)> = if sorted { Vec::new() } else { map.iter().collect() };
    moved.sort_by_key(|entry| entry.0);
    map.iter().filter(move |_| sorted).chain(moved)
}

fn write_key(index: usize, key: &str, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
    json::write_string(key, out);
    out.push(b':');
}

/// Sets `metadata.resourceVersion` at its place in the order of fields.
fn place_version(value: &mut Value, revision: u64, sorted: bool) {
    let metadata = value.object_mut("metadata");
    let Value::Object(map) = std::mem::take(metadata) else { return };
    let mut entries = map.into_entries();
    entries.retain(|entry| entry.0 != "resourceVersion");
    let comes_before = |key: &str| if sorted { key < "resourceVersion" } else { comes_before_version(key) };
    let place = entries.iter().take_while(|entry| comes_before(&entry.0)).count();
    entries.insert(place, (Text::new_static("resourceVersion"), revision.to_string().into()));
    *metadata = Value::Object(Map::in_order(entries));
}

fn comes_before_version(key: &str) -> bool {
    matches!(key, "name" | "generateName" | "namespace" | "selfLink" | "uid")
}

/// Writes the metadata; returns where the resource version belongs. There is always a field behind it, since every
/// stored object has a creation time; if it should not, an empty one keeps the JSON right.
fn write_metadata(metadata: &Map, out: &mut Vec<u8>) -> usize {
    let schema: &'static Type = &METADATA;
    let version = schema.position("resourceVersion").unwrap_or_default();
    out.push(b'{');
    if decode::write_fields(metadata, schema, 0..version, out) > 0 {
        out.push(b',');
    }
    let splice = out.len();
    if decode::write_fields(metadata, schema, version + 1..schema.json_len(), out) == 0 {
        out.extend_from_slice(b"\"creationTimestamp\":null");
    }
    out.push(b'}');
    splice
}

fn text(value: &Value) -> Text {
    match value {
        Value::String(text) => text.clone(),
        _ => Text::default(),
    }
}

/// The number's decimal digits.
fn itoa(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = buffer.len();
    loop {
        start -= 1;
        buffer[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[start..];
        }
    }
}
