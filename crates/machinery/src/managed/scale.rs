//! The owners of an object's number of replicas, as its scale shows them and as a write of the scale leaves them.
//!
//! A scale has entries in its own version, for one field. Who writes a scale takes that field from its owners; the
//! other entries of the object stay.

use super::element::PathElement;
use super::entries::{self, Entry, EntryError};
use super::set::FieldSet;
use crate::value::{Text, Value};

const SCALE_VERSION: &str = "autoscaling/v1";
const SCALE_REPLICAS: &[&str] = &["spec", "replicas"];

/// Where the objects of a version have their number of replicas.
#[derive(Clone, Copy, Debug)]
pub struct Replicas<'a> {
    pub api_version: &'a str,
    pub path: &'a [Text],
}

impl Replicas<'_> {
    /// Gives the scale the owners that the object's replicas have.
    pub fn to_scale(&self, object: &Value, scale: &mut Value) -> Result<(), EntryError> {
        let path = elements(self.path);
        let owners = entries::of(object)?.into_iter();
        let owners = owners.filter(|entry| entry.api_version == self.api_version && entry.fields.contains(&path));
        let owners = owners.map(|entry| Entry {
            api_version: Text::new_static(SCALE_VERSION),
            fields: FieldSet::of_fields(&[SCALE_REPLICAS]),
            written: None,
            ..entry
        });
        entries::put(scale, owners.collect());
        Ok(())
    }

    /// Gives the object's replicas the owners that the scale has now. A new owner gets no time. Entries of versions
    /// without replicas are dropped.
    pub fn to_object(&self, scale: &Value, object: &mut Value) -> Result<(), EntryError> {
        let path = elements(self.path);
        let mut fields = FieldSet::new();
        fields.insert(&path);
        let known = entries::of(object)?;
        let mut wanted = entries::read(scale.get("metadata").get("managedFields"), false)?;
        let mut result: Vec<Entry> = Vec::with_capacity(known.len() + 1);
        for mut entry in known.iter().filter(|entry| entry.api_version == self.api_version).cloned() {
            if entry.fields.contains(&path) {
                match wanted.iter().position(|other| other.is_same(&entry)) {
                    Some(index) => drop(wanted.remove(index)),
                    None => entry.subtract(&fields),
                }
            }
            if !entry.fields.is_empty() {
                result.push(entry);
            }
        }
        wanted.retain(|entry| entry.fields.contains(&elements(SCALE_REPLICAS)));
        for entry in wanted {
            let time = known.iter().find(|other| other.is_same(&entry)).and_then(|other| other.time.clone());
            result.retain(|other| !other.is_same(&entry));
            let api_version = Text::new(self.api_version);
            result.push(Entry { api_version, fields: fields.clone(), time, written: None, ..entry });
        }
        entries::put(object, result);
        Ok(())
    }
}

fn elements(path: &[impl AsRef<str>]) -> Vec<PathElement> {
    path.iter().map(|name| PathElement::Field(Text::new(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json, object};

    const REPLICAS: Replicas<'static> =
        Replicas { api_version: "apps/v1", path: &[Text::new_static("spec"), Text::new_static("replicas")] };

    fn with_owners(list: &str) -> Value {
        let list = json::parse(list.as_bytes()).unwrap();
        object! { "metadata": object! { "managedFields": list } }
    }

    fn owners(object: &Value) -> String {
        json::to_string(object.get("metadata").get("managedFields"))
    }

    const TWO: &str = r#"[
        {"manager":"a","operation":"Update","apiVersion":"apps/v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1",
         "fieldsV1":{"f:spec":{"f:paused":{},"f:replicas":{}}}},
        {"manager":"b","operation":"Update","apiVersion":"apps/v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1",
         "fieldsV1":{"f:spec":{"f:selector":{}}}}]"#;

    #[test]
    fn a_scale_has_the_owners_of_replicas() {
        let mut scale = Value::object();
        REPLICAS.to_scale(&with_owners(TWO), &mut scale).unwrap();
        let want = r#"[{"manager":"a","operation":"Update","apiVersion":"autoscaling/v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#;
        assert_eq!(owners(&scale), want);
    }

    #[test]
    fn who_writes_a_scale_takes_the_replicas() {
        let scale = with_owners(
            r#"[{"manager":"c","operation":"Update","apiVersion":"autoscaling/v1","time":"2021-01-01T00:00:00Z","fieldsType":"FieldsV1",
                 "fieldsV1":{"f:spec":{"f:replicas":{}}},"subresource":"scale"}]"#,
        );
        let mut object = with_owners(TWO);
        REPLICAS.to_object(&scale, &mut object).unwrap();
        let left = object.get("metadata").list("managedFields");
        assert_eq!(left.len(), 3);
        assert_eq!(left[0].str("manager"), "c");
        assert_eq!((left[0].str("apiVersion"), left[0].has("time")), ("apps/v1", false));
        assert_eq!(json::to_string(left[1].get("fieldsV1")), r#"{"f:spec":{"f:paused":{}}}"#);
        assert_eq!(json::to_string(left[2].get("fieldsV1")), r#"{"f:spec":{"f:selector":{}}}"#);
    }

    #[test]
    fn appliers_that_keep_the_replicas_keep_their_entry() {
        let apply = |version: &str| {
            with_owners(&format!(
                r#"[{{"manager":"x","operation":"Apply","apiVersion":"{version}","time":"2021-01-01T00:00:00Z","fieldsType":"FieldsV1",
                     "fieldsV1":{{"f:spec":{{"f:replicas":{{}}}}}}}}]"#
            ))
        };
        let mut object = apply("apps/v1");
        let before = owners(&object);
        REPLICAS.to_object(&apply("autoscaling/v1"), &mut object).unwrap();
        assert_eq!(owners(&object), before);
    }
}
