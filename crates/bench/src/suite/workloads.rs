//! What the cluster does with workloads: many short pods, many that last, those of a node that is lost; and controllers
//! that have nothing to do.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::controllers::{self, NODES, SETTLED_AFTER, ready_nodes, until};
use super::servers::Rkube;
use super::{Suite, progress};
use crate::client::{Call, MERGE_PATCH, Server};
use crate::figures;

const COMPLETIONS: usize = 10_000;
const PARALLELISM: usize = 500;
const JOB_MILLISECONDS: f64 = 30_000.0;
const STATEFUL: usize = 1_000;
const STATEFUL_MILLISECONDS: f64 = 5_000.0;
const LOST_PODS: usize = 500;
const LOST_MILLISECONDS: f64 = 3_000.0;
/// How long pods stand it that their node is lost.
const TOLERATION: Duration = Duration::from_secs(2);
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const CONTROLLERS_MEGABYTES: f64 = 10.0;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

pub async fn run(suite: &mut Suite) -> Result<()> {
    job(suite).await?;
    stateful_set(suite).await?;
    lost_node(suite).await?;
    idle(suite).await
}

async fn job(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::JOB) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "job", &["--sim-nodes", &NODES.to_string()]).await?;
    ready_nodes(&rkube.server, NODES).await?;
    let containers = json!([{ "name": "main", "image": "busybox", "command": ["true"] }]);
    let spec = json!({ "completions": COMPLETIONS, "parallelism": PARALLELISM,
                       "template": { "spec": { "restartPolicy": "Never", "containers": containers } } });
    let job = json!({ "metadata": { "name": "many" }, "spec": spec });
    let begun = Instant::now();
    rkube.server.once(Call::post(JOBS, job.to_string())).await?;
    until(&rkube.server, &format!("{JOBS}/many"), |job| job["status"]["completionTime"].is_string()).await?;
    let (milliseconds, cpu) = (begun.elapsed().as_secs_f64() * 1e3, rkube.process.cpu_seconds()?);
    progress(&format!("{}: {milliseconds:.0} ms, {cpu:.1} s of CPU", figures::JOB.name));
    suite.row(&figures::JOB, milliseconds, Some(JOB_MILLISECONDS), format!("{cpu:.1} s of CPU"));
    Ok(())
}

async fn stateful_set(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::STATEFUL_SET) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "stateful", &["--sim-nodes", &NODES.to_string()]).await?;
    ready_nodes(&rkube.server, NODES).await?;
    let mut set = controllers::object("many", STATEFUL);
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    let begun = Instant::now();
    rkube.server.once(Call::post(STATEFUL_SETS, set.to_string())).await?;
    until(&rkube.server, &format!("{STATEFUL_SETS}/many"), |set| set["status"]["readyReplicas"] == STATEFUL).await?;
    let (milliseconds, cpu) = (begun.elapsed().as_secs_f64() * 1e3, rkube.process.cpu_seconds()?);
    progress(&format!("{}: {milliseconds:.0} ms, {cpu:.1} s of CPU", figures::STATEFUL_SET.name));
    suite.row(&figures::STATEFUL_SET, milliseconds, Some(STATEFUL_MILLISECONDS), format!("{cpu:.1} s of CPU"));
    Ok(())
}

