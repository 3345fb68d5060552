//! PodTopologyLabels: a pod that gets a node carries that node's zone and region.

use std::sync::Arc;

use futures::future::BoxFuture;
use rkube_machinery::{Map, Status, Value};

use super::{Attributes, Operation, Plugin};
use crate::cache;
use crate::resources::Resources;

const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

pub struct PodTopologyLabels {
    nodes: Option<Arc<cache::Resource>>,
}

impl PodTopologyLabels {
    pub fn new(resources: &Resources) -> Self {
        PodTopologyLabels { nodes: resources.cache("", "v1", "nodes") }
    }

    fn label(&self, object: &mut Value, node: &str) {
        let found = self.nodes.as_ref().and_then(|nodes| nodes.get(&nodes.key("", node)));
        let Some(node) = found else { return };
        for (key, value) in LABELS.iter().filter_map(|key| Some((key, node.object.label(key)?))) {
            let labels = object.object_mut("metadata").object_mut("labels");
            labels.set(key, value);
            if let Value::Object(map) = std::mem::take(labels) {
                *labels = Value::Object(Map::sorted(map.into_entries()));
            }
        }
    }
}

impl Plugin for PodTopologyLabels {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create
            && (attributes.is("", "pods") || attributes.is_part("", "pods", "binding"))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let node = if attributes.subresource.is_empty() {
            object.get("spec").str("nodeName").to_owned()
        } else {
            let target = object.get("target");
            let is_node = target.str("kind") == "Node";
            Some(target.str("name")).filter(|_| is_node).unwrap_or_default().to_owned()
        };
        if !node.is_empty() {
            self.label(object, &node);
        }
        Box::pin(async { Ok(()) })
    }
}
