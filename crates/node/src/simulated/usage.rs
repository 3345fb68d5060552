//! What simulated pods and nodes use of CPU and memory, as `metrics.k8s.io` shows it: what annotations say (`cpu-usage`,
//! `memory-usage`), or half of what was asked for.

use rkube_machinery::quantity::{Format, Quantity};
use rkube_machinery::{Map, Value, json, object, time};

use super::behaviour::Settings;
use crate::pod::spec;

/// Over which time usage would be measured.
const WINDOW: &str = "15s";
/// Of a container that asks for nothing: thousandths of a CPU, and bytes.
const LEAST: Used = Used { cpu_milli: 1, memory_bytes: 8 << 20 };
/// Of a node without pods.
const IDLE: Used = Used { cpu_milli: 50, memory_bytes: 256 << 20 };

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    cpu_milli: i64,
    memory_bytes: i64,
}

impl Used {
    pub fn add(self, other: Used) -> Used {
        Used {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }

    fn to_value(self) -> Value {
        let cpu = Quantity::from_milli(self.cpu_milli, Format::DecimalSi).to_text();
        object! { "cpu": cpu, "memory": format!("{}Ki", self.memory_bytes / 1024) }
    }
}

/// A pod with no more than what it says of that.
fn parts(pod: &[u8]) -> Option<Value> {
    const PARTS: [&[&str]; 9] = [
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "labels"],
        &["metadata", "annotations"],
        &["spec", "initContainers"],
        &["spec", "containers"],
        &["status", "phase"],
        &["status", "initContainerStatuses"],
        &["status", "containerStatuses"],
    ];
    json::parse_parts(pod, &PARTS)
}

/// What the running containers of a pod use, by name; None of a pod that does not run.
fn of_containers(pod: &Value) -> Option<Vec<(&str, Used)>> {
    let status = pod.get("status");
    if status.str("phase") != "Running" {
        return None;
    }
    let statuses = || ["initContainerStatuses", "containerStatuses"].into_iter().flat_map(|list| status.list(list));
    let runs =
        |name: &str| statuses().any(|container| container.str("name") == name && container.get("state").has("running"));
    let settings = Settings::of(pod);
    let running = spec::containers(pod).into_iter().filter(|container| runs(container.name()));
    let used = running.map(|container| {
        let requests = container.value.get("resources").map("requests");
        let amount = |name: &str, resource: &str, read: fn(&Quantity) -> i64, least: i64| {
            let told = settings.of_container(container, name).and_then(|text| Quantity::parse(text).ok());
            told.map_or_else(|| half(requests, resource, read).unwrap_or(least), |told| read(&told))
        };
        let cpu_milli = amount("cpu-usage", "cpu", Quantity::milli_value, LEAST.cpu_milli);
        let memory_bytes = amount("memory-usage", "memory", Quantity::value, LEAST.memory_bytes);
        (container.name(), Used { cpu_milli, memory_bytes })
    });
    Some(used.collect())
}

fn half(requests: &Map, resource: &str, read: fn(&Quantity) -> i64) -> Option<i64> {
    let asked = Quantity::parse(requests.get(resource)?.as_str()).ok()?;
    Some(read(&asked) / 2).filter(|half| *half > 0)
}

/// What a pod uses as a whole.
pub fn of_pod(pod: &[u8]) -> Used {
    let pod = parts(pod).unwrap_or_default();
    let all = of_containers(&pod).unwrap_or_default();
    all.into_iter().fold(Used::default(), |sum, (_, used)| sum.add(used))
}

/// A pod as `metrics.k8s.io` shows it.
pub fn pod_metrics(pod: &[u8], now_seconds: i64) -> Option<Value> {
    let pod = parts(pod)?;
    let containers = of_containers(&pod)?;
    let containers: Vec<Value> =
        containers.into_iter().map(|(name, used)| object! { "name": name, "usage": used.to_value() }).collect();
    let metadata = pod.get("metadata");
    let mut head = object! { "name": metadata.str("name"), "namespace": metadata.str("namespace") };
    Some(shown(&mut head, metadata, now_seconds, ("containers", containers.into())))
}

