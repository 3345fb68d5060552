//! Where informers get objects from. One trait, two ways: a watch over the network ([`crate::network`]), or, in the
//! server's own process, the objects that the server has anyway. A reconciler cannot tell which.
//!
//! What holds for every source: a stream begins with [`Event::Listed`] and does not end by itself but when the resource
//! is served no more. Whatever is interrupted or missed is made good by another `Listed`; no change is lost.

use std::borrow::Cow;
use std::hash::BuildHasher as _;

use bytes::Bytes;
use foldhash::quality::FixedState;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube::core::ApiResource;
use rkube_machinery::Text;
use rkube_machinery::json::Scan;
use serde::de::DeserializeOwned;

/// An object as a source has it: its JSON, and what everybody asks for.
#[derive(Clone, Debug)]
pub struct Item {
    /// Empty for cluster-scoped kinds.
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    /// At which the object was written, or went.
    pub revision: u64,
    /// The whole object; its `resourceVersion` may be missing.
    pub json: Bytes,
}

impl Item {
    /// By way of text, as clients read answers: code that reads a type is large, and one way needs it once.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(str::from_utf8(&self.json).map_err(serde::de::Error::custom)?)
    }

    /// The text without `managedFields`: for views, which hardly ever look at them. They are half of it, and what passes
    /// unread values byte by byte spends most of its time in them. Empty where it is no UTF-8, and nobody can read it.
    pub fn lean_json(&self) -> Cow<'_, str> {
        match without_managed_fields(&self.json) {
            Some(lean) => Cow::Owned(String::from_utf8(lean).unwrap_or_default()),
            None => Cow::Borrowed(str::from_utf8(&self.json).unwrap_or_default()),
        }
    }
}

/// None: it has none, or something is unusual about it.
fn without_managed_fields(object: &[u8]) -> Option<Vec<u8>> {
    let mut scan = Scan::new(object);
    scan.open(b'{')?;
    while scan.field()?? != b"metadata" {
        scan.skip()?;
    }
    scan.open(b'{')?;
    loop {
        let before = &object[..object.len() - scan.rest().len()];
        if scan.field()?? == b"managedFields" {
            scan.skip()?;
            // Without the comma that is before them: there is none before the first field.
            return (!before.ends_with(b"{")).then(|| [before, scan.rest()].concat());
        }
        scan.skip()?;
    }
}

/// Uids are only compared for one name: eight bytes tell them apart.
pub(crate) fn uid_hash(uid: &str) -> u64 {
    FixedState::default().hash_one(uid)
}

#[derive(Clone, Debug)]
pub enum Event {
    /// All objects that there are: the others are gone.
    Listed(Vec<Item>),
    /// The object is there, and is like this.
    Applied(Item),
    /// The object is gone, or none of those that are selected any more; this is what it is, or was.
    Deleted(Item),
    /// All changes up to this revision were told. Nobody has to send it: it helps those who wait for a write of their
    /// own that no other event shows.
    Progress(u64),
}

/// Which objects of a resource to follow, and of what form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selection {
    /// Only those of this name.
    pub name: Option<&'static str>,
    /// Only those of this namespace.
    pub namespace: Option<Text>,
    /// Only those that this label selector selects, in its usual text form.
    pub labels: Option<Text>,
    /// Only those that this field selector selects.
    pub fields: Option<Text>,
    /// Nothing but metadata is looked at: the rest may be missing, or be of another version than was asked for.
    pub metadata_only: bool,
}

/// A resource in one version, as discovery shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    pub resource: ApiResource,
    pub namespaced: bool,
    pub verbs: Vec<Text>,
    /// Whether this is the version that discovery prefers, of those that have the resource.
    pub preferred: bool,
}

impl Discovered {
    pub fn supports(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|has| has == verb))
    }
}

impl Selection {
    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.name.is_none() && self.namespace.is_none() && self.labels.is_none() && self.fields.is_none()
    }
}

pub trait Source: Send + Sync + 'static {
    /// Follows a resource.
    fn follow(&self, resource: &ApiResource, selection: &Selection) -> BoxStream<'static, Event>;

    /// The revision of the last change of a resource: a cache that has seen it has everything that is there at this
    /// moment. None: this source cannot tell.
    fn last_change(&self, _resource: &ApiResource) -> Option<u64> {
        None
    }

    /// All that is served, now and whenever that changes, if not at once.
    fn discover(&self) -> BoxStream<'static, Vec<Discovered>>;

    /// All that is served at this moment. An error says what could not be found out.
    fn resources(&self) -> BoxFuture<'static, Result<Vec<Discovered>, String>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lean_text_has_all_but_managed_fields() {
        let managed = r#""managedFields":[{"manager":"]},\"","fieldsV1":{"f:spec":{"f:a":{}}}}]"#;
        let table = [
            (format!(r#"{{"kind":"A","metadata":{{"name":"a",{managed}}},"spec":{{}}}}"#), true),
            (format!(r#"{{"metadata":{{"labels":{{"managedFields":"x"}},{managed},"name":"a"}}}}"#), true),
            (format!(r#"{{ "metadata" : {{ "name":"a" , {managed} }} , "spec" : {{}} }}"#), true),
            (format!(r#"{{"metadata":{{{managed},"name":"a"}}}}"#), false),
            (format!(r#"{{"metadata":{{"name":"a"}},"spec":{{{managed}}}}}"#), false),
            (r#"{"metadata":null}"#.to_owned(), false),
            (r#"{"metadata":{"name":"a","managedFields":[{"#.to_owned(), false),
            (String::new(), false),
        ];
        for (json, is_leaner) in table {
            let item =
                Item { namespace: "n".into(), name: "a".into(), uid: "u".into(), revision: 7, json: json.into() };
            let lean = item.lean_json();
            assert_eq!(lean.as_bytes() != &*item.json, is_leaner, "{:?}", item.json);
            if is_leaner {
                let mut expected: serde_json::Value = item.parse().unwrap();
                expected["metadata"].as_object_mut().unwrap().remove("managedFields");
                assert_eq!(serde_json::from_str::<serde_json::Value>(&lean).unwrap(), expected);
            }
        }
    }
}
