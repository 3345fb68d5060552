//! TaintNodesByCondition: a new node takes no pods until it says that it is ready.

use futures::future::BoxFuture;
use rkube_machinery::{Status, Value, object};

use super::{Attributes, Operation, Plugin};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && attributes.is("", "nodes")
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a mut Attributes,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let taints = object.object_mut("spec").array_mut("taints");
        if !taints.iter().any(|taint| taint.str("key") == NOT_READY && taint.str("effect") == "NoSchedule") {
            taints.push(object! { "key": NOT_READY, "effect": "NoSchedule" });
        }
        Box::pin(async { Ok(()) })
    }
}
