//! From two answers of a node what it and its pods use, as `metrics.k8s.io` shows it.

use std::collections::BTreeMap;

use rkube_machinery::quantity::{Format, Quantity};
use rkube_machinery::{Text, Value, object, time};

use super::text::{Sample, Scrape};

/// A container that is younger than the pause between two looks has its beginning for the first of them, once it is this old.
const FRESH_MIN_MS: i64 = 10_000;
const FRESH_MAX_MS: i64 = 15_000;

/// What was said last, and before that.
#[derive(Clone, Debug, Default)]
pub struct History {
    last: Scrape,
    previous: Scrape,
}

/// A use of CPU and memory over a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Used {
    cpu_nanos: i64,
    memory_bytes: i64,
    at_ms: i64,
    window_ms: i64,
}

impl History {
    /// What is of the same moment as before says nothing new.
    pub fn add(&mut self, scrape: Scrape) {
        if scrape.node.at_ms > self.last.node.at_ms || self.last.node.at_ms == 0 {
            self.previous = std::mem::replace(&mut self.last, scrape);
        }
    }

    /// Whether two answers are there to compare.
    pub fn is_whole(&self) -> bool {
        self.previous.node.at_ms != 0
    }

    /// The node's use, as an object of kind NodeMetrics without `kind` and `apiVersion`.
    pub fn node(&self, metadata: Value) -> Option<Value> {
        let used = used(&self.last.node, Some(&self.previous.node))?;
        let mut shown = object! { "metadata": metadata };
        used.show_time(&mut shown);
        shown.set("usage", used.show());
        Some(shown)
    }

    /// The use of a pod, by namespace and name, if all of its containers are known.
    pub fn pod(&self, name: &(Text, Text)) -> Option<PodUse> {
        PodUse::of(self.last.pods.get(name)?, self.previous.pods.get(name))
    }
}

/// What the containers of a pod use.
pub struct PodUse(Vec<(Text, Used)>);

impl PodUse {
    fn of(containers: &BTreeMap<Text, Sample>, before: Option<&BTreeMap<Text, Sample>>) -> Option<PodUse> {
        let used = containers.iter().map(|(name, sample)| {
            let previous = before.and_then(|before| before.get(name));
            Some((name.clone(), used(sample, previous)?))
        });
        used.collect::<Option<Vec<_>>>().filter(|used| !used.is_empty()).map(PodUse)
    }

    /// As an object of kind PodMetrics without `kind` and `apiVersion`.
    pub fn show(&self, metadata: Value) -> Value {
        let mut shown = object! { "metadata": metadata };
        if let Some((_, earliest)) = self.0.iter().min_by_key(|(_, used)| used.at_ms) {
            earliest.show_time(&mut shown);
        }
        let containers = self.0.iter().map(|(name, used)| object! { "name": name.clone(), "usage": used.show() });
        shown.set("containers", containers.collect::<Vec<_>>());
        shown
    }
}

impl Used {
    fn show(&self) -> Value {
        let memory = Quantity::new(self.memory_bytes, Format::BinarySi).to_text();
        let cpu = if self.cpu_nanos == 0 { "0".to_owned() } else { format!("{}n", self.cpu_nanos) };
        object! { "cpu": cpu, "memory": memory }
    }

    fn show_time(&self, shown: &mut Value) {
        shown.set("timestamp", time::format_seconds(self.at_ms / 1000));
        shown.set("window", time::format_duration(self.window_ms * 1_000_000));
    }
}

/// None: there is nothing to compare with, or it began anew.
fn used(last: &Sample, previous: Option<&Sample>) -> Option<Used> {
    let (cpu, memory) = (last.cpu_seconds?, last.memory_bytes?);
    let begun = last.started_ms.filter(|started| (FRESH_MIN_MS..FRESH_MAX_MS).contains(&(last.at_ms - started)));
    let restarted = |previous: &&Sample| previous.started_ms == last.started_ms && previous.at_ms < last.at_ms;
    let (since, before) = match previous.filter(restarted) {
        Some(previous) => (previous.at_ms, previous.cpu_seconds?),
        None => (begun?, 0.0),
    };
    let window_ms = last.at_ms - since;
    if cpu < before || window_ms <= 0 {
        return None;
    }
    let cpu_nanos = ((cpu - before) / (window_ms as f64 / 1000.0) * 1e9) as i64;
    Some(Used { cpu_nanos, memory_bytes: memory as i64, at_ms: last.at_ms, window_ms })
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn scrape(at_ms: i64, node_cpu: f64, container_cpu: f64, started_ms: i64) -> Scrape {
        let text = format!(
            "node_cpu_usage_seconds_total {node_cpu} {at_ms}\n\
             node_memory_working_set_bytes 2097152 {at_ms}\n\
             container_cpu_usage_seconds_total{{container=\"c\",namespace=\"a\",pod=\"p\"}} {container_cpu} {at_ms}\n\
             container_memory_working_set_bytes{{container=\"c\",namespace=\"a\",pod=\"p\"}} 4096 {at_ms}\n\
             container_start_time_seconds{{container=\"c\",namespace=\"a\",pod=\"p\"}} {}\n",
            started_ms as f64 / 1000.0
        );
        Scrape::parse(&text, 0)
    }

    fn pod(history: &History) -> Option<String> {
        let used = history.pod(&("a".into(), "p".into()))?;
        Some(json::to_string(&used.show(Value::object())))
    }

    #[test]
    fn use_is_what_came_between_two_looks() {
        let mut history = History::default();
        history.add(scrape(100_000, 10.0, 1.0, 1_000));
        assert!(!history.is_whole() && history.node(Value::object()).is_none() && pod(&history).is_none());
        history.add(scrape(115_000, 13.0, 2.5, 1_000));
        let node = json::to_string(&history.node(Value::object()).unwrap());
        let expected = r#"{"metadata":{},"timestamp":"1970-01-01T00:01:55Z","window":"15s","usage":{"cpu":"200000000n","memory":"2Mi"}}"#;
        assert_eq!(json::parse(node.as_bytes()).unwrap(), json::parse(expected.as_bytes()).unwrap());
        assert!(pod(&history).unwrap().contains("100000000n"), "{:?}", pod(&history));
        // The same moment again says nothing new.
        history.add(scrape(115_000, 13.0, 2.5, 1_000));
        assert!(history.node(Value::object()).is_some());
        // A container that began again is left out until there is something to compare with.
        history.add(scrape(130_000, 14.0, 0.1, 128_000));
        assert!(pod(&history).is_none());
        history.add(scrape(139_000, 15.0, 0.65, 128_000));
        assert!(pod(&history).is_some());
    }

    #[test]
    fn a_young_container_has_its_beginning() {
        let mut history = History::default();
        history.add(scrape(100_000, 10.0, 1.0, 88_000));
        assert!(pod(&history).unwrap().contains("83333333n"), "{:?}", pod(&history));
    }
}
