//! RuntimeClass: a pod costs what its runtime class says beyond its containers, and goes where that class runs.

// tidy: types Pod RuntimeClass

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rkube_machinery::field::quote;
use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Status, Value};

use crate::{Attributes, ImmediatePlugin, Objects};

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub struct RuntimeClass {
    pub classes: Objects,
}

impl ImmediatePlugin for RuntimeClass {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && attributes.is("", "pods")
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
    fn class(&self, attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Arc<rkube_catalog::Object>>, Status> {
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

/// Both lists without what another toleration covers. Of equal ones the first stays.
fn merged_tolerations(pod: &[Value], class: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = pod.iter().chain(class).collect();
    let parts: Vec<Toleration<'_>> = all.iter().map(|one| Toleration::of(one)).collect();
    // From the end, so that each is asked of those after it only.
    let mut later = Widest::default();
    let mut covered: Vec<bool> = parts
        .iter()
        .rev()
        .map(|one| {
            let covered = later.cover(one, false);
            later.add(*one);
            covered
        })
        .collect();
    covered.reverse();
    let mut merged: Vec<Value> = Vec::new();
    let (mut kept, mut wide) = (HashSet::new(), Widest::default());
    for ((value, one), covered) in all.into_iter().zip(parts).zip(covered) {
        if !covered && !kept.contains(&one) && !wide.cover(&one, true) {
            kept.insert(one);
            wide.add(one);
            merged.push(value.clone());
        }
    }
    merged
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Toleration<'a> {
    key: &'a str,
    operator: &'a str,
    value: &'a str,
    effect: &'a str,
    seconds: Option<i64>,
}

/// Tolerations that cover the same, but for how long: by key (none: every one), effect (empty: every one) and value
/// (none: every one).
type Group<'a> = (Option<&'a str>, &'a str, Option<&'a str>);

impl<'a> Toleration<'a> {
    fn of(value: &'a Value) -> Self {
        Toleration {
            key: value.str("key"),
            operator: value.str("operator"),
            value: value.str("value"),
            effect: value.str("effect"),
            seconds: value.get("tolerationSeconds").as_int(),
        }
    }

    /// What it covers, if anything but its equals.
    fn group(&self) -> Option<Group<'a>> {
        match self.operator {
            "Exists" => Some((Some(self.key).filter(|key| !key.is_empty()), self.effect, None)),
            "" | "Equal" => Some((Some(self.key), self.effect, Some(self.value))),
            _ => None,
        }
    }

    /// How long it tolerates what it covers.
    fn limit(&self) -> Limit {
        match self.seconds.filter(|_| self.effect == "NoExecute") {
            Some(seconds) => Limit::Seconds(seconds),
            None => Limit::Forever,
        }
    }

    /// The groups of those that may cover it.
    fn wider(&self) -> impl Iterator<Item = Group<'a>> {
        let one = *self;
        let value = Some(one.value).filter(|_| one.operator == "Equal");
        let keys = [Some(one.key), None];
        let values = [None, value].into_iter().take(if value.is_some() { 2 } else { 1 });
        values.flat_map(move |value| {
            keys.into_iter().flat_map(move |key| ["", one.effect].map(|effect| (key, effect, value)))
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    Seconds(i64),
    Forever,
}

/// Of each group the one that covers most, and the next one that is not equal to it.
#[derive(Default)]
struct Widest<'a>(HashMap<Group<'a>, (Toleration<'a>, Option<Toleration<'a>>)>);

impl<'a> Widest<'a> {
    fn add(&mut self, one: Toleration<'a>) {
        let Some(group) = one.group() else { return };
        let (first, second) = self.0.entry(group).or_insert((one, None));
        if one == *first {
            return;
        }
        let mut next = one;
        if one.limit() > first.limit() {
            next = std::mem::replace(first, one);
        }
        if second.is_none_or(|second| next.limit() > second.limit()) {
            *second = Some(next);
        }
    }

    /// Whether one of them covers everything that `one` tolerates; `equals`: one that is equal counts.
    fn cover(&self, one: &Toleration<'_>, equals: bool) -> bool {
        one.wider().any(|group| {
            let Some((first, second)) = self.0.get(&group) else { return false };
            let widest = if first == one && !equals { *second } else { Some(*first) };
            widest.is_some_and(|wide| match wide.limit() {
                Limit::Forever => true,
                Limit::Seconds(limit) => one.seconds.is_some_and(|seconds| seconds <= limit),
            })
        })
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

    #[test]
    fn tolerations_are_merged_as_if_all_were_compared() {
        let mut seed = 7_u32;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed as usize / 65_536 % below
        };
        for round in 0..5_000 {
            let all: Vec<Value> = (0..round % 7)
                .map(|_| {
                    let mut one = Value::object();
                    let fields = [
                        ("key", ["", "a", "b"][next(3)]),
                        ("operator", ["", "Equal", "Exists", "Lt"][next(4)]),
                        ("value", ["", "x"][next(2)]),
                        ("effect", ["", "NoSchedule", "NoExecute"][next(3)]),
                    ];
                    for (field, text) in fields.into_iter().filter(|(_, text)| !text.is_empty()) {
                        one.set(field, text);
                    }
                    if let Some(seconds) = [None, Some(1), Some(2)][next(3)] {
                        one.set("tolerationSeconds", seconds);
                    }
                    one
                })
                .collect();
            let mut expected: Vec<Value> = Vec::new();
            for (index, one) in all.iter().enumerate() {
                let covered = expected.iter().any(|other| covers(other, one))
                    || all[index + 1..].iter().any(|other| other != one && covers(other, one));
                if !covered {
                    expected.push(one.clone());
                }
            }
            let (pod, class) = all.split_at(next(all.len() + 1));
            assert_eq!(merged_tolerations(pod, class), expected, "{all:?}");
        }
    }

    #[test]
    fn many_tolerations_are_merged() {
        let many: Vec<Value> =
            (0..40_000).map(|key| object! { "key": format!("k{key}"), "operator": "Exists" }).collect();
        assert_eq!(merged_tolerations(&many, &many).len(), many.len());
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
