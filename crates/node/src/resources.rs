//! What a pod asks for in all: the sum of its containers, the most that initialization takes at a time, the pod's own
//! amounts where it says any, and the overhead of its runtime class.

use std::collections::BTreeMap;

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Text, Value};

pub type Amounts = BTreeMap<Text, Quantity>;

/// `list`: `requests` or `limits`.
pub fn of_pod(pod: &Value, list: &str) -> Amounts {
    let spec = pod.get("spec");
    let mut total = Amounts::new();
    for container in spec.list("containers") {
        add(&mut total, container.get("resources").map(list));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in spec.list("initContainers") {
        let own = container.get("resources").map(list);
        if container.str("restartPolicy") == "Always" {
            add(&mut total, own);
            add(&mut sidecars, own);
            raise(&mut most, &sidecars);
        } else {
            let mut at_once = sidecars.clone();
            add(&mut at_once, own);
            raise(&mut most, &at_once);
        }
    }
    raise(&mut total, &most);
    for (name, amount) in amounts(spec.get("resources").map(list)) {
        total.insert(name, amount);
    }
    for (name, amount) in amounts(spec.map("overhead")) {
        match total.get_mut(&name) {
            Some(sum) => *sum = sum.add(&amount),
            // What is not limited is not limited with overhead either.
            None if list == "limits" => {}
            None => {
                total.insert(name, amount);
            }
        }
    }
    total
}

/// As objects carry it.
pub fn to_value(amounts: &Amounts) -> Value {
    let entries = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_text().into()));
    Map::sorted(entries.collect()).into()
}

/// What cannot be read counts as nothing: the API server lets none pass.
pub fn amounts(list: &Map) -> impl Iterator<Item = (Text, Quantity)> {
    list.iter().filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()).ok()?)))
}

fn add(sum: &mut Amounts, list: &Map) {
    for (name, amount) in amounts(list) {
        let entry = sum.entry(name).or_insert(Quantity::ZERO);
        *entry = entry.add(&amount);
    }
}

fn raise(sum: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let entry = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        if amount > entry {
            *entry = amount.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn of(spec: &str, list: &str) -> String {
        let pod = json::parse(format!(r#"{{"spec":{spec}}}"#).as_bytes()).unwrap();
        json::to_string(&to_value(&of_pod(&pod, list)))
    }

    #[test]
    fn init_containers_take_what_they_need_one_after_the_other() {
        let container = |cpu: &str, more: &str| format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}{more}}}"#);
        let sidecar = container("100m", r#","restartPolicy":"Always""#);
        let table = [
            (format!(r#"{{"containers":[{},{}]}}"#, container("100m", ""), container("250m", "")), r#"{"cpu":"350m"}"#),
            (
                format!(r#"{{"containers":[{}],"initContainers":[{}]}}"#, container("100m", ""), container("2", "")),
                r#"{"cpu":"2"}"#,
            ),
            (
                format!(
                    r#"{{"containers":[{}],"initContainers":[{sidecar},{}]}}"#,
                    container("1", ""),
                    container("2", "")
                ),
                r#"{"cpu":"2100m"}"#,
            ),
            (
                format!(
                    r#"{{"containers":[{}],"resources":{{"requests":{{"cpu":"5"}}}},"overhead":{{"cpu":"1","memory":"1Mi"}}}}"#,
                    container("1", "")
                ),
                r#"{"cpu":"6","memory":"1Mi"}"#,
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(of(&spec, "requests"), expected, "{spec}");
        }
        let limits = r#"{"containers":[{"resources":{"limits":{"cpu":"1"}}}],"overhead":{"cpu":"1","memory":"1Mi"}}"#;
        assert_eq!(of(limits, "limits"), r#"{"cpu":"2"}"#);
    }
}
