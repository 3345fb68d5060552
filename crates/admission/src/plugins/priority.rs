//! Priority: a pod's priority is that of its class.

// tidy: types Pod PriorityClass

use std::sync::Arc;

use rkube_machinery::{Status, Value};

use crate::{Attributes, ImmediatePlugin, Objects};

/// The classes that are always there.
const SYSTEM: [(&str, i64); 2] = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const LOWER: &str = "PreemptLowerPriority";

pub struct Priority {
    pub classes: Objects,
}

#[derive(Clone, Copy)]
struct Class<'a> {
    name: &'a str,
    value: i64,
    preemption: &'a str,
}

impl ImmediatePlugin for Priority {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create_or_update() && attributes.is("", "pods")
    }

    fn mutate(&self, attributes: &mut Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        if let Some(old) = attributes.old {
            keep(pod.object_mut("spec"), old.get("spec"));
            return Ok(());
        }
        let name = pod.get("spec").str("priorityClassName");
        let found = self.find(name);
        let Some(class) = Class::of(found.as_deref(), name) else {
            return Err(attributes.forbidden(pod, format!("no PriorityClass with name {name} was found")));
        };
        if let Some(why) = mismatch(pod.get("spec"), class) {
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

impl Priority {
    /// The class of this name; without one, the default class.
    fn find(&self, name: &str) -> Option<Arc<rkube_catalog::Object>> {
        if !name.is_empty() {
            return self.classes.find("", name);
        }
        let all = self.classes.all();
        let defaults = all.values().map(|entry| &entry.object).filter(|class| class.tree().bool("globalDefault"));
        defaults.min_by_key(|class| class.tree().int("value")).cloned()
    }
}

impl<'a> Class<'a> {
    /// The class that was found; else that of the system of this name, or priority 0 without a name.
    fn of(found: Option<&'a rkube_catalog::Object>, name: &str) -> Option<Class<'a>> {
        let Some(found) = found else {
            let mut known = SYSTEM.into_iter().chain([("", 0)]);
            let (name, value) = known.find(|class| class.0 == name)?;
            return Some(Class { name, value, preemption: LOWER });
        };
        let class = found.tree();
        let policy = Some(class.str("preemptionPolicy")).filter(|policy| !policy.is_empty());
        Some(Class { name: &found.name, value: class.int("value"), preemption: policy.unwrap_or(LOWER) })
    }
}

/// What an update leaves out stays.
fn keep(spec: &mut Value, before: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if !spec.has(field) && before.has(field) {
            spec.set(field, before.get(field).clone());
        }
    }
}

/// Why the pod may not say itself what its class says.
fn mismatch(spec: &Value, class: Class<'_>) -> Option<String> {
    if let Some(given) = spec.get("priority").as_int().filter(|given| *given != class.value) {
        return Some(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            class.value
        ));
    }
    let given = spec.str("preemptionPolicy");
    if spec.has("preemptionPolicy") && given != class.preemption {
        return Some(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            class.preemption
        ));
    }
    None
}
