//! DefaultTolerationSeconds: pods stay five minutes on a node that stopped answering, unless they say otherwise.

use futures::future::BoxFuture;
use rkube_machinery::{Status, Value, object};

use super::{Attributes, Operation, Plugin};

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub struct DefaultTolerationSeconds;

impl Plugin for DefaultTolerationSeconds {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation != Operation::Delete && attributes.is("", "pods")
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a mut Attributes,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let spec = object.object_mut("spec");
        let missing: Vec<&str> =
            TAINTS.into_iter().filter(|taint| !tolerates(spec.list("tolerations"), taint)).collect();
        for taint in missing {
            spec.array_mut("tolerations").push(object! {
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS,
            });
        }
        Box::pin(async { Ok(()) })
    }
}

/// A toleration without a key counts for every taint.
fn tolerates(tolerations: &[Value], taint: &str) -> bool {
    tolerations.iter().any(|toleration| {
        let key = toleration.str("key");
        (key.is_empty() || key == taint) && matches!(toleration.str("effect"), "" | "NoExecute")
    })
}
