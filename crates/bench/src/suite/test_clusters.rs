//! Clusters in a test's own process: how soon one is there, and many.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::join_all;
use rkube_operator::k8s_openapi::api::apps::v1::Deployment;
use rkube_operator::kube::Api;
use rkube_operator::kube::api::{Patch, PatchParams, PostParams};
use rkube_testkit::TestCluster;
use serde_json::json;
use tokio::time::Instant;

use super::{Suite, progress};
use crate::figures;

/// One after another.
const STARTS: usize = 21;
const AT_ONCE: usize = 100;
/// Who does nothing for so long has nothing to do.
const QUIET: Duration = Duration::from_secs(1);

/// Of whom every one is looked at, and none is to be changed.
const DEPLOYMENTS: usize = 1_000;
const CONTROLLER: &str = "deployment-controller";

pub async fn run(suite: &mut Suite) -> Result<()> {
    if suite.wants(&figures::RECONCILE) {
        Box::pin(reconcile(suite)).await?;
    }
    if suite.wants(&figures::TEST_CLUSTER) {
        let mut milliseconds = Vec::new();
        for _ in 0..STARTS {
            let begun = Instant::now();
            let cluster = TestCluster::start().await;
            milliseconds.push(begun.elapsed().as_secs_f64() * 1e3);
            cluster.shutdown().await;
        }
        let first = milliseconds[0];
        milliseconds.sort_by(f64::total_cmp);
        let median = milliseconds[STARTS / 2];
        progress(&format!("{}: {median:.1} ms", figures::TEST_CLUSTER.name));
        let note = format!("median of {STARTS}; the first, which makes keys: {first:.1} ms");
        suite.row(&figures::TEST_CLUSTER, median, None, note);
    }
    if suite.wants(&figures::TEST_CLUSTERS) {
        let before = resident_bytes()?;
        let begun = Instant::now();
        let clusters: Vec<_> = (0..AT_ONCE).map(|_| tokio::spawn(TestCluster::start())).collect();
        let clusters = join_all(clusters).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        let each = (resident_bytes()? - before) / 1e6 / AT_ONCE as f64;
        progress(&format!("{}: {milliseconds:.0} ms, {each:.1} MB each", figures::TEST_CLUSTERS.name));
        suite.row(&figures::TEST_CLUSTERS, milliseconds, None, format!("{each:.1} MB of resident memory each"));
        drop(clusters);
    }
    Ok(())
}

/// A label of the Deployment itself is nothing that its controller has to do anything about.
async fn reconcile(suite: &mut Suite) -> Result<()> {
    let cluster = TestCluster::start().await;
    let deployments = Api::<Deployment>::namespaced(cluster.client(), "default");
    for index in 0..DEPLOYMENTS {
        let made = serde_json::from_value(deployment(&format!("d-{index}")))?;
        deployments.create(&PostParams::default(), &made).await?;
    }
    settle(&cluster).await?;
    let before = Reconciles::read(&cluster)?;
    for index in 0..DEPLOYMENTS {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "looked": "at" } } }));
        deployments.patch(&format!("d-{index}"), &PatchParams::default(), &patch).await?;
    }
    let after = settle(&cluster).await?;
    let count = after.count - before.count;
    anyhow::ensure!(count >= DEPLOYMENTS as f64, "only {count} reconciles");
    let micros = (after.seconds - before.seconds) * 1e6 / count;
    progress(&format!("{}: {micros:.1} µs", figures::RECONCILE.name));
    suite.row(&figures::RECONCILE, micros, None, format!("the mean of {count}, one replica each"));
    Ok(())
}

/// What a controller has done so far.
#[derive(Clone, Copy, PartialEq)]
struct Reconciles {
    count: f64,
    seconds: f64,
}

impl Reconciles {
    fn read(cluster: &TestCluster) -> Result<Reconciles> {
        let text = cluster.metrics();
        let value = |suffix: &str| {
            let name = format!("controller_runtime_reconcile_time_seconds_{suffix}{{controller=\"{CONTROLLER}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            Ok::<f64, anyhow::Error>(line.with_context(|| format!("no {name}in the metrics"))?.parse()?)
        };
        Ok(Reconciles { count: value("count")?, seconds: value("sum")? })
    }
}

/// Waits until nothing is reconciled any more.
async fn settle(cluster: &TestCluster) -> Result<Reconciles> {
    let mut last = None;
    loop {
        let now = Reconciles::read(cluster)?;
        if last == Some(now) {
            return Ok(now);
        }
        last = Some(now);
        tokio::time::sleep(QUIET).await;
    }
}

fn deployment(name: &str) -> serde_json::Value {
    let labels = json!({ "app": name });
    let template = json!({ "metadata": { "labels": labels },
                           "spec": { "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] } });
    json!({ "metadata": { "name": name },
            "spec": { "selector": { "matchLabels": labels }, "template": template } })
}

/// Of this process.
fn resident_bytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 =
        status.split_whitespace().nth(1).context("the kernel does not say how much is resident")?.parse()?;
    Ok(pages * 4096.0)
}
