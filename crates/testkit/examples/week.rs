//! A virtual week of CronJobs, as `cargo xtask bench controllers` measures it: how many milliseconds it took, and what
//! happened. With the argument `faults` everything goes wrong in it at times.

use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::{CronJob, Job};
use rkube_operator::kube::Api;
use rkube_operator::kube::api::{ListParams, PostParams};
use rkube_testkit::{Faults, TestCluster};
use serde_json::json;

/// The binary's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CRON_JOBS: usize = 1_000;
/// One that has room for the pods of all CronJobs at once: what nodes cost that only renew their leases is a row of its own.
const NODE: &str = r#"{"kind": "Node", "status": {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "1100"}}}"#;
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Every CronJob fires in it, and its Job ends.
const AFTERWARDS: Duration = Duration::from_secs(7 * 60 * 60);

/// Nothing waits for sockets, so there are none to look at whenever time goes on.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(week())
}

#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement: the time is real, and its figures are the output"
)]
async fn week() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = TestCluster::builder().nodes(1).node_template(NODE).virtual_time();
    if std::env::args().nth(1).as_deref() == Some("faults") {
        builder = builder.faults(Faults::all());
    }
    let cluster = builder.start().await;
    let cron_jobs: Api<CronJob> = Api::namespaced(cluster.client(), "default");
    let containers = json!([{ "name": "main", "image": "busybox", "command": ["true"] }]);
    let pods = json!({ "spec": { "restartPolicy": "Never", "containers": containers } });
    for index in 0..CRON_JOBS {
        let made = json!({
            "metadata": { "name": format!("c-{index}") },
            "spec": { "schedule": "0 */6 * * *", "jobTemplate": { "spec": { "template": pods } } },
        });
        cron_jobs.create(&PostParams::default(), &serde_json::from_value(made)?).await?;
    }
    let begun = Instant::now();
    cluster.advance(WEEK).await;
    let milliseconds = begun.elapsed().as_millis();
    let mut noted = String::new();
    if let Some(chaos) = cluster.chaos() {
        noted = format!("; {} writes, {} faults", chaos.writes(), chaos.faults());
        cluster.end_faults().await;
        cluster.advance(AFTERWARDS).await;
    }
    let jobs = Api::<Job>::namespaced(cluster.client(), "default").list(&ListParams::default()).await?;
    let complete = jobs.iter().filter(|job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1)));
    let (complete, kept) = (complete.count(), jobs.items.len());
    let never = cron_jobs.list(&ListParams::default()).await?;
    let never =
        never.iter().filter(|one| one.status.as_ref().is_none_or(|status| status.last_successful_time.is_none()));
    let never = never.count();
    println!("{milliseconds} {complete} of {kept} Jobs that are kept succeeded, {never} CronJobs never did{noted}");
    Ok(())
}
