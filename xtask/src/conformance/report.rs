//! Ginkgo's report, a JSON file that it writes at the end: the truth about every test.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::outcome::{Outcome, Verdict, is_named};

/// How much of what a test said is shown.
const LINES_MAX: usize = 20;

pub(super) struct Report(Value);

impl Report {
    pub fn read(file: &Path) -> Result<Report> {
        let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let value = serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", file.display()))?;
        Ok(Report(value))
    }

    pub fn outcome(&self, name: &str) -> Outcome {
        // Nobody names two tests the same; if somebody does, both have to pass.
        let specs = self.specs().filter(|spec| is_named(&text_of(spec), name));
        let outcomes = specs.map(|spec| self.outcome_of(spec, name));
        let worst = outcomes.max_by_key(|outcome| match outcome.verdict {
            Verdict::Passed => 0,
            Verdict::Skipped => 1,
            Verdict::Failed => 2,
        });
        worst.unwrap_or_else(|| Outcome {
            name: name.to_owned(),
            verdict: Verdict::Failed,
            seconds: None,
            reason: "e2e.test has no test of this name".to_owned(),
        })
    }

    fn outcome_of(&self, spec: &Value, name: &str) -> Outcome {
        let seconds = spec["RunTime"].as_f64().map(|nanoseconds| nanoseconds / 1e9);
        let (verdict, seconds, reason) = match (spec["State"].as_str(), message_of(spec)) {
            (Some("passed"), _) => (Verdict::Passed, seconds, String::new()),
            (Some("pending"), _) => (Verdict::Skipped, None, "pending".to_owned()),
            // What is not run is skipped too, and says nothing.
            (Some("skipped"), "") => (Verdict::Failed, None, self.why_not_run()),
            (Some("skipped"), message) => (Verdict::Skipped, seconds, message.to_owned()),
            _ => (Verdict::Failed, seconds, reason_of(spec)),
        };
        Outcome { name: name.to_owned(), verdict, seconds, reason }
    }

    /// The suite was ended before it, or never got so far.
    fn why_not_run(&self) -> String {
        let setup = self.all().find(|spec| is_setup(spec) && spec["State"] != "passed");
        match setup {
            Some(setup) => format!("not run: the suite's setup failed\n{}", reason_of(setup)),
            None => {
                let reasons = self.0[0]["SpecialSuiteFailureReasons"].as_array();
                let reasons = reasons.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("; ");
                format!("not run: {}", if reasons.is_empty() { "the suite ended before" } else { &reasons })
            }
        }
    }

    fn specs(&self) -> impl Iterator<Item = &Value> {
        self.all().filter(|spec| spec["LeafNodeType"] == "It")
    }

    /// With what is run before and after all tests.
    fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.as_array().into_iter().flatten().flat_map(|suite| suite["SpecReports"].as_array()).flatten()
    }
}

fn is_setup(spec: &Value) -> bool {
    spec["LeafNodeType"].as_str().is_some_and(|kind| kind.ends_with("BeforeSuite"))
}

fn text_of(spec: &Value) -> String {
    let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let texts = containers.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str);
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

fn message_of(spec: &Value) -> &str {
    spec["Failure"]["Message"].as_str().unwrap_or_default()
}

/// The failure, where it was, and the last that the test said before.
fn reason_of(spec: &Value) -> String {
    let location = &spec["Failure"]["Location"];
    let state = spec["State"].as_str().unwrap_or("unknown");
    let mut reason = match location["FileName"].as_str() {
        Some(file) => format!("{state} at {file}:{}", location["LineNumber"]),
        None => state.to_owned(),
    };
    for text in [last_lines(spec["CapturedGinkgoWriterOutput"].as_str()), first_lines(message_of(spec))] {
        if !text.is_empty() {
            reason.push('\n');
            reason.push_str(&text);
        }
    }
    reason
}

fn first_lines(text: &str) -> String {
    text.trim().lines().take(LINES_MAX).collect::<Vec<_>>().join("\n")
}

pub(super) fn last_lines(text: Option<&str>) -> String {
    let lines: Vec<&str> = text.unwrap_or_default().trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(text: &str, state: &str, message: &str) -> Value {
        json!({
            "ContainerHierarchyTexts": ["[sig-a]", "Things"], "LeafNodeText": text, "LeafNodeType": "It",
            "State": state, "RunTime": 1_500_000_000u64, "CapturedGinkgoWriterOutput": "said\n",
            "Failure": {"Message": message, "Location": {"FileName": "a.go", "LineNumber": 7}},
        })
    }

    fn report(setup: &str) -> Report {
        Report(json!([{"SpecReports": [
            {"LeafNodeType": "SynchronizedBeforeSuite", "State": setup, "Failure": {"Message": "no nodes"}},
            spec("work [Conformance]", "passed", ""),
            spec("break [Conformance]", "failed", "expected 1"),
            spec("take long", "timedout", "too long"),
            spec("need more", "skipped", "needs two nodes"),
            spec("wait", "skipped", ""),
        ]}]))
    }

    #[test]
    fn every_state_has_a_verdict() {
        let report = report("passed");
        let table = [
            ("work", Verdict::Passed, Some(1.5), ""),
            ("work [Conformance]", Verdict::Passed, Some(1.5), ""),
            ("break", Verdict::Failed, Some(1.5), "failed at a.go:7\nsaid\nexpected 1"),
            ("take long", Verdict::Failed, Some(1.5), "timedout at a.go:7\nsaid\ntoo long"),
            ("need more", Verdict::Skipped, Some(1.5), "needs two nodes"),
            ("wait", Verdict::Failed, None, "not run: the suite ended before"),
            ("fly", Verdict::Failed, None, "e2e.test has no test of this name"),
        ];
        for (name, verdict, seconds, reason) in table {
            let outcome = report.outcome(&format!("[sig-a] Things {name}"));
            assert_eq!(
                (outcome.verdict, outcome.seconds, outcome.reason.as_str()),
                (verdict, seconds, reason),
                "{name}"
            );
        }
    }

    #[test]
    fn a_broken_setup_is_the_reason_of_all() {
        let reason = report("failed").outcome("[sig-a] Things wait").reason;
        assert!(reason.starts_with("not run: the suite's setup failed") && reason.contains("no nodes"), "{reason}");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let text: String = (0..50).map(|number| format!("{number}\n")).collect();
        assert!(last_lines(Some(&text)).starts_with("30\n") && last_lines(Some(&text)).ends_with("\n49"));
    }
}
