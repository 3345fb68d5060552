//! What the API answers to lists and watches, read no further than has to be: an object stays the text that it came as.

use bytes::Bytes;
use rkube_machinery::Text;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::source::Item;

/// Marks the bookmark after the last of the objects that were there when a watch began.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A line of a watch.
pub(super) enum Change {
    /// With its resource version as it is.
    Applied(Item, Text),
    Deleted(Item, Text),
    Bookmark {
        version: Text,
        /// All that was there has been sent.
        initial_events_end: bool,
    },
    Error {
        code: u16,
        message: String,
    },
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Partial {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize)]
struct Marked {
    metadata: MarkedMetadata,
}

#[derive(Deserialize)]
struct MarkedMetadata {
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl Change {
    pub fn read(line: Vec<u8>) -> serde_json::Result<Change> {
        let line = Bytes::from(line);
        let Line { kind, object } = serde_json::from_slice(&line)?;
        if kind == "ERROR" {
            let Status { code, message } = serde_json::from_str(object.get())?;
            return Ok(Change::Error { code, message });
        }
        let json = line.slice_ref(object.get().as_bytes());
        if kind == "BOOKMARK" {
            let marked: Marked = serde_json::from_slice(&json)?;
            let initial_events_end = marked.metadata.annotations.contains_key(INITIAL_EVENTS_END);
            return Ok(Change::Bookmark { version: item(json)?.1, initial_events_end });
        }
        let (item, version) = item(json)?;
        Ok(if kind == "DELETED" { Change::Deleted(item, version) } else { Change::Applied(item, version) })
    }
}

/// An object, and its resource version as it is.
fn item(json: Bytes) -> serde_json::Result<(Item, Text)> {
    let Partial { metadata } = serde_json::from_slice(&json)?;
    let Metadata { name, namespace, uid, resource_version } = metadata;
    // Others than Kubernetes may have versions that are no numbers: then nobody can wait for one.
    let revision = resource_version.parse().unwrap_or(0);
    let item = Item { namespace: namespace.into(), name: name.into(), uid: uid.into(), revision, json };
    Ok((item, resource_version.into()))
}

/// A page of a list.
pub(super) struct Page {
    pub items: Vec<Item>,
    pub version: Text,
    /// Where the next page begins; empty at the last.
    pub rest: String,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    rest: String,
}

impl Page {
    pub fn read(text: String) -> serde_json::Result<Page> {
        let text = Bytes::from(text);
        let RawPage { metadata, items } = serde_json::from_slice(&text)?;
        let items = items.into_iter().map(|object| Ok(item(text.slice_ref(object.get().as_bytes()))?.0));
        let items = items.collect::<serde_json::Result<_>>()?;
        Ok(Page { items, version: metadata.resource_version.into(), rest: metadata.rest })
    }
}
