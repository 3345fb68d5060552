//! What a node says at `/metrics/resource`, in Prometheus' text form.

use std::collections::BTreeMap;

use rkube_machinery::Text;

/// What something has used of the CPU since it began, and uses of memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub cpu_seconds: Option<f64>,
    pub memory_bytes: Option<f64>,
    /// When that was so, by the node's clock.
    pub at_ms: i64,
    /// When it began, where that is said.
    pub started_ms: Option<i64>,
}

/// All of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrape {
    pub node: Sample,
    /// By namespace and name of the pod.
    pub pods: BTreeMap<(Text, Text), BTreeMap<Text, Sample>>,
}

impl Scrape {
    /// Lines that say something else are left out. `now_ms`: for lines without a time.
    pub fn parse(text: &str, now_ms: i64) -> Scrape {
        let mut scrape = Scrape::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(line) = Line::parse(line) {
                scrape.take(&line, now_ms);
            }
        }
        scrape
    }

    fn take(&mut self, line: &Line<'_>, now_ms: i64) {
        let (what, quantity) = match line.name.split_once('_') {
            Some((what @ ("node" | "container"), quantity)) => (what, quantity),
            _ => return,
        };
        let sample = if what == "node" {
            &mut self.node
        } else {
            let (pod, container) = ((line.label("namespace"), line.label("pod")), line.label("container"));
            if container.is_empty() {
                return;
            }
            self.pods.entry(pod).or_default().entry(container).or_default()
        };
        match quantity {
            "cpu_usage_seconds_total" => sample.cpu_seconds = Some(line.value),
            "memory_working_set_bytes" => sample.memory_bytes = Some(line.value),
            "start_time_seconds" => {
                sample.started_ms = Some((line.value * 1000.0) as i64);
                return;
            }
            _ => return,
        }
        // Both are of the same moment, or nearly.
        sample.at_ms = sample.at_ms.max(line.at_ms.unwrap_or(now_ms));
    }
}

/// `name{label="value",…} value time`.
struct Line<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
    at_ms: Option<i64>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Line<'a>> {
        let (name, labels, rest) = match line.split_once('{') {
            Some((name, rest)) => {
                let (labels, rest) = rest.rsplit_once('}')?;
                (name, labels, rest)
            }
            None => {
                let (name, rest) = line.split_once(' ')?;
                (name, "", rest)
            }
        };
        let mut words = rest.split_ascii_whitespace();
        let value: f64 = words.next()?.parse().ok()?;
        let at_ms = words.next().and_then(|text| text.parse().ok());
        value.is_finite().then_some(Line { name, labels, value, at_ms })
    }

    /// Names in Kubernetes need no escapes.
    fn label(&self, wanted: &str) -> Text {
        let mut pairs = self.labels.split("\",").filter_map(|pair| pair.split_once("=\""));
        let found = pairs.find(|(name, _)| name.trim() == wanted);
        found.map(|(_, value)| Text::new(value.trim_end_matches('"'))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let text = "# TYPE node_cpu_usage_seconds_total counter\n\
            node_cpu_usage_seconds_total 10.5 1000\n\
            node_memory_working_set_bytes 1.048576e+06 1001\n\
            container_cpu_usage_seconds_total{container=\"c\",namespace=\"a\",pod=\"p\"} 2 900\n\
            container_memory_working_set_bytes{container=\"c\",namespace=\"a\",pod=\"p\"} 4096 900\n\
            container_start_time_seconds{container=\"c\",namespace=\"a\",pod=\"p\"} 0.5\n\
            pod_cpu_usage_seconds_total{namespace=\"a\",pod=\"p\"} 2 900\n\
            container_swap_usage_bytes{container=\"c\",namespace=\"a\",pod=\"p\"} 4 900\n\
            container_cpu_usage_seconds_total{container=\"d\",namespace=\"a\",pod=\"p\"} NaN\n\
            scrape_error 0\nnonsense\n";
        let scrape = Scrape::parse(text, 5);
        let node = Sample { cpu_seconds: Some(10.5), memory_bytes: Some(1_048_576.0), at_ms: 1001, started_ms: None };
        assert_eq!(scrape.node, node);
        let pod = &scrape.pods[&("a".into(), "p".into())];
        let container =
            Sample { cpu_seconds: Some(2.0), memory_bytes: Some(4096.0), at_ms: 900, started_ms: Some(500) };
        assert_eq!(pod.iter().collect::<Vec<_>>(), [(&Text::from("c"), &container)]);
    }
}
