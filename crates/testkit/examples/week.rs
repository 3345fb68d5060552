//! A virtual week of CronJobs, as `cargo xtask bench controllers` measures it: how many milliseconds it took, and what
//! happened.

use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::{CronJob, Job};
use rkube_operator::kube::Api;
use rkube_operator::kube::api::{ListParams, PostParams};
use rkube_testkit::TestCluster;
use serde_json::json;

const CRON_JOBS: usize = 1_000;
const NODES: usize = 20;
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement: the time is real, and its figures are the output"
)]
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = TestCluster::builder().nodes(NODES).virtual_time().start().await;
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
    let jobs = Api::<Job>::namespaced(cluster.client(), "default").list(&ListParams::default()).await?;
    let complete = jobs.iter().filter(|job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1)));
    let (complete, kept) = (complete.count(), jobs.items.len());
    let never = cron_jobs.list(&ListParams::default()).await?;
    let never =
        never.iter().filter(|one| one.status.as_ref().is_none_or(|status| status.last_successful_time.is_none()));
    println!("{milliseconds} {complete} of {kept} Jobs that are kept succeeded, {} CronJobs never did", never.count());
    Ok(())
}
