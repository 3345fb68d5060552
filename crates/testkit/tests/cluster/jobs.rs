//! Jobs on simulated nodes, from their creation to their end.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod, ResourceQuota};
use rkube_operator::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use rkube_operator::kube::{Api, ResourceExt};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

struct Jobs {
    cluster: TestCluster,
}

impl Jobs {
    async fn start() -> Jobs {
        Jobs { cluster: TestCluster::builder().nodes(3).virtual_time().start().await }
    }

    fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.cluster.client(), "default")
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), "default")
    }

    /// A Job whose pods run this script.
    async fn create(&self, name: &str, script: &str, spec: Value) {
        let containers = json!([{ "name": "main", "image": "busybox", "command": ["sh", "-c", script] }]);
        let mut job = json!({
            "metadata": { "name": name },
            "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": containers } } },
        });
        for (field, value) in spec.as_object().unwrap() {
            job["spec"][field] = value.clone();
        }
        self.jobs().create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    }

    async fn status(&self, name: &str) -> Value {
        serde_json::to_value(self.jobs().get(name).await.unwrap().status.unwrap()).unwrap()
    }

    /// Waits for the Job's end: its conditions and reasons, in order.
    async fn ended(&self, name: &str) -> Vec<(String, String)> {
        let status = self
            .cluster
            .eventually(&format!("{name} ends"), async || {
                let status = self.status(name).await;
                let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                let ended = conditions.iter().any(|one| one["type"] == "Complete" || one["type"] == "Failed");
                if ended { Ok(status) } else { Err(status.to_string()) }
            })
            .await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().map(|one| (text(&one["type"]), text(&one["reason"]))).collect()
    }

    async fn list(&self) -> Vec<Pod> {
        self.pods().list(&ListParams::default()).await.unwrap().items
    }

    async fn events(&self) -> Vec<(String, String)> {
        let events = Api::<Event>::namespaced(self.cluster.client(), "default");
        let all = events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let of_jobs = all.filter(|event| event.involved_object.kind.as_deref() == Some("Job"));
        of_jobs.map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

#[tokio::test]
async fn a_job_completes_and_its_pods_go_with_it() {
    let jobs = Jobs::start().await;
    jobs.create("j", "sleep 5", json!({ "completions": 5, "parallelism": 2 })).await;
    let reached = "CompletionsReached";
    assert_eq!(jobs.ended("j").await, pairs(&[("SuccessCriteriaMet", reached), ("Complete", reached)]));
    let status = jobs.status("j").await;
    assert_eq!((&status["succeeded"], &status["ready"], &status["terminating"]), (&json!(5), &json!(0), &json!(0)));
    assert_eq!((&status["active"], &status["failed"]), (&Value::Null, &Value::Null));
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert!(status["completionTime"].is_string());
    let pods = jobs.list().await;
    assert_eq!(pods.len(), 5);
    assert!(pods.iter().all(|pod| pod.finalizers().is_empty()));
    assert!(jobs.events().await.contains(&("Completed".to_owned(), "Job completed".to_owned())));

    let options = DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    jobs.jobs().delete("j", &options).await.unwrap();
    jobs.cluster.advance(MINUTE).await;
    assert!(jobs.list().await.is_empty());
}

#[tokio::test]
async fn indexes_are_done_once_each() {
    let jobs = Jobs::start().await;
    let spec = json!({ "completions": 7, "parallelism": 3, "completionMode": "Indexed" });
    jobs.create("j", "sleep 1", spec).await;
    jobs.ended("j").await;
    let status = jobs.status("j").await;
    assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0-6"), &json!(7)));
    let mut names: Vec<(String, String)> = Vec::new();
    for pod in jobs.list().await {
        let index = pod.annotations()["batch.kubernetes.io/job-completion-index"].clone();
        assert_eq!(pod.labels()["batch.kubernetes.io/job-completion-index"], index);
        assert!(pod.name_any().starts_with(&format!("j-{index}-")));
        names.push((index, pod.spec.unwrap().hostname.unwrap()));
    }
    names.sort();
    let expected: Vec<(String, String)> = (0..7).map(|index| (index.to_string(), format!("j-{index}"))).collect();
    assert_eq!(names, expected);
}

/// Pods that fail are made again after 10 s, 20 s and so on, until there were too many.
#[tokio::test]
async fn failing_pods_back_off_and_end_the_job() {
    let jobs = Jobs::start().await;
    jobs.create("j", "exit 1", json!({ "backoffLimit": 2 })).await;
    let reason = "BackoffLimitExceeded";
    assert_eq!(jobs.ended("j").await, pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    assert_eq!(jobs.status("j").await["failed"], 3);
    let mut made: Vec<i64> =
        jobs.list().await.iter().map(|pod| pod.creation_timestamp().unwrap().0.as_second()).collect();
    made.sort_unstable();
    let waits: Vec<i64> = made.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((10..=12).contains(&waits[0]) && (20..=22).contains(&waits[1]), "{waits:?}");
    let message = "Job has reached the specified backoff limit".to_owned();
    assert!(jobs.events().await.contains(&(reason.to_owned(), message)));
}

#[tokio::test]
async fn a_suspended_job_has_no_pods_until_it_goes_on() {
    let jobs = Jobs::start().await;
    jobs.create("j", "sleep 20", json!({ "suspend": true })).await;
    jobs.cluster.advance(MINUTE).await;
    assert!(jobs.list().await.is_empty());
    let status = jobs.status("j").await;
    assert_eq!((&status["conditions"][0]["reason"], &status["startTime"]), (&json!("JobSuspended"), &Value::Null));
    let suspend = async |suspend: bool| {
        let patch = Patch::Merge(json!({ "spec": { "suspend": suspend } }));
        jobs.jobs().patch("j", &PatchParams::default(), &patch).await.unwrap();
        jobs.cluster.advance(Duration::from_secs(5)).await;
    };
    suspend(false).await;
    assert_eq!(jobs.list().await.len(), 1);
    suspend(true).await;
    jobs.cluster.advance(MINUTE).await;
    assert!(jobs.list().await.is_empty(), "what runs is deleted");
    suspend(false).await;
    jobs.ended("j").await;
    let said: Vec<String> = jobs.events().await.into_iter().map(|(reason, _)| reason).collect();
    for reason in ["Suspended", "Resumed", "SuccessfulDelete", "Completed"] {
        assert!(said.iter().any(|one| one == reason), "{reason} {said:?}");
    }
}

#[tokio::test]
async fn a_failure_policy_ends_the_job_at_once() {
    let jobs = Jobs::start().await;
    let rule = json!({ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } });
    jobs.create("j", "exit 42", json!({ "podFailurePolicy": { "rules": [rule] } })).await;
    let reason = "PodFailurePolicy";
    assert_eq!(jobs.ended("j").await, pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    let (pod, status) = (jobs.list().await.remove(0).name_any(), jobs.status("j").await);
    let message =
        format!("Container main for pod default/{pod} failed with exit code 42 matching FailJob rule at index 0");
    assert_eq!(status["conditions"][0]["message"], message);
    assert_eq!(status["failed"], 1);
}

#[tokio::test]
async fn indexes_fail_each_for_itself() {
    let jobs = Jobs::start().await;
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    });
    jobs.create("j", "exit 1", spec).await;
    let reason = "FailedIndexes";
    assert_eq!(jobs.ended("j").await, pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    let status = jobs.status("j").await;
    assert_eq!((&status["failedIndexes"], &status["failed"]), (&json!("0-2"), &json!(6)));
    let failures = |pod: &Pod| pod.annotations()["batch.kubernetes.io/job-index-failure-count"].clone();
    let mut counts: Vec<String> = jobs.list().await.iter().map(failures).collect();
    counts.sort();
    assert_eq!(counts, ["0", "0", "0", "1", "1", "1"]);
}

#[tokio::test]
async fn enough_indexes_are_enough() {
    let jobs = Jobs::start().await;
    let spec = json!({
        "completions": 5, "parallelism": 2, "completionMode": "Indexed",
        "successPolicy": { "rules": [{ "succeededCount": 2 }] },
    });
    jobs.create("j", "sleep 3", spec).await;
    let reason = "SuccessPolicy";
    assert_eq!(jobs.ended("j").await, pairs(&[("SuccessCriteriaMet", reason), ("Complete", reason)]));
    assert_eq!(jobs.status("j").await["completedIndexes"], "0,1");
    assert_eq!(jobs.status("j").await["conditions"][0]["message"], "Matched rules at index 0");
}

#[tokio::test]
async fn a_job_that_takes_too_long_fails_and_goes_after_a_time() {
    let jobs = Jobs::start().await;
    let spec = json!({ "activeDeadlineSeconds": 30, "ttlSecondsAfterFinished": 3600, "parallelism": 2 });
    jobs.create("j", "sleep 3600", spec).await;
    let reason = "DeadlineExceeded";
    assert_eq!(jobs.ended("j").await, pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    jobs.cluster.advance(MINUTE).await;
    assert!(jobs.list().await.is_empty());
    jobs.cluster.advance(50 * MINUTE).await;
    assert!(jobs.jobs().get_opt("j").await.unwrap().is_some());
    jobs.cluster.advance(15 * MINUTE).await;
    assert!(jobs.jobs().get_opt("j").await.unwrap().is_none());
}

#[tokio::test]
async fn somebody_elses_job_is_left_alone() {
    let jobs = Jobs::start().await;
    jobs.create("j", "true", json!({ "managedBy": "example.com/other" })).await;
    jobs.cluster.advance(MINUTE).await;
    assert!(jobs.list().await.is_empty());
}

/// Pods that lose their labels are released and replaced; those that get them back are adopted.
#[tokio::test]
async fn pods_are_released_and_adopted() {
    let jobs = Jobs::start().await;
    jobs.create("j", "sleep 3600", json!({ "parallelism": 2, "completions": 2 })).await;
    jobs.cluster.advance(MINUTE).await;
    let pod = jobs.list().await.remove(0);
    let relabel = async |labels: Value| {
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        jobs.pods().patch(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
        jobs.cluster.advance(MINUTE).await;
    };
    let none: Value =
        pod.labels().keys().map(|key| (key.clone(), Value::Null)).collect::<serde_json::Map<_, _>>().into();
    relabel(none).await;
    let released = jobs.pods().get(&pod.name_any()).await.unwrap();
    assert!(released.owner_references().is_empty() && released.finalizers().is_empty());
    assert_eq!(jobs.list().await.len(), 3);
    relabel(json!(pod.labels())).await;
    let there = jobs.list().await;
    assert_eq!(there.len(), 2, "one too many is deleted");
    assert!(there.iter().all(|pod| pod.finalizers() == [FINALIZER] && pod.owner_references().len() == 1));
}

/// Whether a failure ends a Job whose other pods succeed at the same time is no matter of luck: all of them count. The test
/// plays the nodes.
#[tokio::test]
async fn pods_that_end_together_are_counted_together() {
    let jobs = Jobs { cluster: TestCluster::builder().virtual_time().start().await };
    let rule = json!({ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } });
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "podFailurePolicy": { "rules": [rule] },
    });
    jobs.create("j", "true", spec).await;
    jobs.cluster.advance(MINUTE).await;
    for (pod, code) in jobs.list().await.iter().zip([42, 0, 0]) {
        let container = json!({
            "name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": code } },
        });
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let ended = Patch::Merge(json!({ "status": { "phase": phase, "containerStatuses": [container] } }));
        jobs.pods().patch_status(&pod.name_any(), &PatchParams::default(), &ended).await.unwrap();
    }
    jobs.cluster.advance(MINUTE).await;
    let reason = "PodFailurePolicy";
    assert_eq!(jobs.ended("j").await, pairs(&[("FailureTarget", reason), ("Failed", reason)]));
    let status = jobs.status("j").await;
    assert_eq!((&status["failed"], &status["completedIndexes"]), (&json!(1), &json!("1,2")));
    assert!(jobs.events().await.iter().all(|(reason, _)| reason != "SuccessfulDelete"));
}

