//! What simulated nodes are made of: a Node as people write it, whose annotations under `sim.rkube.io/` say how it and
//! its pods behave.
//!
//! `{index}` in a label or annotation stands for the node's number, `{index%3}` for the rest of a division.

use std::time::Duration;

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Text, Value, object, yaml};

use super::behaviour::{self, Settings};

/// More nodes than that would do nothing but renew their leases.
pub const NODES_MAX: usize = 10_000;
/// What nodes are called that are not called otherwise.
const NAME: &str = "sim";
const STOP_DELAY: Duration = Duration::from_millis(500);
const LEASE_DURATION: Duration = Duration::from_secs(40);

/// The annotations that nodes have.
const KNOWN: [&str; 8] = [
    "fault",
    "fault-period",
    "stop-delay",
    "lease-duration",
    "unavailable-images",
    "events",
    "cpu-usage",
    "memory-usage",
];

#[derive(Clone, Debug)]
pub struct Template {
    node: Value,
    pub stop_delay: Duration,
    pub lease_duration: Duration,
    /// Patterns in the place of the usual ones.
    pub unavailable_images: Option<Vec<String>>,
    /// Whether events are written about pods.
    pub events: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is no YAML: {0}")]
    Syntax(String),
    #[error("it is a {0}, and should be a Node")]
    Kind(String),
    #[error("{0}")]
    Value(String),
}

impl Default for Template {
    fn default() -> Self {
        Template {
            node: Value::object(),
            stop_delay: STOP_DELAY,
            lease_duration: LEASE_DURATION,
            unavailable_images: None,
            events: true,
        }
    }
}

impl Template {
    pub fn parse(text: &[u8]) -> Result<Template, Error> {
        let node = yaml::parse(text).map_err(|error| Error::Syntax(error.to_string()))?;
        let kind = node.str("kind");
        if kind != "Node" {
            return Err(Error::Kind(if kind.is_empty() { "document without a kind" } else { kind }.to_owned()));
        }
        for list in ["capacity", "allocatable"] {
            for (name, amount) in node.get("status").map(list).iter() {
                Quantity::parse(amount.as_str())
                    .map_err(|error| Error::Value(format!("status.{list}.{name}: \"{}\": {error}", amount.as_str())))?;
            }
        }
        for list in ["labels", "annotations"] {
            if let Some((name, _)) = node.get("metadata").map(list).iter().find(|(_, value)| !is_text(value)) {
                return Err(Error::Value(format!("metadata.{list}.{name} is no text: put it in quotes")));
            }
        }
        for name in node.get("metadata").map("annotations").keys() {
            let own = name.strip_prefix(behaviour::PREFIX);
            if let Some(own) = own.filter(|own| !KNOWN.contains(own)) {
                return Err(Error::Value(format!("there is no annotation {own}: there are {}", KNOWN.join(", "))));
            }
        }
        let settings = Settings::of(&node);
        let duration = |name: &str, default: Duration| match settings.text(name) {
            None => Ok(default),
            Some(text) => behaviour::duration(text)
                .ok_or_else(|| Error::Value(format!("annotation {name}: \"{text}\" is no duration such as 500ms"))),
        };
        Ok(Template {
            stop_delay: duration("stop-delay", STOP_DELAY)?,
            lease_duration: duration("lease-duration", LEASE_DURATION)?.max(Duration::from_secs(1)),
            unavailable_images: settings.text("unavailable-images").map(patterns),
            events: settings.text("events") != Some("false"),
            node,
        })
    }

    /// The name of the node of this number.
    pub fn name(&self, index: usize) -> Text {
        let metadata = self.node.get("metadata");
        let given =
            [metadata.str("name"), metadata.str("generateName"), NAME].into_iter().find(|name| !name.is_empty());
        format!("{}-{index}", given.unwrap_or(NAME).trim_end_matches('-')).into()
    }

    /// Labels or annotations of the node of this number.
    pub fn texts(&self, field: &str, index: usize) -> Map {
        let texts = self.node.get("metadata").map(field).iter();
        Map::sorted(texts.map(|(key, text)| (key.clone(), filled(text.as_str(), index).into())).collect())
    }

