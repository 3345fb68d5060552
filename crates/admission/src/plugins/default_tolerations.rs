//! DefaultTolerationSeconds: pods stay five minutes on a node that stopped answering, unless they say otherwise.

// tidy: types Pod

use rkube_machinery::{Status, Text, Value, object};

use crate::{Attributes, ImmediatePlugin};

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub struct DefaultTolerationSeconds;

impl ImmediatePlugin for DefaultTolerationSeconds {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create_or_update() && attributes.is("", "pods")
    }

    fn mutate(&self, _attributes: &mut Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        let spec = pod.object_mut("spec");
        for taint in TAINTS {
            if !tolerates(spec.list("tolerations"), taint) {
                let key = Text::new_static(taint);
                spec.array_mut("tolerations").push(object! {
                    "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS,
                });
            }
        }
        Ok(())
    }
}

/// A toleration without a key counts for every taint.
fn tolerates(tolerations: &[Value], taint: &str) -> bool {
    tolerations.iter().any(|toleration| {
        let key = toleration.str("key");
        (key.is_empty() || key == taint) && matches!(toleration.str("effect"), "" | "NoExecute")
    })
}
