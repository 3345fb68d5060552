//! LimitRanger: containers get the amounts that the namespace's limit ranges give by default, and may not leave what
//! these allow.

// tidy: types LimitRange PersistentVolumeClaim Pod

use std::collections::{BTreeMap, HashSet};

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Status, Value};

use crate::{Attributes, ImmediatePlugin, Objects, Operation};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Above, amounts are compared in units, not in thousandths.
const MILLI_MAX: i64 = i64::MAX / 1000;

pub struct LimitRanger {
    pub ranges: Objects,
}

impl ImmediatePlugin for LimitRanger {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        match attributes.operation {
            Operation::Create => attributes.is("", "pods") || attributes.is("", "persistentvolumeclaims"),
            Operation::Update => {
                attributes.is("", "persistentvolumeclaims") || attributes.is_part("", "pods", "resize")
            }
            Operation::Delete | Operation::Connect => false,
        }
    }

    fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        if attributes.served.kind.resource == "pods" && !is_going(attributes.old) {
            for range in self.ranges.within(attributes.namespace) {
                set_defaults(object, range.tree());
            }
        }
        Ok(())
    }

    fn validate(&self, attributes: &mut Attributes<'_>, object: &Value) -> Result<(), Status> {
        if is_going(attributes.old) {
            return Ok(());
        }
        let check = if attributes.served.kind.resource == "pods" { check_pod } else { check_claim };
        let ranges = self.ranges.within(attributes.namespace);
        let complaint = ranges.iter().find_map(|range| aggregate(check(object, range.tree())));
        complaint.map_or(Ok(()), |why| Err(attributes.forbidden(object, why)))
    }
}

fn is_going(old: Option<&Value>) -> bool {
    old.is_some_and(|old| old.get("metadata").has("deletionTimestamp"))
}

/// One complaint as it is, several in brackets, each once.
fn aggregate(complaints: Vec<String>) -> Option<String> {
    let mut known = HashSet::new();
    let seen: Vec<String> = complaints.into_iter().filter(|complaint| known.insert(complaint.clone())).collect();
    match seen.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        _ => Some(format!("[{}]", seen.join(", "))),
    }
}

