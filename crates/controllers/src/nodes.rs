//! The view of nodes that controllers share who place, count or publish what runs on them.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use rkube_machinery::Text;
use rkube_machinery::names::address::Subnet;
use rkube_machinery::quantity::Quantity;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::Deserialize;

use crate::metadata::{Labels, Pairs};

const ZONE: &str = "topology.kubernetes.io/zone";
pub const TTL: &str = "node.alpha.kubernetes.io/ttl";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Text,
    pub uid: Text,
    pub deleting: bool,
    pub labels: Arc<Labels>,
    pub taints: Vec<Taint>,
    /// Empty if it is in none.
    pub zone: Text,
    /// Whether the condition `Ready` is true.
    pub ready: bool,
    /// The CPU that pods may have, in thousandths.
    pub cpu_milli: i64,
    /// Whether it is tainted as out of service.
    pub out_of_service: bool,
    /// How long its kubelet may use what it knows of objects, in seconds, as an annotation says.
    pub ttl: Option<i64>,
    /// The addresses that its pods get. What cannot be read is left out: the API server read it before.
    pub pod_cidrs: Vec<Subnet>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    pub key: Text,
    pub value: Text,
    pub effect: Text,
}

/// All nodes.
pub fn informer(caches: &Caches) -> Informer<Node> {
    caches.view(&ApiResource::erase::<v1::Node>(&()), Selection::default(), Node::read)
}

impl Node {
    fn read(item: &Item) -> Option<Node> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a node cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        let ready = status.conditions.iter().flatten().find(|condition| condition.kind == "Ready");
        let taints: Vec<Taint> = spec.taints.iter().flatten().map(RawTaint::read).collect();
        let cidrs = spec.pod_cidrs.iter().flatten();
        Some(Node {
            name: item.name.clone(),
            uid: item.uid.clone(),
            deleting: metadata.deletion_timestamp.is_some(),
            zone: Text::new(metadata.labels.get(ZONE).unwrap_or_default()),
            labels: metadata.labels.to_labels().shared(),
            ready: ready.is_some_and(|condition| condition.status == "True"),
            cpu_milli: status.allocatable.unwrap_or_default().cpu_milli(),
            out_of_service: taints.iter().any(|taint| taint.key == OUT_OF_SERVICE),
            taints,
            ttl: metadata.annotations.get(TTL).and_then(|text| text.parse().ok()),
            pod_cidrs: cidrs.filter_map(|cidr| Subnet::parse_sloppy(&cidr.0)).collect(),
        })
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, default)]
    metadata: RawMetadata<'a>,
    #[serde(borrow, default)]
    spec: RawSpec<'a>,
    #[serde(borrow, default)]
    status: RawStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMetadata<'a> {
    #[serde(borrow)]
    labels: Pairs<'a>,
    #[serde(borrow)]
    annotations: Pairs<'a>,
    #[serde(borrow)]
    deletion_timestamp: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec<'a> {
    #[serde(borrow)]
    taints: Option<Vec<RawTaint<'a>>>,
    #[serde(borrow, rename = "podCIDRs")]
    pod_cidrs: Option<Vec<Borrowed<'a>>>,
}

#[derive(Deserialize)]
struct RawTaint<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    effect: Option<Cow<'a, str>>,
}

impl RawTaint<'_> {
    fn read(&self) -> Taint {
        let text = |text: &Option<Cow<'_, str>>| Text::new(text.as_deref().unwrap_or_default());
        Taint { key: Text::new(&self.key), value: text(&self.value), effect: text(&self.effect) }
    }
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<RawCondition<'a>>>,
    #[serde(borrow)]
    allocatable: Option<RawAllocatable<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAllocatable<'a> {
    #[serde(borrow)]
    cpu: Option<Cow<'a, str>>,
}

impl RawAllocatable<'_> {
    fn cpu_milli(&self) -> i64 {
        self.cpu.as_deref().and_then(|text| Quantity::parse(text).ok()).map_or(0, |amount| amount.milli_value())
    }
}

#[derive(Deserialize)]
struct RawCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_read() {
        let read = |node: serde_json::Value| {
            let json = node.to_string().into();
            Node::read(&Item { namespace: "".into(), name: "n".into(), uid: "u".into(), revision: 1, json }).unwrap()
        };
        let node = read(json!({
            "metadata": { "labels": { "topology.kubernetes.io/zone": "z", "other": "x" }, "annotations": { TTL: "15" }, "deletionTimestamp": "1970-01-01T00:00:05Z" },
            "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"], "taints": [{ "key": OUT_OF_SERVICE, "effect": "NoExecute" }] },
            "status": {
                "allocatable": { "cpu": "1500m", "pods": "10" },
                "conditions": [{ "type": "MemoryPressure", "status": "False" }, { "type": "Ready", "status": "True" }],
            },
        }));
        assert_eq!((node.zone.as_str(), node.ready, node.out_of_service, node.deleting), ("z", true, true, true));
        assert_eq!((node.ttl, node.cpu_milli), (Some(15), 1500));
        assert_eq!(node.pod_cidrs.iter().map(Subnet::to_string).collect::<Vec<_>>(), ["10.0.0.0/24", "fd00::/64"]);
        let bare = Node { name: "n".into(), uid: "u".into(), ..Node::default() };
        assert_eq!(read(json!({ "metadata": { "labels": null } })), bare);
    }
}
