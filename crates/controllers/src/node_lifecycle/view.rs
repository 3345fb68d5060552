//! Nodes and their leases, as far as their lives are concerned.

use std::collections::HashMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use rkube_machinery::time;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::Deserialize;
use serde_json::Value;

use super::plan::{Condition, Ready};

pub const LEASES: &str = "kube-node-lease";

/// Nodes with this label are not counted when it is found out how well a zone is.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// Each with the name that it had before.
const REGION: [&str; 2] = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// What is to be known of a node.
#[derive(Clone, Deserialize)]
pub struct NodeView {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

#[derive(Clone, Deserialize)]
pub struct Metadata {
    pub name: String,
    pub uid: String,
    /// As text, since that is how it is sent back.
    #[serde(default, rename = "resourceVersion")]
    pub version: String,
    #[serde(default, rename = "creationTimestamp")]
    pub created: String,
    #[serde(default)]
    pub labels: HashMap<String, String>,
}

#[derive(Clone, Default, Deserialize)]
pub struct Spec {
    #[serde(default)]
    pub taints: Vec<Value>,
    #[serde(default)]
    pub unschedulable: bool,
}

#[derive(Clone, Default, Deserialize)]
pub struct Status {
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl NodeView {
    fn make(item: &Item) -> Option<NodeView> {
        let mut node: NodeView = item.parse().ok()?;
        node.metadata.version = item.revision.to_string();
        Some(node)
    }

    /// None: nobody ever said so.
    pub fn ready(&self) -> Option<Ready> {
        self.ready_condition().map(|one| Ready::read(&one.status))
    }

    pub fn heartbeat(&self) -> Option<&str> {
        self.ready_condition().map(|one| one.heartbeat.as_deref().unwrap_or_default())
    }

    fn ready_condition(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|one| one.kind == "Ready")
    }

    /// Where the node is; empty if it does not say.
    pub fn zone(&self) -> String {
        let label = |[name, before]: [&str; 2]| {
            let labels = &self.metadata.labels;
            labels.get(name).or_else(|| labels.get(before)).map(String::as_str).unwrap_or_default()
        };
        match (label(REGION), label(ZONE)) {
            ("", "") => String::new(),
            (region, zone) => format!("{region}:\0:{zone}"),
        }
    }

    pub fn is_excluded(&self) -> bool {
        self.metadata.labels.contains_key(EXCLUDED)
    }
}

/// When a node last said that it lives, in microseconds since 1970.
pub struct LeaseView {
    pub renewed: i64,
}

impl LeaseView {
    fn make(item: &Item) -> Option<LeaseView> {
        #[derive(Deserialize)]
        struct Parsed {
            spec: ParsedSpec,
        }
        #[derive(Deserialize)]
        struct ParsedSpec {
            #[serde(default, rename = "renewTime")]
            renewed: String,
        }
        if &*item.namespace != LEASES {
            return None;
        }
        let lease: Parsed = item.parse().ok()?;
        let (seconds, nanos) = time::parse_micros(&lease.spec.renewed).ok()?;
        Some(LeaseView { renewed: seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanos) / 1000) })
    }
}

pub fn nodes(caches: &Caches) -> Informer<NodeView> {
    caches.view(&ApiResource::erase::<Node>(&()), Selection::default(), NodeView::make)
}

pub fn leases(caches: &Caches) -> Informer<LeaseView> {
    caches.view(&ApiResource::erase::<Lease>(&()), Selection::default(), LeaseView::make)
}
