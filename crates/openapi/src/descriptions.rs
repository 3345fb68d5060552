//! What the types and fields mean, in words. The words come from `k8s-openapi`; where it has none, from short texts
//! of our own. Gathered when a document is made and dropped with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::schemars::generate::SchemaSettings;

use crate::enums::Enums;
use crate::roots::ROOTS;

/// What the documentation says of a field of a type, without the list of its values. Kept, since tables ask for the
/// same few again and again.
pub fn field_description(type_name: &str, field: &str) -> String {
    static KEPT: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let place = format!("{type_name} {field}");
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = kept.get(&place) {
        return text.clone();
    }
    let package = type_name.rsplit_once('.').map_or("", |(package, _)| package);
    // Types are found through the roots of their own package; metadata is part of every root.
    let everywhere = package.ends_with(".meta.v1");
    let descriptions =
        Descriptions::gather(
            |root| if everywhere { root.ends_with(".v1.Namespace") } else { root.starts_with(package) },
        );
    let text = descriptions.of_field(type_name, field).unwrap_or_default();
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

impl Descriptions {
    /// Descriptions of everything reachable from the types of these names.
    pub(crate) fn gather(wanted: impl Fn(&str) -> bool) -> Descriptions {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        for root in ROOTS.iter().filter(|root| wanted(&(root.name)())) {
            (root.add)(&mut generator);
        }
        let mut types = HashMap::new();
        for (name, schema) in generator.take_definitions(false) {
            let mut fields = HashMap::new();
            for (field, property) in schema.get("properties").and_then(|value| value.as_object()).into_iter().flatten()
            {
                if let Some(text) = property.get("description").and_then(|text| text.as_str()) {
                    fields.insert(field.clone(), text.to_owned());
                }
            }
            let text = schema.get("description").and_then(|text| text.as_str()).map(str::to_owned);
            types.insert(name, Described { text, fields });
        }
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
