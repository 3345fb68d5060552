//! RuntimeClass: a pod costs what its runtime class says beyond its containers, and goes where that class runs.

use std::sync::Arc;

use rkube_machinery::field::quote;
use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Status, Value};

use super::{Attributes, Objects, Operation, Plugin};
use crate::cache;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub struct RuntimeClass {
    pub classes: Objects,
}

impl Plugin for RuntimeClass {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == Operation::Create && attributes.is("", "pods")
    }

    fn mutate(&self, attributes: &mut Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        let Some(class) = self.class(attributes, pod)? else { return Ok(()) };
        let class = class.tree();
        if class.has("overhead") {
            let overhead = class.get("overhead").get("podFixed");
            let given = pod.get("spec").map("overhead");
            if !given.is_empty() && !same_amounts(overhead.as_map(), given) {
                return Err(attributes.forbidden(pod, MISMATCH));
            }
            pod.object_mut("spec").set("overhead", overhead.clone());
        }
        if class.has("scheduling") {
            let scheduling = class.get("scheduling");
            let selector = merged_selector(pod.get("spec").map("nodeSelector"), scheduling.map("nodeSelector"));
            let selector = selector.map_err(|why| attributes.forbidden(pod, why))?;
            let spec = pod.object_mut("spec");
            let tolerations = merged_tolerations(spec.list("tolerations"), scheduling.list("tolerations"));
            spec.set("nodeSelector", Value::Object(selector));
            spec.set("tolerations", tolerations);
        }
        Ok(())
    }

    fn validate(&self, attributes: &mut Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let class = self.class(attributes, pod)?.filter(|class| class.tree().has("overhead"));
        let given = pod.get("spec").map("overhead");
        match class {
            Some(class) if !same_amounts(class.tree().get("overhead").map("podFixed"), given) => {
                Err(attributes.forbidden(pod, MISMATCH))
            }
            None if !given.is_empty() => {
                let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                Err(attributes.forbidden(pod, why))
            }
            _ => Ok(()),
        }
    }
}

impl RuntimeClass {
    /// The pod's class, if it names one.
    fn class(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Arc<cache::Object>>, Status> {
        if !pod.get("spec").has("runtimeClassName") {
            return Ok(None);
        }
        let name = pod.get("spec").str("runtimeClassName");
        let refusal = || attributes.forbidden(pod, format!("pod rejected: RuntimeClass {} not found", quote(name)));
        self.classes.find("", name).ok_or_else(refusal).map(Some)
    }
}

fn same_amounts(left: &Map, right: &Map) -> bool {
    let amount = |value: &Value| Quantity::parse(value.as_str()).ok();
    left.len() == right.len()
        && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| amount(other) == amount(value)))
}

fn merged_selector(pod: &Map, class: &Map) -> Result<Map, String> {
    let mut merged = pod.clone();
    for (key, value) in class.iter() {
        let (wanted, given) = (value.as_str(), pod.get(key).map(Value::as_str));
        if let Some(given) = given.filter(|given| *given != wanted) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {given}"
            ));
        }
        merged.insert(key, value.clone());
    }
    Ok(Map::sorted(merged.into_entries()))
}

/// Both lists without what another toleration covers.
fn merged_tolerations(pod: &[Value], class: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = pod.iter().chain(class).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let covered = merged.iter().any(|other| covers(other, one))
            || all[index + 1..].iter().any(|other| *other != *one && covers(other, one));
        if !covered {
            merged.push((*one).clone());
        }
    }
    merged
}

/// Whether everything that `one` tolerates is tolerated by `wide`.
fn covers(wide: &Value, one: &Value) -> bool {
    if wide == one {
        return true;
    }
    let every_key = wide.str("key").is_empty() && wide.str("operator") == "Exists";
    if wide.str("key") != one.str("key") && !every_key {
        return false;
    }
    if !wide.str("effect").is_empty() && wide.str("effect") != one.str("effect") {
        return false;
    }
    if wide.str("effect") == "NoExecute"
        && let Some(limit) = wide.get("tolerationSeconds").as_int()
        && one.get("tolerationSeconds").as_int().is_none_or(|seconds| seconds > limit)
    {
        return false;
    }
    match wide.str("operator") {
        "Exists" => true,
        "" | "Equal" => one.str("operator") == "Equal" && one.str("value") == wide.str("value"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn tolerations_are_merged() {
        let exists = |key: &str| object! { "key": key, "operator": "Exists" };
        let equal = |key: &str| object! { "key": key, "operator": "Equal", "value": "x" };
        assert_eq!(merged_tolerations(&[equal("a")], &[exists("a")]), [exists("a")]);
        assert_eq!(merged_tolerations(&[exists("a")], &[equal("a"), equal("b")]), [exists("a"), equal("b")]);
        assert_eq!(merged_tolerations(&[equal("a")], &[equal("a")]), [equal("a")]);
        let wide = object! { "operator": "Exists" };
        assert_eq!(merged_tolerations(&[equal("a")], std::slice::from_ref(&wide)), [wide]);
    }

    #[test]
    fn selectors_must_agree() {
        let pod = object! { "a": "1", "c": "3" };
        let merged = merged_selector(pod.as_map(), object! { "b": "2" }.as_map()).unwrap();
        assert_eq!(Value::Object(merged), object! { "a": "1", "b": "2", "c": "3" });
        assert_eq!(
            merged_selector(pod.as_map(), object! { "a": "2" }.as_map()).unwrap_err(),
            "conflict: runtimeClass.scheduling.nodeSelector[a] = 2; pod.spec.nodeSelector[a] = 1"
        );
    }
}