    pub fn taints(&self) -> &[Value] {
        self.node.get("spec").list("taints")
    }

    pub fn capacity(&self) -> Value {
        let mut capacity = object! {
            "cpu": "8", "ephemeral-storage": "100Gi", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "memory": "32Gi",
            "pods": "110",
        };
        overlay(&mut capacity, self.node.get("status").map("capacity"));
        capacity
    }

    /// As much as there is, unless less was said.
    pub fn allocatable(&self) -> Value {
        let mut allocatable = self.capacity();
        overlay(&mut allocatable, self.node.get("status").map("allocatable"));
        allocatable
    }
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::String(_))
}

fn patterns(text: &str) -> Vec<String> {
    text.split(',').map(|pattern| pattern.trim().to_owned()).filter(|pattern| !pattern.is_empty()).collect()
}

fn overlay(amounts: &mut Value, given: &Map) {
    for (name, amount) in given.iter() {
        // A number without a unit may be written as one.
        let text = match amount.as_int() {
            Some(number) => number.to_string(),
            None => amount.as_str().to_owned(),
        };
        amounts.set(name, text);
    }
}

fn filled(text: &str, index: usize) -> String {
    let text = text.replace("{index}", &index.to_string());
    let Some((before, rest)) = text.split_once("{index%") else { return text };
    match rest.split_once('}').map(|(divisor, after)| (divisor.parse::<usize>(), after)) {
        Some((Ok(divisor), after)) if divisor > 0 => format!("{before}{}{after}", index % divisor),
        _ => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_a_node() {
        let text = "
kind: Node
metadata:
  name: edge
  labels: {zone: 'z{index%3}', rack: 'r-{index}'}
  annotations: {sim.rkube.io/stop-delay: 2s, sim.rkube.io/unavailable-images: 'a*, b*', sim.rkube.io/events: 'false'}
spec: {taints: [{key: x, effect: NoSchedule}]}
status: {capacity: {cpu: '2', example.com/gpu: '4'}, allocatable: {memory: 1Gi}}
";
        let template = Template::parse(text.as_bytes()).unwrap();
        assert_eq!(template.name(4), "edge-4");
        let labels = template.texts("labels", 4);
        assert_eq!((labels.str("zone"), labels.str("rack")), ("z1", "r-4"));
        assert_eq!(template.stop_delay.as_secs(), 2);
        assert_eq!(template.unavailable_images, Some(vec!["a*".to_owned(), "b*".to_owned()]));
        assert!(!template.events);
        assert_eq!(template.taints().len(), 1);
        let (capacity, allocatable) = (template.capacity(), template.allocatable());
        assert_eq!((capacity.str("cpu"), capacity.str("memory"), capacity.str("example.com/gpu")), ("2", "32Gi", "4"));
        assert_eq!((allocatable.str("cpu"), allocatable.str("memory")), ("2", "1Gi"));
        assert_eq!(Template::default().name(0), "sim-0");
    }

    #[test]
    fn what_is_wrong_with_a_template_is_said() {
        let table = [
            ("kind: Pod", "it is a Pod, and should be a Node"),
            ("{}", "it is a document without a kind, and should be a Node"),
            (
                "{kind: Node, status: {capacity: {cpu: many}}}",
                "status.capacity.cpu: \"many\": quantities must match the regular expression",
            ),
            ("{kind: Node, metadata: {annotations: {sim.rkube.io/x: z}}}", "there is no annotation x: there are fault"),
            (
                "{kind: Node, metadata: {annotations: {sim.rkube.io/stop-delay: soon}}}",
                "annotation stop-delay: \"soon\" is no duration such as 500ms",
            ),
        ];
        for (text, expected) in table {
            let error = Template::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let unquoted = Template::parse(b"{kind: Node, metadata: {labels: {x: yes}}}").unwrap_err();
        assert_eq!(unquoted.to_string(), "metadata.labels.x is no text: put it in quotes");
        assert!(Template::parse(b"a: [").is_err());
    }
}
