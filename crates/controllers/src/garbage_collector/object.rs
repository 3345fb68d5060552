//! What garbage collection looks at in an object.

use std::fmt;

use rkube_machinery::Text;
use rkube_machinery::json::Scan;
use rkube_operator::Item;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

/// Which object: what references to it say, and its namespace, which they leave out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Coordinates {
    // In the order in which upstream sorts them.
    pub kind: Text,
    pub api_version: Text,
    /// Empty for cluster-scoped kinds, and where it is not known.
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
}

impl fmt::Display for Coordinates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Coordinates { kind, api_version, namespace, name, uid } = self;
        write!(out, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub api_version: Text,
    pub kind: Text,
    pub name: Text,
    pub uid: Text,
    /// The owner is not to go before the object, where it is deleted in the foreground.
    pub blocks: bool,
}

impl Owner {
    /// What it refers to, from an object in this namespace.
    pub fn seen_from(&self, namespace: &Text) -> Coordinates {
        Coordinates {
            kind: self.kind.clone(),
            api_version: self.api_version.clone(),
            namespace: namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Whether it refers to this, the namespace left aside.
    pub fn refers_to(&self, other: &Coordinates) -> bool {
        self.uid == other.uid
            && self.name == other.name
            && self.kind == other.kind
            && self.api_version == other.api_version
    }
}

/// An object as it was seen, by a watch or a get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub coordinates: Coordinates,
    pub owners: Vec<Owner>,
    pub terminating: bool,
    pub has_orphan_finalizer: bool,
    pub has_foreground_finalizer: bool,
    /// None: not from a watch.
    pub revision: Option<u64>,
}

impl Seen {
    /// It goes, and its dependents are to be orphaned before.
    pub fn is_orphaning(&self) -> bool {
        self.terminating && self.has_orphan_finalizer
    }

