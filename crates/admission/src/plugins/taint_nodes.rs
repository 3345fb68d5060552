//! TaintNodesByCondition: a new node takes no pods until it says that it is ready.

// tidy: types Node

use rkube_machinery::{Status, Value, object};

use crate::{Attributes, ImmediatePlugin};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub struct TaintNodesByCondition;

impl ImmediatePlugin for TaintNodesByCondition {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && attributes.is("", "nodes")
    }

    fn mutate(&self, _attributes: &mut Attributes<'_>, node: &mut Value) -> Result<(), Status> {
        let taints = node.object_mut("spec").array_mut("taints");
        if !taints.iter().any(|taint| taint.str("key") == NOT_READY && taint.str("effect") == "NoSchedule") {
            taints.push(object! { "key": NOT_READY, "effect": "NoSchedule" });
        }
        Ok(())
    }
}
