//! What others in the process may ask of simulated nodes.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, Value};
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

    /// A node as `metrics.k8s.io` shows it. Costs a look at each of its pods.
    pub fn node_metrics(&self, name: &str) -> Option<Value> {
        let node = self.nodes.get("", name).filter(|_| self.has(name))?;
        let pods = self.pods.by_index::<ByNode, str>(name);
        let sum = pods.iter().fold(Used::default(), |sum, pod| sum.add(usage::of_pod(&pod.json)));
        Some(usage::node_metrics(&node.object, sum, self.clock.now_seconds()))
    }

    /// A pod as it shows it.
    pub fn pod_metrics(&self, namespace: &str, name: &str) -> Option<Value> {
        let pod = self.pods.get(namespace, name).filter(|pod| self.has(&pod.node))?;
        let now = self.clock.now_seconds();
        let read = || usage::pod_metrics(&pod.json, now).map(Box::new);
        let metrics = pod.metrics.get_or_init(read).as_deref()?;
        Some(usage::measured_at(metrics.clone(), now))
    }
}