    /// It goes, and waits for its dependents to go before.
    pub fn is_waiting(&self) -> bool {
        self.terminating && self.has_foreground_finalizer
    }
}

/// An object's metadata, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Partial {
    #[serde(default)]
    pub metadata: Metadata,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct PartialList {
    #[serde(default)]
    pub items: Vec<Partial>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub namespace: Option<String>,
    pub uid: String,
    pub resource_version: String,
    pub deletion_timestamp: Option<String>,
    pub finalizers: Option<Vec<String>>,
    pub owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl Metadata {
    /// Of an object as a source has it. What is not looked at is passed unread.
    pub fn of(item: &Item) -> serde_json::Result<Metadata> {
        match Metadata::scan(item) {
            Some(metadata) => metadata,
            None => Ok(item.parse::<Partial>()?.metadata),
        }
    }

    /// None: something is unusual about it.
    fn scan(item: &Item) -> Option<serde_json::Result<Metadata>> {
        let mut scan = Scan::new(&item.json);
        scan.open(b'{')?;
        while scan.field()?? != b"metadata" {
            scan.skip()?;
        }
        let mut metadata = Metadata {
            name: item.name.to_string(),
            namespace: Some(item.namespace.to_string()),
            uid: item.uid.to_string(),
            ..Metadata::default()
        };
        scan.open(b'{')?;
        let mut has_uid = false;
        while let Some(field) = scan.field()? {
            if field == b"managedFields" && has_uid {
                // Long, and the last where fields are not in the order of their names.
                break;
            }
            has_uid |= field == b"uid";
            let value = scan.value()?;
            let read = match field {
                b"deletionTimestamp" => read(value, &mut metadata.deletion_timestamp),
                b"finalizers" => read(value, &mut metadata.finalizers),
                b"ownerReferences" => read(value, &mut metadata.owner_references),
                _ => Ok(()),
            };
            if let Err(error) = read {
                return Some(Err(error));
            }
        }
        Some(Ok(metadata))
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().flatten().any(|finalizer| finalizer == name)
    }

    pub fn owners(&self) -> &[OwnerReference] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// As an object of this kind.
    pub fn seen(&self, api_version: &str, kind: &str) -> Seen {
        let owners = self.owners().iter().map(|owner| Owner {
            api_version: owner.api_version.as_str().into(),
            kind: owner.kind.as_str().into(),
            name: owner.name.as_str().into(),
            uid: owner.uid.as_str().into(),
            blocks: owner.block_owner_deletion == Some(true),
        });
        Seen {
            coordinates: Coordinates {
                kind: kind.into(),
                api_version: api_version.into(),
                namespace: self.namespace.as_deref().unwrap_or_default().into(),
                name: self.name.as_str().into(),
                uid: self.uid.as_str().into(),
            },
            owners: owners.collect(),
            terminating: self.deletion_timestamp.is_some(),
            has_orphan_finalizer: self.has_finalizer(ORPHAN),
            has_foreground_finalizer: self.has_finalizer(FOREGROUND),
            revision: None,
        }
    }
}

fn read<T: DeserializeOwned>(value: &[u8], into: &mut T) -> serde_json::Result<()> {
    *into = serde_json::from_slice(value)?;
    Ok(())
}

/// Whether an object with this JSON can matter before anybody refers to it: it names owners, or its deletion waits for
/// what is done here. Nearly all objects do not, and are not read.
pub fn may_matter(json: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(json) else { return true };
    text.contains("\"ownerReferences\"")
        || text.contains("\"deletionTimestamp\"")
            && (text.contains("\"orphan\"") || text.contains("\"foregroundDeletion\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_with_owners_or_our_finalizers_are_read() {
        let table = [
            (r#"{"metadata":{"name":"a"}}"#, false),
            (r#"{"metadata":{"finalizers":["orphan"]}}"#, false),
            (r#"{"metadata":{"deletionTimestamp":"x","finalizers":["a/b"]}}"#, false),
            (r#"{"metadata":{"deletionTimestamp":"x","finalizers":["orphan"]}}"#, true),
            (r#"{"metadata":{"deletionTimestamp":"x","finalizers":["foregroundDeletion"]}}"#, true),
            (r#"{"metadata":{"ownerReferences":[]}}"#, true),
            (r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:ownerReferences":{}}}]}}"#, false),
        ];
        for (json, matters) in table {
            assert_eq!(may_matter(json.as_bytes()), matters, "{json}");
        }
    }

    #[test]
    fn metadata_of_an_item_are_those_of_its_text() {
        let owners = r#""ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"o","uid":"p","controller":true}]"#;
        let table = [
            format!(r#"{{"kind":"Pod","metadata":{{"name":"a","namespace":"n","uid":"u",{owners}}},"spec":{{}}}}"#),
            format!(
                r#"{{"metadata":{{"managedFields":[{{"f:metadata":{{}}}}],"name":"a","namespace":"n",{owners},"uid":"u"}}}}"#
            ),
            r#"{"metadata":{"name":"a","namespace":"n","uid":"u","deletionTimestamp":"t","finalizers":["orphan"]}}"#
                .to_owned(),
            r#"{"metadata":{"name":"a","namespace":"n","uid":"u","finalizers":null}}"#.to_owned(),
        ];
        for json in table {
            let expected = serde_json::from_str::<Partial>(&json).unwrap().metadata;
            let item =
                Item { namespace: "n".into(), name: "a".into(), uid: "u".into(), revision: 7, json: json.into() };
            let metadata = Metadata::scan(&item).unwrap().unwrap();
            assert_eq!(metadata.seen("v1", "Pod"), expected.seen("v1", "Pod"));
        }
    }

    #[test]
    fn metadata_is_seen() {
        let json = r#"{"kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z",
            "finalizers":["foregroundDeletion"],"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"o","uid":"p",
            "blockOwnerDeletion":true}]},"spec":{"containers":[]}}"#;
        let partial: Partial = serde_json::from_str(json).unwrap();
        let seen = partial.metadata.seen("v1", "Pod");
        assert_eq!(seen.coordinates.to_string(), "[v1/Pod, namespace: n, name: a, uid: u]");
        assert!(seen.is_waiting() && !seen.is_orphaning() && seen.owners[0].blocks);
        assert!(seen.owners[0].refers_to(&seen.owners[0].seen_from(&"elsewhere".into())));
    }
}
