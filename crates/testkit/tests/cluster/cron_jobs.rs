//! CronJobs on simulated nodes, in virtual hours.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Event;
use rkube_operator::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Api, ResourceExt};
use rkube_testkit::{Faults, TestCluster};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

struct Crons {
    cluster: TestCluster,
}

impl Crons {
    async fn start() -> Crons {
        Crons { cluster: TestCluster::builder().nodes(3).virtual_time().start().await }
    }

    fn crons(&self) -> Api<CronJob> {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn create(&self, script: &str, spec: Value) {
        let containers = json!([{ "name": "main", "image": "busybox", "command": ["sh", "-c", script] }]);
        let template = json!({ "spec": { "restartPolicy": "Never", "containers": containers } });
        let mut cron = json!({ "metadata": { "name": "c" }, "spec": {
            "schedule": "*/5 * * * *", "jobTemplate": { "spec": { "template": template } },
        } });
        for (field, value) in spec.as_object().unwrap() {
            cron["spec"][field] = value.clone();
        }
        self.crons().create(&PostParams::default(), &serde_json::from_value(cron).unwrap()).await.unwrap();
    }

    async fn jobs(&self) -> Vec<Job> {
        let jobs = Api::<Job>::namespaced(self.cluster.client(), "default");
        jobs.list(&ListParams::default()).await.unwrap().items
    }

    /// The messages of the events for a reason.
    async fn told(&self, reason: &str) -> Vec<String> {
        let events = Api::<Event>::namespaced(self.cluster.client(), "default");
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.into_iter().filter(|one| one.reason.as_deref() == Some(reason)).filter_map(|one| one.message).collect()
    }

    /// From here on nobody can delete a Job: who is to be asked does not answer.
    async fn keep_jobs(&self) {
        let rule = json!({
            "apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["jobs"],
        });
        let webhook = json!({
            "name": "keep.example.com", "rules": [rule], "clientConfig": { "url": "https://127.0.0.1:1/" },
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        let configuration = json!({ "metadata": { "name": "keep" }, "webhooks": [webhook] });
        let configurations = Api::<ValidatingWebhookConfiguration>::all(self.cluster.client());
        let configuration = serde_json::from_value(configuration).unwrap();
        configurations.create(&PostParams::default(), &configuration).await.unwrap();
        self.cluster.advance(MINUTE).await;
    }

    async fn status(&self) -> Value {
        serde_json::to_value(self.crons().get("c").await.unwrap().status).unwrap()
    }
}

#[tokio::test]
async fn jobs_are_made_in_time_and_the_last_are_kept() {
    let crons = Crons::start().await;
    crons.create("sleep 10", json!({ "timeZone": "Europe/Berlin" })).await;
    crons.cluster.advance(61 * MINUTE).await;
    let jobs = crons.jobs().await;
    assert_eq!(jobs.len(), 3, "three that succeeded are kept");
    let status = crons.status().await;
    for job in &jobs {
        let at = &job.annotations()["batch.kubernetes.io/cronjob-scheduled-timestamp"];
        assert!(at.ends_with("0:00+01:00") || at.ends_with("5:00+01:00") || at.ends_with("+02:00"), "{at}");
        assert_eq!(job.owner_references()[0].kind, "CronJob");
    }
    assert!(status["lastScheduleTime"].is_string() && status["lastSuccessfulTime"].is_string());
    assert_eq!(status["active"], Value::Null);
    let suspend = Patch::Merge(json!({ "spec": { "suspend": true } }));
    crons.crons().patch("c", &PatchParams::default(), &suspend).await.unwrap();
    crons.cluster.advance(60 * MINUTE).await;
    assert_eq!(crons.status().await["lastScheduleTime"], status["lastScheduleTime"]);
}

#[tokio::test]
async fn jobs_that_still_run_are_left_refused_or_replaced() {
    // The policy, and how many Jobs run after a while.
    for (policy, running) in [("Allow", 4), ("Forbid", 1), ("Replace", 1)] {
        let crons = Crons::start().await;
        crons.create("sleep 100000", json!({ "concurrencyPolicy": policy })).await;
        crons.cluster.advance(20 * MINUTE + Duration::from_secs(30)).await;
        let jobs = crons.jobs().await;
        assert_eq!(jobs.len(), running, "{policy}");
        assert_eq!(crons.status().await["active"].as_array().unwrap().len(), running, "{policy}");
    }
}

/// What cannot be deleted is told of, and the schedule goes on.
#[tokio::test]
async fn jobs_that_cannot_be_deleted_do_not_stop_the_schedule() {
    let crons = Crons::start().await;
    crons.keep_jobs().await;
    crons.create("sleep 10", json!({ "successfulJobsHistoryLimit": 0 })).await;
    crons.cluster.advance(61 * MINUTE).await;
    let jobs = crons.jobs().await;
    assert_eq!(jobs.len(), 12, "one every five minutes");
    let failed = crons.told("FailedDelete").await;
    let expected = "Deleted job: Internal error occurred: failed calling webhook \"keep.example.com\"";
    assert!(failed.iter().any(|message| message.starts_with(expected)), "{expected} is none of {failed:#?}");
    assert_eq!(crons.told("SuccessfulDelete").await, Vec::<String>::new());
    let done = crons.told("SawCompletedJob").await;
    assert!(done.contains(&format!("Saw completed job: {}, condition: Complete", jobs[0].name_any())), "{done:#?}");
    assert_eq!(crons.status().await["active"], Value::Null);
}

#[tokio::test]
async fn a_job_that_cannot_be_replaced_stays_active() {
    let crons = Crons::start().await;
    crons.keep_jobs().await;
    crons.create("sleep 100000", json!({ "concurrencyPolicy": "Replace" })).await;
    crons.cluster.advance(8 * MINUTE).await;
    let before = crons.status().await;
    crons.cluster.advance(10 * MINUTE).await;
    assert_eq!(crons.jobs().await.len(), 1);
    assert_eq!(crons.status().await, before);
    assert_ne!(crons.told("FailedDelete").await, Vec::<String>::new());
}

/// Where caches are late, one that is to be replaced may be gone: it is not told of as if it had been deleted.
#[tokio::test]
async fn a_job_that_is_gone_is_not_replaced() {
    let faults = Faults { delayed_watches: 500, watch_delay_max: MINUTE, ..Faults::none() };
    let crons = Crons { cluster: TestCluster::builder().nodes(1).virtual_time().faults(faults).start().await };
    crons.create("sleep 100000", json!({ "concurrencyPolicy": "Replace" })).await;
    let jobs = Api::<Job>::namespaced(crons.cluster.client(), "default");
    let mut deleted = Vec::new();
    for _ in 0..12 {
        let now = crons.cluster.clock().now_micros();
        let until_due = 300_000_000 - now.rem_euclid(300_000_000);
        crons.cluster.advance(Duration::from_micros(until_due.unsigned_abs()) - Duration::from_millis(100)).await;
        for job in crons.jobs().await {
            jobs.delete(&job.name_any(), &DeleteParams::background()).await.unwrap();
            deleted.push(job.name_any());
        }
        crons.cluster.advance(MINUTE).await;
    }
    let told = crons.told("FailedGet").await;
    let expected = |name: &String| format!("Get job: jobs.batch \"{name}\" not found");
    assert!(deleted.iter().any(|name| told.contains(&expected(name))), "{deleted:?} {told:?}");
    let taken = crons.told("SuccessfulDelete").await;
    assert!(!deleted.iter().any(|name| taken.contains(&format!("Deleted job {name}"))), "{taken:?}");
}
