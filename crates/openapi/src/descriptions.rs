//! What the types and fields mean, in words. The words come from `k8s-openapi`, by a table that the build makes; where it
//! has none, from short texts of our own. Read when a document is made and dropped with it.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::sync::{Mutex, PoisonError};

use flate2::read::DeflateDecoder;

use crate::enums::Enums;

/// `build.rs` says what is in it.
const TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.deflate"));
const TYPE_END: char = '\u{1e}';
const PART_END: char = '\u{1f}';

/// What the documentation says of a field of a type, without the list of its values. Kept, since tables ask for the
/// same few again and again.
pub fn field_description(type_name: &str, field: &str) -> String {
    static KEPT: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let place = format!("{type_name} {field}");
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = kept.get(&place) {
        return text.clone();
    }
    let text = Descriptions::read().of_field(type_name, field).unwrap_or_default();
    let text = text.split("\n\nPossible enum values:").next().unwrap_or_default().to_owned();
    kept.insert(place, text.clone());
    text
}

pub(crate) struct Descriptions {
    pub(crate) enums: Enums,
    types: HashMap<String, Described>,
}

struct Described {
    text: Option<String>,
    fields: HashMap<String, String>,
}

impl Described {
    /// With the type's name.
    fn read(row: &str) -> (String, Described) {
        let mut parts = row.split(PART_END);
        let mut part = || parts.next().map(str::to_owned);
        let (name, text) = (part().unwrap_or_default(), part().filter(|text| !text.is_empty()));
        let fields = std::iter::from_fn(|| Some((part()?, part()?))).filter(|(_, text)| !text.is_empty());
        let fields = fields.collect();
        (name, Described { text, fields })
    }
}

impl Descriptions {
    pub(crate) fn read() -> Descriptions {
        let mut table = String::new();
        DeflateDecoder::new(TABLE).read_to_string(&mut table).expect("the build deflated it, from text");
        let types = table.split_terminator(TYPE_END).map(Described::read).collect();
        Descriptions { enums: Enums::read(), types }
    }

    pub(crate) fn of_type(&self, name: &str) -> Option<String> {
        match self.types.get(name) {
            Some(described) => described.text.clone(),
            None => our_type(name),
        }
    }

    pub(crate) fn of_field(&self, type_name: &str, field: &str) -> Option<String> {
        match self.types.get(type_name) {
            Some(described) => described.fields.get(field).cloned(),
            // A list says of itself what its items say of themselves.
            None if matches!(field, "apiVersion" | "kind") => {
                let item = self.types.get(type_name.trim_end_matches("List"));
                item.and_then(|described| described.fields.get(field).cloned()).or_else(|| our_field(type_name, field))
            }
            None => our_field(type_name, field),
        }
    }
}

/// A sentence for a type that is not in `k8s-openapi`.
fn our_type(name: &str) -> Option<String> {
    let short = name.rsplit('.').next().unwrap_or(name);
    match short.strip_suffix("List") {
        Some(item) if !item.is_empty() => Some(format!("{short} is a list of {item} objects.")),
        _ if short == "WatchEvent" => Some("WatchEvent is one event of a watch.".to_owned()),
        _ => Some(format!("{short} is a type of the Kubernetes API.")),
    }
}

fn our_field(type_name: &str, field: &str) -> Option<String> {
    let text = match field {
        "apiVersion" => "The group and version in which the object is written.",
        "kind" => "The kind of the object.",
        "metadata" if type_name.ends_with("List") => "The list's metadata: its resource version, how to continue it.",
        "metadata" => "The object's metadata.",
        "items" => "The objects in the list.",
        "object" if type_name.ends_with("WatchEvent") => {
            "The object as it is after the event; what was deleted as it was before; a Status for an ERROR."
        }
        _ => return None,
    };
    Some(text.to_owned())
}