/// A node with what its pods use.
pub fn node_metrics(node: &Value, pods: Used, now_seconds: i64) -> Value {
    let settings = Settings::of(node);
    let told = |name: &str| settings.text(name).and_then(|text| Quantity::parse(text).ok());
    let sum = IDLE.add(pods);
    let used = Used {
        cpu_milli: told("cpu-usage").map_or(sum.cpu_milli, |told| told.milli_value()),
        memory_bytes: told("memory-usage").map_or(sum.memory_bytes, |told| told.value()),
    };
    let metadata = node.get("metadata");
    shown(&mut object! { "name": metadata.str("name") }, metadata, now_seconds, ("usage", used.to_value()))
}

/// What was shown of a pod or of a node, at another time.
pub fn measured_at(mut metrics: Value, now_seconds: i64) -> Value {
    let now = time::format_seconds(now_seconds);
    metrics.object_mut("metadata").set("creationTimestamp", now.as_str());
    metrics.set("timestamp", now);
    metrics
}

fn shown(head: &mut Value, metadata: &Value, now_seconds: i64, (field, usage): (&str, Value)) -> Value {
    let now = time::format_seconds(now_seconds);
    head.set("creationTimestamp", now.as_str());
    if metadata.has("labels") {
        head.set("labels", metadata.get("labels").clone());
    }
    let mut shown = object! { "metadata": head.clone(), "timestamp": now, "window": WINDOW };
    shown.set(field, usage);
    shown
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn used(annotations: &str, resources: &str, phase: &str) -> Option<String> {
        let text = format!(
            r#"{{"metadata":{{"name":"p","namespace":"n","annotations":{{{annotations}}}}},
            "spec":{{"containers":[{{"name":"a","resources":{resources}}}]}},
            "status":{{"phase":"{phase}","containerStatuses":[{{"name":"a","state":{{"running":{{}}}}}}]}}}}"#
        );
        let metrics = pod_metrics(text.as_bytes(), 0)?;
        Some(json::to_string(metrics.list("containers")[0].get("usage")))
    }

    #[test]
    fn annotations_say_what_is_used() {
        let asked = r#"{"requests":{"cpu":"1","memory":"64Mi"}}"#;
        let told = r#""sim.rkube.io/cpu-usage":"250m","a.sim.rkube.io/memory-usage":"1Gi""#;
        assert_eq!(used("", "{}", "Running").unwrap(), r#"{"cpu":"1m","memory":"8192Ki"}"#);
        assert_eq!(used("", asked, "Running").unwrap(), r#"{"cpu":"500m","memory":"32768Ki"}"#);
        assert_eq!(used(told, asked, "Running").unwrap(), r#"{"cpu":"250m","memory":"1048576Ki"}"#);
        assert_eq!(used(told, asked, "Pending"), None);
    }

    #[test]
    fn what_is_shown_again_differs_by_its_time() {
        let node = json::parse(br#"{"metadata":{"name":"n","labels":{"x":"y"}}}"#).unwrap();
        let at = |seconds| node_metrics(&node, Used::default(), seconds);
        assert_eq!(json::to_string(&measured_at(at(0), 90)), json::to_string(&at(90)));
        assert_ne!(json::to_string(&at(0)), json::to_string(&at(90)));
    }

    #[test]
    fn a_node_uses_what_its_pods_do() {
        let node = json::parse(br#"{"metadata":{"name":"n","labels":{"x":"y"}}}"#).unwrap();
        let metrics = node_metrics(&node, Used { cpu_milli: 950, memory_bytes: 768 << 20 }, 0);
        assert_eq!(json::to_string(metrics.get("usage")), r#"{"cpu":"1","memory":"1048576Ki"}"#);
        assert_eq!(metrics.get("metadata").map("labels").str("x"), "y");
    }
}
