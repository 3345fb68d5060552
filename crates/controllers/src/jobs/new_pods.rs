//! The pods that a Job makes of its template.

use serde_json::{Value, json};

use crate::jobs::plan::NewPod;
use crate::owner::{Owner, Template};
use crate::pods::{COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES, TRACKING};

const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// What a name may have before what is generated.
const GENERATED_NAME_MAX: usize = 58;

pub fn bodies(owner: Owner<'_>, new: &[NewPod]) -> serde_json::Result<Vec<Value>> {
    let mut template = Template::of(owner.item)?;
    let finalizers = template.metadata.entry("finalizers").or_insert(json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|known| known == TRACKING)
    {
        list.push(TRACKING.into());
    }
    if new.iter().any(|pod| pod.index.is_some()) {
        for containers in ["initContainers", "containers"] {
            let containers = template.spec.get_mut(containers).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(add_variable);
        }
    }
    let plain = owner.pod(&template);
    Ok(new.iter().map(|new| body(plain.clone(), &owner.item.name, *new)).collect())
}

fn add_variable(container: &mut Value) {
    let path = format!("metadata.labels['{COMPLETION_INDEX}']");
    let variable = json!({ "name": INDEX_VARIABLE, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    match container.get_mut("env").and_then(Value::as_array_mut) {
        Some(known) if known.iter().any(|one| one["name"] == INDEX_VARIABLE) => {}
        Some(known) => known.push(variable),
        None => container["env"] = json!([variable]),
    }
}

fn body(mut pod: Value, job: &str, new: NewPod) -> Value {
    let Some(index) = new.index else { return pod };
    pod["metadata"]["generateName"] = generated_name(job, index).into();
    pod["metadata"]["labels"][COMPLETION_INDEX] = index.to_string().into();
    pod["metadata"]["annotations"][COMPLETION_INDEX] = index.to_string().into();
    if let Some((failures, ignored)) = new.failures {
        pod["metadata"]["annotations"][INDEX_FAILURES] = failures.to_string().into();
        if ignored > 0 {
            pod["metadata"]["annotations"][INDEX_IGNORED_FAILURES] = ignored.to_string().into();
        }
    }
    pod["spec"]["hostname"] = format!("{job}-{index}").into();
    pod
}

fn generated_name(job: &str, index: i64) -> String {
    let end = format!("-{index}-");
    let kept = GENERATED_NAME_MAX.saturating_sub(end.len()).min(job.len());
    format!("{}{end}", job.get(..kept).unwrap_or(job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_index_and_fit() {
        assert_eq!(generated_name("job", 7), "job-7-");
        assert_eq!(generated_name(&"a".repeat(63), 12), format!("{}-12-", "a".repeat(54)));
    }

    #[test]
    fn a_pod_knows_its_index() {
        let plain = json!({ "metadata": {}, "spec": { "containers": [] } });
        let pod = body(plain, "j", NewPod { index: Some(3), failures: Some((2, 1)) });
        assert_eq!(pod["spec"]["hostname"], "j-3");
        assert_eq!(pod["metadata"]["labels"], json!({ COMPLETION_INDEX: "3" }));
        let annotations = json!({ COMPLETION_INDEX: "3", INDEX_FAILURES: "2", INDEX_IGNORED_FAILURES: "1" });
        assert_eq!(pod["metadata"]["annotations"], annotations);
        let mut container = json!({ "env": [{ "name": INDEX_VARIABLE, "value": "mine" }] });
        let before = container.clone();
        add_variable(&mut container);
        assert_eq!(container, before);
    }
}