/// Gives containers the amounts that they do not name, and says so in an annotation.
fn set_defaults(pod: &mut Value, range: &Value) {
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let of_containers = range.get("spec").list("limits").iter().filter(|limit| limit.str("type") == "Container");
    for limit in of_containers {
        requests.extend(limit.map("defaultRequest").iter());
        limits.extend(limit.map("default").iter());
    }
    let mut notes = Vec::new();
    for (field, word) in [("containers", "container"), ("initContainers", "init container")] {
        for container in pod.object_mut("spec").list_mut(field) {
            let name = container.str("name").to_owned();
            let resources = container.object_mut("resources");
            for (list, amounts, kind) in [("requests", &requests, "request"), ("limits", &limits, "limit")] {
                let set = fill(resources, list, amounts);
                if !set.is_empty() {
                    notes.push(format!("{} {kind} for {word} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod.object_mut("metadata").object_mut("annotations").set(ANNOTATION, note);
    }
}

/// Adds amounts that are not there; says which.
fn fill<K: AsRef<str> + Ord>(resources: &mut Value, list: &str, amounts: &BTreeMap<K, &Value>) -> Vec<String> {
    let missing: Vec<_> = amounts.iter().filter(|(name, _)| !resources.get(list).has(name.as_ref())).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let given = resources.object_mut(list);
    for (name, amount) in &missing {
        given.set(name.as_ref(), Value::clone(amount));
    }
    if let Value::Object(map) = std::mem::take(given) {
        *given = Value::Object(Map::sorted(map.into_entries()));
    }
    missing.iter().map(|(name, _)| name.as_ref().to_owned()).collect()
}

pub(super) type Amounts = BTreeMap<String, Quantity>;

fn check_claim(claim: &Value, range: &Value) -> Vec<String> {
    let requests = amounts(claim.at(&["spec", "resources"]), "requests");
    let mut complaints = Vec::new();
    for limit in range.get("spec").list("limits").iter().filter(|limit| limit.str("type") == "PersistentVolumeClaim") {
        let kind = limit.str("type");
        for (name, bound) in amounts(limit, "min") {
            complaints.extend(below(kind, &name, &bound, &requests, &Amounts::new()));
        }
        for (name, bound) in amounts(limit, "max") {
            complaints.extend(request_above(kind, &name, &bound, &requests));
        }
    }
    complaints
}

fn check_pod(pod: &Value, range: &Value) -> Vec<String> {
    let spec = pod.get("spec");
    let mut complaints = Vec::new();
    for limit in range.get("spec").list("limits") {
        match limit.str("type") {
            "Container" => {
                for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
                    let resources = container.get("resources");
                    let (requests, limits) = (amounts(resources, "requests"), amounts(resources, "limits"));
                    complaints.extend(check_amounts(limit, &requests, &limits));
                }
            }
            "Pod" => {
                let (requests, limits) = (of_pod(spec, "requests"), of_pod(spec, "limits"));
                complaints.extend(check_amounts(limit, &requests, &limits));
            }
            _ => {}
        }
    }
    complaints
}

fn check_amounts(limit: &Value, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let kind = limit.str("type");
    let least =
        amounts(limit, "min").into_iter().filter_map(|(name, bound)| below(kind, &name, &bound, requests, limits));
    let most =
        amounts(limit, "max").into_iter().filter_map(|(name, bound)| above(kind, &name, &bound, requests, limits));
    let ratios = amounts(limit, "maxLimitRequestRatio").into_iter();
    let ratios = ratios.filter_map(|(name, bound)| ratio(kind, &name, &bound, requests, limits));
    least.chain(most).chain(ratios).collect()
}

fn below(kind: &str, name: &str, bound: &Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let head = format!("minimum {name} usage per {kind} is {}", bound.to_text());
    let (request, limit) = (requests.get(name), limits.get(name));
    let [asked, capped, enforced] = comparable([request, limit, Some(bound)]);
    match (request, limit) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(request), _) if asked < enforced => Some(format!("{head}, but request is {}", request.to_text())),
        (_, Some(limit)) if capped < enforced => Some(format!("{head}, but limit is {}", limit.to_text())),
        _ => None,
    }
}

fn above(kind: &str, name: &str, bound: &Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let head = format!("maximum {name} usage per {kind} is {}", bound.to_text());
    let (request, limit) = (requests.get(name), limits.get(name));
    let [asked, capped, enforced] = comparable([request, limit, Some(bound)]);
    match (request, limit) {
        (_, None) => Some(format!("{head}.  No limit is specified")),
        (_, Some(limit)) if capped > enforced => Some(format!("{head}, but limit is {}", limit.to_text())),
        (Some(request), _) if asked > enforced => Some(format!("{head}, but request is {}", request.to_text())),
        _ => None,
    }
}

fn request_above(kind: &str, name: &str, bound: &Quantity, requests: &Amounts) -> Option<String> {
    let head = format!("maximum {name} usage per {kind} is {}", bound.to_text());
    let request = requests.get(name);
    let [asked, _, enforced] = comparable([request, None, Some(bound)]);
    match request {
        None => Some(format!("{head}.  No request is specified")),
        Some(request) if asked > enforced => Some(format!("{head}, but request is {}", request.to_text())),
        _ => None,
    }
}

fn ratio(kind: &str, name: &str, bound: &Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let head = format!("{name} max limit to request ratio per {kind} is {}", bound.to_text());
    let [asked, capped, _] = comparable([requests.get(name), limits.get(name), Some(bound)]);
    if asked == 0 {
        return Some(format!("{head}, but no request is specified or request is 0"));
    }
    if capped == 0 {
        return Some(format!("{head}, but no limit is specified or limit is 0"));
    }
    let provided = capped as f64 / asked as f64;
    let is_small = bound.value() <= MILLI_MAX;
    let (observed, allowed) =
        if is_small { (provided * 1000.0, bound.milli_value() as f64) } else { (provided, bound.value() as f64) };
    (observed > allowed).then(|| format!("{head}, but provided ratio is {provided:.6}"))
}

/// The amounts as numbers of one unit; absent ones are 0.
fn comparable(amounts: [Option<&Quantity>; 3]) -> [i64; 3] {
    let in_units = amounts.map(|amount| amount.map_or(0, Quantity::value));
    if in_units.iter().all(|units| *units <= MILLI_MAX) {
        amounts.map(|amount| amount.map_or(0, Quantity::milli_value))
    } else {
        in_units
    }
}

pub(super) fn amounts(holder: &Value, list: &str) -> Amounts {
    let parse = |(name, amount): (&rkube_machinery::Text, &Value)| {
        Some((name.to_string(), Quantity::parse(amount.as_str()).ok()?))
    };
    holder.map(list).iter().filter_map(parse).collect()
}

/// What a pod as a whole asks for: its containers together, or what the largest moment of its start needs.
pub(super) fn of_pod(spec: &Value, list: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in spec.list("containers") {
        add(&mut total, &amounts(container.get("resources"), list));
    }
    let (mut sidecars, mut start) = (Amounts::new(), Amounts::new());
    for container in spec.list("initContainers") {
        let mut now = amounts(container.get("resources"), list);
        if container.str("restartPolicy") == "Always" {
            add(&mut total, &now);
            add(&mut sidecars, &now);
            now = sidecars.clone();
        } else {
            add(&mut now, &sidecars);
        }
        raise(&mut start, &now);
    }
    raise(&mut total, &start);
    let whole = amounts(spec.get("resources"), list);
    total.extend(whole.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")));
    total
}

pub(super) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.get(name).map_or_else(|| amount.clone(), |known| known.add(amount));
        total.insert(name.clone(), sum);
    }
}

fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|known| amount > known) {
            total.insert(name.clone(), amount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn pod(requests: Value, limits: Value) -> Value {
        let resources = object! { "limits": limits, "requests": requests };
        let container = object! { "name": "c", "resources": resources };
        object! { "metadata": object! { "name": "p" }, "spec": object! { "containers": vec![container] } }
    }

    fn range(limit: Value) -> Value {
        object! { "spec": object! { "limits": vec![limit] } }
    }

    #[test]
    fn defaults_are_filled_in_and_noted() {
        let mut pod = pod(object! { "cpu": "1" }, Value::Null);
        let amounts = || object! { "cpu": "2", "memory": "1Gi" };
        set_defaults(
            &mut pod,
            &range(object! { "type": "Container", "default": amounts(), "defaultRequest": amounts() }),
        );
        let resources = pod.get("spec").list("containers")[0].get("resources");
        assert_eq!(resources.get("requests"), &object! { "cpu": "1", "memory": "1Gi" });
        assert_eq!(resources.get("limits"), &amounts());
        assert_eq!(
            pod.at(&["metadata", "annotations"]).str(ANNOTATION),
            "LimitRanger plugin set: memory request for container c; cpu, memory limit for container c"
        );
    }

    #[test]
    fn amounts_outside_are_named() {
        let cpu = |amount: &str| object! { "cpu": amount };
        let table = [
            (
                "min",
                cpu("500m"),
                Value::Null,
                Value::Null,
                "minimum cpu usage per Container is 500m.  No request is specified",
            ),
            (
                "min",
                cpu("500m"),
                cpu("100m"),
                Value::Null,
                "minimum cpu usage per Container is 500m, but request is 100m",
            ),
            ("min", cpu("1"), cpu("1"), cpu("2"), ""),
            ("max", cpu("1"), cpu("1"), Value::Null, "maximum cpu usage per Container is 1.  No limit is specified"),
            ("max", cpu("1"), cpu("1"), cpu("1500m"), "maximum cpu usage per Container is 1, but limit is 1500m"),
            (
                "maxLimitRequestRatio",
                cpu("2"),
                cpu("1"),
                cpu("3"),
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            ),
        ];
        for (bound, amount, requests, limits, expected) in table {
            let mut limit = object! { "type": "Container" };
            limit.set(bound, amount);
            let found = aggregate(check_pod(&pod(requests, limits), &range(limit)));
            assert_eq!(found.unwrap_or_default(), expected);
        }
    }
}
