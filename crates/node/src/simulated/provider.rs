//! What others in the process may ask of simulated nodes.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, Value, json};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Informer, Selection};

use super::fleet::Config;
use super::usage::{self, Used};
use crate::views::{self, ByNode, NodeView, PodView};

pub struct Provider {
    names: HashSet<Text>,
    pods: Informer<PodView>,
    nodes: Informer<NodeView>,
    clock: Arc<dyn Clock>,
}

impl Provider {
    pub(super) fn new(config: &Config) -> Provider {
        Provider {
            names: (0..config.count).map(|index| config.template.name(index)).collect(),
            pods: config
                .caches
                .view(&ApiResource::erase::<Pod>(&()), Selection::default(), views::pod)
                .indexed::<ByNode>(),
            nodes: config.caches.view(&ApiResource::erase::<Node>(&()), Selection::default(), views::node),
            clock: config.clock.clone(),
        }
    }

    pub fn has(&self, node: &str) -> bool {
        self.names.contains(node)
    }

    /// Nodes as `metrics.k8s.io` shows them, by name.
    pub fn node_metrics(&self) -> Vec<Value> {
        let now = self.clock.now_seconds();
        let nodes = self.nodes.all();
        let ours = nodes.iter().filter(|node| self.has(node.object.get("metadata").str("name")));
        ours.map(|node| {
            let pods = self.pods.by_index::<ByNode, str>(node.object.get("metadata").str("name"));
            let used = pods.iter().filter_map(|pod| json::parse(&pod.json).ok());
            let sum = used.fold(Used::default(), |sum, pod| sum.add(usage::of_pod(&pod)));
            usage::node_metrics(&node.object, sum, now)
        })
        .collect()
    }

    /// Pods as it shows them, by namespace and name. Costs a look at each.
    pub fn pod_metrics(&self, namespace: Option<&str>) -> Vec<Value> {
        let now = self.clock.now_seconds();
        let pods = namespace.map_or_else(|| self.pods.all(), |namespace| self.pods.in_namespace(namespace));
        let ours = pods.iter().filter(|pod| self.has(&pod.node));
        ours.filter_map(|pod| usage::pod_metrics(&json::parse(&pod.json).ok()?, now)).collect()
    }
}
