//! What caches keep of pods and nodes.

use std::sync::OnceLock;

use bytes::Bytes;
use rkube_machinery::json::Scan;
use rkube_machinery::{Text, Value, json, object};
use rkube_operator::{Index, Item, Key};

/// A pod that is bound. The object itself is the source's own bytes: in the server's process they are shared.
pub struct PodView {
    pub uid: Text,
    pub node: Text,
    pub revision: u64,
    pub json: Bytes,
    /// What it uses where its node is simulated, once somebody asked.
    pub metrics: OnceLock<Option<Box<Value>>>,
}

/// None for pods without a node.
pub fn pod(item: &Item) -> Option<PodView> {
    let node = node_name(&item.json).filter(|node| !node.is_empty())?;
    Some(PodView {
        uid: item.uid.clone(),
        node: node.into(),
        revision: item.revision,
        json: item.json.clone(),
        metrics: OnceLock::new(),
    })
}

/// `spec.nodeName`. A server wrote the text, and no name of a node has anything to be escaped.
fn node_name(pod: &[u8]) -> Option<&str> {
    let mut scan = Scan::new(pod);
    for wanted in ["spec", "nodeName"] {
        scan.open(b'{')?;
        while scan.field()?? != wanted.as_bytes() {
            scan.skip()?;
        }
    }
    std::str::from_utf8(scan.text()?).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_a_pod_is_found() {
        let cases = [
            (
                r#"{"kind":"Pod","metadata":{"name":"spec","nodeName":"x"},"spec":{"a":[{}],"nodeName":"n-1"}}"#,
                Some("n-1"),
            ),
            (r#"{"spec":{"nodeName":""},"status":{"nodeName":"x"}}"#, Some("")),
            (r#"{"spec":{"hostname":"h"},"status":{"nodeName":"x"}}"#, None),
            (r#"{"metadata":{}}"#, None),
            (r#"{"spec":null}"#, None),
            (r#"{"spec":{"nodeName":7}}"#, None),
            (r#"{"spec":{"nodeName":"n"#, None),
            ("", None),
        ];
        for (text, node) in cases {
            assert_eq!(node_name(text.as_bytes()), node, "{text}");
        }
    }
}
