//! PodTopologyLabels: a pod that gets a node carries that node's zone and region.

// tidy: types Binding Node Pod

use rkube_machinery::{Map, Status, Value};

use crate::{Attributes, ImmediatePlugin, Objects};

const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

pub struct PodTopologyLabels {
    pub nodes: Objects,
}

impl ImmediatePlugin for PodTopologyLabels {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && (attributes.is("", "pods") || attributes.is_part("", "pods", "binding"))
    }

    fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let target = object.get("target");
        let name = match target.str("kind") {
            _ if attributes.subresource.is_empty() => object.get("spec").str("nodeName"),
            "Node" => target.str("name"),
            _ => "",
        };
        if name.is_empty() {
            return Ok(());
        }
        let Some(node) = self.nodes.find("", name) else { return Ok(()) };
        for (key, value) in LABELS.iter().filter_map(|key| Some((key, node.label(key)?))) {
            let labels = object.object_mut("metadata").object_mut("labels");
            labels.set(key, value);
            if let Value::Object(map) = std::mem::take(labels) {
                *labels = Value::Object(Map::sorted(map.into_entries()));
            }
        }
        Ok(())
    }
}
