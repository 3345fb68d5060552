//! What a table says of an ingress.

use rkube_machinery::Value;

use crate::columns::{NONE, or};

/// So many hosts are named; the rest are counted.
const HOSTS_MAX: usize = 3;

pub fn class(ingress: &Value, _now: i64) -> Value {
    let spec = ingress.get("spec");
    if spec.has("ingressClassName") { spec.str("ingressClassName").into() } else { NONE.into() }
}

/// The hosts of the first rules. What is counted as more are rules, with or without a host.
pub fn hosts(ingress: &Value, _now: i64) -> Value {
    let rules = ingress.get("spec").list("rules");
    let mut hosts: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == HOSTS_MAX;
        if !more && !rule.str("host").is_empty() {
            hosts.push(rule.str("host"));
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".into(),
        (false, false) => hosts.join(",").into(),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - HOSTS_MAX).into(),
    }
}

pub fn addresses(ingress: &Value, _now: i64) -> Value {
    let points = ingress.at(&["status", "loadBalancer"]).list("ingress").iter();
    let mut places: Vec<&str> =
        points.map(|point| or(point.str("ip"), point.str("hostname"))).filter(|place| !place.is_empty()).collect();
    places.sort_unstable();
    places.dedup();
    places.join(",").into()
}

pub fn ports(ingress: &Value, _now: i64) -> Value {
    if ingress.get("spec").list("tls").is_empty() { "80".into() } else { "80, 443".into() }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn hosts_are_counted() {
        let rule = |host: &str| object! { "host": host };
        let table: &[(&[&str], &str)] = &[
            (&[], "*"),
            (&["", ""], "*"),
            (&["a", "", "b"], "a,b"),
            (&["a", "b", "c"], "a,b,c"),
            (&["a", "b", "c", ""], "a,b,c + 1 more..."),
            (&["a", "b", "c", "d", "e"], "a,b,c + 2 more..."),
        ];
        for (given, want) in table {
            let rules: Vec<Value> = given.iter().map(|host| rule(host)).collect();
            let ingress = object! { "spec": object! { "rules": rules } };
            assert_eq!(hosts(&ingress, 0).as_str(), *want, "{given:?}");
        }
    }
}
