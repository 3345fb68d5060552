//! What tables show of a job.

use rkube_machinery::selector::labels::Selector;
use rkube_machinery::{Value, time};

use crate::columns::{AGE, NAME, NONE, or, since};
use crate::kind::Column;

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Status", "Status of the job.", status),
    Column::text("Completions", "doc:io.k8s.api.batch.v1.JobStatus succeeded", completions),
    Column::text("Duration", "Time required to complete the job.", duration),
    AGE,
    Column::wide("Containers", CONTAINERS, |job, _| containers(job.get("spec"), "name")),
    Column::wide("Images", IMAGES, |job, _| containers(job.get("spec"), "image")),
    Column::wide("Selector", SELECTOR, |job, _| selector(job.get("spec"))),
];

pub(crate) const CONTAINERS: &str = "Names of each container in the template.";
pub(crate) const IMAGES: &str = "Images referenced by each container in the template.";
pub(crate) const SELECTOR: &str = "doc:io.k8s.api.batch.v1.JobSpec selector";

/// This field of all containers of a job spec.
pub(crate) fn containers(spec: &Value, field: &str) -> Value {
    let containers = spec.at(&["template", "spec"]).list("containers");
    let texts: Vec<&str> = containers.iter().map(|container| container.str(field)).collect();
    texts.join(",").into()
}

/// The selector of a job spec.
pub(crate) fn selector(spec: &Value) -> Value {
    match Selector::from_label_selector(spec.get("selector")) {
        Ok(selector) => or(&selector.to_string(), NONE).into(),
        Err(_) => "<error>".into(),
    }
}

fn status(job: &Value, _now: i64) -> Value {
    // The first condition of a type counts.
    let conditions = job.get("status").list("conditions");
    let has = |kind: &str| {
        let first = conditions.iter().find(|condition| condition.str("type") == kind);
        first.is_some_and(|condition| condition.str("status") == "True")
    };
    let ended = ["Complete", "Failed"].into_iter().find(|kind| has(kind));
    let waiting = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    match ended {
        Some(kind) => kind.into(),
        None if job.get("metadata").has("deletionTimestamp") => "Terminating".into(),
        None => waiting.into_iter().find(|kind| has(kind)).unwrap_or("Running").into(),
    }
}

fn completions(job: &Value, _now: i64) -> Value {
    let spec = job.get("spec");
    let succeeded = job.get("status").int("succeeded");
    match (spec.get("completions").as_int(), spec.int("parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
    .into()
}

fn duration(job: &Value, now: i64) -> Value {
    let status = job.get("status");
    let (start, end) = (status.str("startTime"), status.str("completionTime"));
    if start.is_empty() {
        return "".into();
    }
    match (time::parse(start), time::parse(end)) {
        (Ok((start, _)), Ok((end, _))) => time::human_duration(end - start).into(),
        _ => since(start, now).into(),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn states_in_order() {
        let condition = |kind: &str, status: &str| object! { "type": kind, "status": status };
        let table = [
            (vec![], "Running"),
            (vec![condition("Suspended", "True")], "Suspended"),
            (vec![condition("Suspended", "False"), condition("FailureTarget", "True")], "FailureTarget"),
            (vec![condition("SuccessCriteriaMet", "True"), condition("Complete", "True")], "Complete"),
            (vec![condition("Failed", "False"), condition("Failed", "True")], "Running"),
        ];
        for (conditions, want) in table {
            let job = object! { "status": object! { "conditions": conditions } };
            assert_eq!(status(&job, 0), Value::from(want));
        }
    }

    #[test]
    fn durations_and_completions() {
        let status =
            object! { "succeeded": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:05Z" };
        let job = object! { "spec": object! { "parallelism": 3 }, "status": status };
        assert_eq!(duration(&job, 0), Value::from("65s"));
        assert_eq!(completions(&job, 0), Value::from("1/1 of 3"));
        assert_eq!(duration(&Value::object(), 0), Value::from(""));
    }
}