/// Who cannot make pods does not try at full speed: upstream waits for a second first.
#[tokio::test]
async fn a_job_over_quota_is_tried_again_bit_by_bit() {
    let jobs = Jobs::start().await;
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": "0" } } });
    let quotas = Api::<ResourceQuota>::namespaced(jobs.cluster.client(), "default");
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    jobs.cluster.advance(MINUTE).await;
    jobs.create("j", "true", json!({})).await;
    jobs.cluster.advance(Duration::from_secs(10)).await;
    // At 0, 1, 3 and 7 seconds, each with another name in its message.
    assert_eq!(jobs.events().await.iter().filter(|(reason, _)| reason == "FailedCreate").count(), 4);
}

/// A Job that wants very many pods gets them bit by bit, and the others are not kept waiting.
#[tokio::test]
async fn a_job_of_a_hundred_thousand_completions_holds_up_nobody() {
    // In virtual time all of them would be made before anything else is looked at.
    let jobs = Jobs { cluster: TestCluster::start().await };
    let spec = json!({ "completions": 100_000, "parallelism": 100_000, "completionMode": "Indexed" });
    jobs.create("many", "true", spec).await;
    jobs.create("few", "true", json!({})).await;
    let selected = ListParams::default().labels("batch.kubernetes.io/job-name=few");
    jobs.cluster
        .eventually("the pod of the other", async || {
            let pods = jobs.pods().list(&selected).await.map_err(|error| error.to_string())?;
            if pods.items.len() == 1 { Ok(()) } else { Err(format!("there are {}", pods.items.len())) }
        })
        .await;
    let there = jobs.pods().list_metadata(&ListParams::default()).await.unwrap().items.len();
    assert!(there < 50_000, "{there} were made before");
}
