//! Priority: a pod's priority is that of its class.

use std::sync::Arc;

use futures::future::BoxFuture;
use rkube_machinery::{Status, Value};

use super::{Attributes, Operation, Plugin};
use crate::cache;
use crate::resources::Resources;

/// The classes that are always there.
const SYSTEM: [(&str, i64); 2] = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const LOWER: &str = "PreemptLowerPriority";

pub struct Priority {
    classes: Option<Arc<cache::Resource>>,
}

struct Class {
    name: String,
    value: i64,
    preemption: String,
}

impl Priority {
    pub fn new(resources: &Resources) -> Self {
        let classes = resources.find("scheduling.k8s.io", "v1", "priorityclasses");
        Priority { classes: classes.and_then(|served| served.cache.clone()) }
    }

    /// The class of this name; without one, the default class, or priority 0.
    fn class(&self, name: &str) -> Option<Class> {
        let found = self.classes.as_ref().and_then(|classes| {
            if !name.is_empty() {
                return classes.get(&classes.key("", name)).map(|entry| entry.object.clone());
            }
            let all = classes.snapshot().0;
            let defaults = all.values().map(|entry| &entry.object).filter(|class| class.tree().bool("globalDefault"));
            defaults.min_by_key(|class| class.tree().int("value")).cloned()
        });
        match found {
            Some(class) => {
                let class = class.tree();
                let policy = Some(class.str("preemptionPolicy")).filter(|policy| !policy.is_empty());
                Some(Class {
                    name: class.get("metadata").str("name").to_owned(),
                    value: class.int("value"),
                    preemption: policy.unwrap_or(LOWER).to_owned(),
                })
            }
            None if name.is_empty() => Some(Class { name: String::new(), value: 0, preemption: LOWER.to_owned() }),
            None => SYSTEM.iter().find(|class| class.0 == name).map(|class| Class {
                name: name.to_owned(),
                value: class.1,
                preemption: LOWER.to_owned(),
            }),
        }
    }

    fn admit(&self, attributes: &Attributes, pod: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if let Some(old) = old {
            let before = old.get("spec");
            let spec = pod.object_mut("spec");
            for field in ["priority", "preemptionPolicy"] {
                if !spec.has(field) && before.has(field) {
                    spec.set(field, before.get(field).clone());
                }
            }
            return Ok(());
        }
        let name = pod.get("spec").str("priorityClassName").to_owned();
        let Some(class) = self.class(&name) else {
            return Err(attributes.forbidden(pod, format!("no PriorityClass with name {name} was found")));
        };
        let spec = pod.get("spec");
        if let Some(given) = spec.get("priority").as_int().filter(|given| *given != class.value) {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
                class.value
            );
            return Err(attributes.forbidden(pod, why));
        }
        let given = spec.str("preemptionPolicy");
        if spec.has("preemptionPolicy") && given != class.preemption {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
                class.preemption
            );
            return Err(attributes.forbidden(pod, why));
        }
        let spec = pod.object_mut("spec");
        if !class.name.is_empty() {
            spec.set("priorityClassName", class.name);
        }
        spec.set("priority", class.value);
        spec.set("preemptionPolicy", class.preemption);
        Ok(())
    }
}

impl Plugin for Priority {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation != Operation::Delete && attributes.is("", "pods")
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = self.admit(attributes, object, old);
        Box::pin(async { outcome })
    }
}
