//! Whether a node takes a pod that was bound to it: what is asked for must be free, labels and taints must fit. The
//! scheduler has looked at the same before; a node looks again, because pods are also bound by hand and by others.

mod affinity;
mod ports;
mod usage;

use rkube_machinery::Value;
use rkube_machinery::quantity::Quantity;

pub use usage::{Claim, Usage};

/// The node's operating system.
const OS: &str = "linux";
const OS_LABEL: &str = "kubernetes.io/os";

/// Why a pod was not taken, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub reason: String,
    pub message: String,
}

fn rejection(reason: &str, message: impl Into<String>) -> Rejection {
    Rejection { reason: reason.to_owned(), message: message.into() }
}

/// `node` is the Node object, `usage` what the pods take that it has.
pub fn admit(pod: &Value, claim: &Claim, node: &Value, usage: &Usage) -> Result<(), Rejection> {
    check_os(pod)?;
    check_groups_policy(pod, node)?;
    if let Some(why) = usage.lacking(claim, node.get("status").map("allocatable")) {
        return Err(why);
    }
    if !affinity::matches(pod, node) {
        return Err(predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
    }
    if pod.get("spec").str("nodeName") != node.get("metadata").str("name") {
        return Err(predicate("NodeName", "node(s) didn't match the requested node name"));
    }
    if usage.ports_conflict(claim) {
        return Err(predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
    }
    if node.get("spec").list("taints").iter().any(|taint| !is_tolerated(taint, pod)) {
        return Err(predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"));
    }
    Ok(())
}

fn predicate(name: &str, why: &str) -> Rejection {
    rejection(name, format!("Predicate {name} failed: {why}"))
}

fn check_os(pod: &Value) -> Result<(), Rejection> {
    let label = pod.get("metadata").map("labels").str(OS_LABEL);
    if !label.is_empty() && label != OS {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Err(rejection("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    let field = pod.get("spec").get("os").str("name");
    if !field.is_empty() && field != OS {
        return Err(rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"));
    }
    Ok(())
}

fn check_groups_policy(pod: &Value, node: &Value) -> Result<(), Rejection> {
    let policy = pod.get("spec").get("securityContext").str("supplementalGroupsPolicy");
    if policy == "Strict" && !node.get("status").get("features").bool("supplementalGroupsPolicy") {
        let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
        return Err(rejection("SupplementalGroupsPolicyNotSupported", message));
    }
    Ok(())
}

/// Only what drives pods away matters to a node.
fn is_tolerated(taint: &Value, pod: &Value) -> bool {
    let mut tolerations = pod.get("spec").list("tolerations").iter();
    taint.str("effect") != "NoExecute" || tolerations.any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (effect, key) = (toleration.str("effect"), toleration.str("key"));
    if !effect.is_empty() && effect != taint.str("effect") || !key.is_empty() && key != taint.str("key") {
        return false;
    }
    let number = |value: &Value| value.str("value").parse::<i64>().ok();
    match toleration.str("operator") {
        "Exists" => true,
        "" | "Equal" => toleration.str("value") == taint.str("value"),
        "Lt" => number(taint).zip(number(toleration)).is_some_and(|(taint, limit)| taint < limit),
        "Gt" => number(taint).zip(number(toleration)).is_some_and(|(taint, limit)| taint > limit),
        _ => false,
    }
}

/// An amount as nodes count it: CPU in thousandths.
fn amount(resource: &str, quantity: &Quantity) -> i64 {
    if resource == "cpu" { quantity.milli_value() } else { quantity.value() }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn node() -> Value {
        let text = r#"{"metadata":{"name":"n","labels":{"zone":"a"}},
            "spec":{"taints":[{"key":"gone","effect":"NoExecute"},{"key":"x","effect":"NoSchedule"}]},
            "status":{"allocatable":{"cpu":"1","memory":"1Gi","pods":"2","example.com/gpu":"1"}}}"#;
        json::parse(text.as_bytes()).unwrap()
    }

    fn verdict(pod: &str, others: &[&str]) -> String {
        let mut usage = Usage::default();
        for (number, other) in others.iter().enumerate() {
            let other = json::parse(other.as_bytes()).unwrap();
            usage.add(&number.to_string(), Claim::of(&other));
        }
        let pod = json::parse(pod.as_bytes()).unwrap();
        match admit(&pod, &Claim::of(&pod), &node(), &usage) {
            Ok(()) => "ok".to_owned(),
            Err(why) => format!("{}: {}", why.reason, why.message),
        }
    }

    #[test]
    fn pods_are_taken_or_not() {
        let tolerates = r#""tolerations":[{"operator":"Exists"}]"#;
        let spec = |more: &str| format!(r#"{{"spec":{{"nodeName":"n",{tolerates}{more}}}}}"#);
        let asks = |resource: &str, amount: &str| {
            spec(&format!(r#","containers":[{{"resources":{{"requests":{{"{resource}":"{amount}"}}}}}}]"#))
        };
        let port = |ip: &str, port: u16| {
            spec(&format!(r#","containers":[{{"ports":[{{"hostPort":{port},"hostIP":"{ip}","protocol":"TCP"}}]}}]"#))
        };
        let short = "Node didn't have enough resource";
        let ports = "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        let affinity = "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        let table: Vec<(String, Vec<String>, String)> = vec![
            (spec(""), vec![], "ok".to_owned()),
            (
                spec(""),
                vec![spec(""), spec("")],
                format!("OutOfpods: {short}: pods, requested: 1, used: 2, capacity: 2"),
            ),
            (asks("cpu", "1"), vec![], "ok".to_owned()),
            (
                asks("cpu", "600m"),
                vec![asks("cpu", "500m")],
                format!("OutOfcpu: {short}: cpu, requested: 600, used: 500, capacity: 1000"),
            ),
            (
                asks("memory", "2Gi"),
                vec![],
                format!("OutOfmemory: {short}: memory, requested: 2147483648, used: 0, capacity: 1073741824"),
            ),
            (
                asks("example.com/gpu", "2"),
                vec![],
                format!("OutOfexample.com/gpu: {short}: example.com/gpu, requested: 2, used: 0, capacity: 1"),
            ),
            (asks("example.com/of-the-cluster", "2"), vec![], "ok".to_owned()),
            (port("", 80), vec![port("", 81)], "ok".to_owned()),
            (port("", 80), vec![port("", 80)], ports.to_owned()),
            (port("127.0.0.1", 80), vec![port("0.0.0.0", 80)], ports.to_owned()),
            (port("127.0.0.1", 80), vec![port("127.0.0.2", 80)], "ok".to_owned()),
            (spec(r#","nodeSelector":{"zone":"a"}"#), vec![], "ok".to_owned()),
            (spec(r#","nodeSelector":{"zone":"b"}"#), vec![], affinity.to_owned()),
            (
                r#"{"spec":{"nodeName":"n"}}"#.to_owned(),
                vec![],
                "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
                    .to_owned(),
            ),
            (
                spec(r#","os":{"name":"windows"}"#),
                vec![],
                "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS".to_owned(),
            ),
        ];
        for (pod, others, expected) in table {
            let others: Vec<&str> = others.iter().map(String::as_str).collect();
            assert_eq!(verdict(&pod, &others), expected, "{pod}");
        }
    }

    #[test]
    fn what_is_released_is_free_again() {
        let pod = json::parse(br#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}"#).unwrap();
        let (claim, mut usage) = (Claim::of(&pod), Usage::default());
        let node = node();
        usage.add("a", claim.clone());
        usage.add("a", claim.clone());
        assert!(usage.lacking(&claim, node.get("status").map("allocatable")).is_some());
        usage.remove("a");
        usage.remove("a");
        assert_eq!(usage.lacking(&claim, node.get("status").map("allocatable")), None);
        assert!(usage.is_empty());
    }
}