/// All pods are on one node, because there is no other one; then others come, and the first is lost.
async fn lost_node(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::LOST_NODE) {
        return Ok(());
    }
    // Nodes that many pods fit on, and that are missed soon.
    let template = suite.directory.path().join("node.yaml");
    let room = json!({ "cpu": "64", "memory": "256Gi", "pods": "1000" });
    let annotations = json!({ "sim.rkube.io/lease-duration": "4s" });
    let node = json!({ "kind": "Node", "metadata": { "annotations": annotations }, "status": { "capacity": room } });
    std::fs::write(&template, node.to_string())?;
    let template = template.display().to_string();
    let flags = [
        "--node-monitor-period=500ms",
        "--node-monitor-grace-period=6s",
        // A node has addresses for all of them.
        "--node-cidr-mask-size=22",
        "--sim-node-template",
        &template,
        "--sim-nodes",
        "3",
    ];
    let rkube = Rkube::start(suite, "lost", &flags).await?;
    let server = &rkube.server;
    ready_nodes(server, 3).await?;
    let list: Value = serde_json::from_slice(&server.once(Call::get("/api/v1/nodes")).await?)?;
    let names =
        list["items"].as_array().context("no nodes")?.iter().filter_map(|node| node["metadata"]["name"].as_str());
    let names: Vec<String> = names.map(|name| format!("/api/v1/nodes/{name}")).collect();
    let (lost, others) = names.split_first().context("no nodes")?;
    for other in others {
        patch(server, other, &json!({ "spec": { "unschedulable": true } })).await?;
    }
    let mut deployment = controllers::object("lost", LOST_PODS);
    let toleration = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION.as_secs() });
    deployment["spec"]["template"]["spec"]["tolerations"] =
        json!([toleration(UNREACHABLE), toleration("node.kubernetes.io/not-ready")]);
    server.once(Call::post(controllers::DEPLOYMENTS, deployment.to_string())).await?;
    controllers::available(server, "lost", LOST_PODS).await?;
    for other in others {
        patch(server, other, &json!({ "spec": { "unschedulable": null } })).await?;
    }
    patch(server, lost, &json!({ "metadata": { "annotations": { "sim.rkube.io/fault": "lost" } } })).await?;
    until(server, lost, |node| {
        let taints = node["spec"]["taints"].as_array();
        taints.is_some_and(|all| all.iter().any(|one| one["key"] == UNREACHABLE && one["effect"] == "NoExecute"))
    })
    .await?;
    let tainted = Instant::now();
    // Those of the lost node are said not to be ready: from there on the others are all that count.
    let deployment = format!("{}/lost", controllers::DEPLOYMENTS);
    until(server, &deployment, |found| found["status"]["availableReplicas"] != LOST_PODS).await?;
    controllers::available(server, "lost", LOST_PODS).await?;
    let milliseconds = (tainted.elapsed().as_secs_f64() - TOLERATION.as_secs_f64()).max(0.0) * 1e3;
    progress(&format!("{}: {milliseconds:.0} ms", figures::LOST_NODE.name));
    let note = format!("the taint was tolerated for {} s", TOLERATION.as_secs());
    suite.row(&figures::LOST_NODE, milliseconds, Some(LOST_MILLISECONDS), note);
    Ok(())
}

async fn patch(server: &Server, path: &str, patch: &Value) -> Result<()> {
    let body = Bytes::from(patch.to_string());
    let call = Call { method: Method::PATCH, content_type: MERGE_PATCH, body, ..Call::get(path) };
    server.once(call).await.map(drop)
}

/// A process with all controllers beside one without any.
async fn idle(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::IDLE_CONTROLLERS) {
        return Ok(());
    }
    let all = Rkube::start(suite, "all-controllers", super::NO_SCHEDULER).await?;
    let none = Rkube::start(suite, "no-controllers", controllers::SERVER_ONLY).await?;
    tokio::time::sleep(SETTLED_AFTER * 2).await;
    let seconds = if suite.options.quick { 10 } else { 30 };
    let before = (all.process.cpu_seconds()?, none.process.cpu_seconds()?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let percent = |now: f64, before: f64| (now - before) * 100.0 / seconds as f64;
    let (of_all, of_none) =
        (percent(all.process.cpu_seconds()?, before.0), percent(none.process.cpu_seconds()?, before.1));
    let (of_all_bytes, of_none_bytes) = (all.process.resident_bytes()?.1, none.process.resident_bytes()?.1);
    let megabytes = (of_all_bytes as f64 - of_none_bytes as f64) / 1e6;
    progress(&format!("{}: {megabytes:.1} MB, {of_all:.2}% beside {of_none:.2}%", figures::IDLE_CONTROLLERS.name));
    let note = format!("beyond --controllers=; {of_all:.2}% of a core beside {of_none:.2}%, over {seconds} s");
    suite.row(&figures::IDLE_CONTROLLERS, megabytes, Some(CONTROLLERS_MEGABYTES), note);
    Ok(())
}
