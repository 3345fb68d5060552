//! What caches keep of pods and nodes.

use std::sync::OnceLock;

use bytes::Bytes;
use rkube_machinery::{Text, Value, json, object};
use rkube_operator::{Index, Item, Key};
use serde::Deserialize;

/// A pod that is bound. The object itself is the source's own bytes: in the server's process they are shared.
pub struct PodView {
    pub uid: Text,
    pub node: Text,
    pub revision: u64,
    pub json: Bytes,
    /// What it uses where its node is simulated, once somebody asked.
    pub metrics: OnceLock<Option<Box<Value>>>,
}

#[derive(Deserialize)]
struct Bound<'a> {
    #[serde(borrow)]
    spec: BoundSpec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BoundSpec<'a> {
    #[serde(borrow, default)]
    node_name: Option<&'a str>,
}

/// None for pods without a node.
pub fn pod(item: &Item) -> Option<PodView> {
    let bound: Bound<'_> = serde_json::from_slice(&item.json).ok()?;
    let node = bound.spec.node_name.filter(|node| !node.is_empty())?;
    Some(PodView {
        uid: item.uid.clone(),
        node: node.into(),
        revision: item.revision,
        json: item.json.clone(),
        metrics: OnceLock::new(),
    })
}

pub struct ByNode;

impl Index<PodView> for ByNode {
    type Key = Text;

    fn keys(_: &Key, pod: &PodView) -> impl IntoIterator<Item = Text> {
        [pod.node.clone()]
    }
}

/// What of a Node matters to its kubelet.
pub struct NodeView {
    pub uid: Text,
    pub revision: u64,
    /// The Node with no more than that: labels, annotations, spec, and of the status what admission looks at.
    pub object: Value,
}

pub fn node(item: &Item) -> Option<NodeView> {
    let whole = json::parse(&item.json).ok()?;
    let (metadata, status) = (whole.get("metadata"), whole.get("status"));
    let object = object! {
        "metadata": object! {
            "name": metadata.str("name"),
            "labels": metadata.get("labels").clone(),
            "annotations": metadata.get("annotations").clone(),
        },
        "spec": whole.get("spec").clone(),
        "status": object! {
            "allocatable": status.get("allocatable").clone(),
            "conditions": status.get("conditions").clone(),
            "features": status.get("features").clone(),
        },
    };
    Some(NodeView { uid: item.uid.clone(), revision: item.revision, object })
}
