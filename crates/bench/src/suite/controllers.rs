//! What the cluster does by itself: a Deployment from its creation to its end, scheduling, and doing nothing.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::servers::Rkube;
use super::{Suite, progress, work};
use crate::client::{Call, Connection, JSON, Protocol, Server};
use crate::figures;
use crate::load::{self, Load};

const REPLICAS: usize = 5_000;
pub(super) const NODES: usize = 100;
/// How long a simulated node takes for the end of a pod, by default.
const GRACE_MILLISECONDS: f64 = 500.0;
const SCHEDULED: usize = 10_000;
const MANY_NODES: usize = 1_000;
const IDLE_DEPLOYMENTS: usize = 1_000;
/// Nothing here takes so long.
const TIMEOUT: Duration = Duration::from_secs(180);
/// How often it is asked whether all is done.
const POLL: Duration = Duration::from_millis(10);
/// After so long allocators have settled, and nothing is left to do.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// Nothing runs beside the API server.
pub(super) const SERVER_ONLY: &[&str] = &["--controllers=", "--no-scheduler"];

pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";

pub async fn run(suite: &mut Suite) -> Result<()> {
    deployment(suite).await?;
    schedule(suite).await?;
    idle(suite).await
}

async fn deployment(suite: &mut Suite) -> Result<()> {
    let wanted = [&figures::DEPLOYMENT, &figures::DEPLOYMENT_GONE, &figures::POD_MEMORY];
    if !wanted.iter().any(|work| suite.wants(work)) {
        return Ok(());
    }
    let nodes = NODES.to_string();
    let everything = ["--sim-nodes", &nodes];
    let rkube = Rkube::start(suite, "deployment", &everything).await?;
    ready_nodes(&rkube.server, NODES).await?;
    let begun = Instant::now();
    rkube.server.once(Call::post(DEPLOYMENTS, object("big", REPLICAS).to_string())).await?;
    available(&rkube.server, "big", REPLICAS).await?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    let cpu = rkube.process.cpu_seconds()?;
    progress(&format!("{}: {milliseconds:.0} ms, {cpu:.1} s of CPU", figures::DEPLOYMENT.name));
    suite.row(&figures::DEPLOYMENT, milliseconds, None, format!("{cpu:.1} s of CPU"));
    drop(rkube);

    // Each in a process that has found everything at its start: what was computed on the way there is no part of it.
    let with_all = resident_after_start(suite, &everything).await?;
    let server_only = resident_after_start(suite, SERVER_ONLY).await?;
    let kilobytes = (with_all - server_only) / REPLICAS as f64 / 1e3;
    progress(&format!("{}: {kilobytes:.1} kB", figures::POD_MEMORY.name));
    let note = format!("{:.1} MB with {REPLICAS} pods, {:.1} MB the server alone", with_all / 1e6, server_only / 1e6);
    suite.row(&figures::POD_MEMORY, kilobytes, None, note);

    let rkube = Rkube::again(suite, "deployment", &everything).await?;
    ready_nodes(&rkube.server, NODES).await?;
    available(&rkube.server, "big", REPLICAS).await?;
    let begun = Instant::now();
    let path = format!("{DEPLOYMENTS}/big");
    rkube.server.once(Call { method: Method::DELETE, body: Bytes::new(), ..Call::post(path, "") }).await?;
    none_left(&rkube.server, PODS).await?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3 - GRACE_MILLISECONDS;
    progress(&format!("{}: {milliseconds:.0} ms", figures::DEPLOYMENT_GONE.name));
    suite.row(&figures::DEPLOYMENT_GONE, milliseconds, None, "from the delete, less 0.5 s of grace".to_owned());
    Ok(())
}

async fn resident_after_start(suite: &Suite, arguments: &[&str]) -> Result<f64> {
    let rkube = Rkube::again(suite, "deployment", arguments).await?;
    tokio::time::sleep(SETTLED_AFTER).await;
    Ok(rkube.process.resident_bytes()?.1 as f64)
}

/// The pods are there before the scheduler is, and so are the nodes, which nobody runs pods on.
async fn schedule(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::SCHEDULE) {
        return Ok(());
    }
    let controllers = "--controllers=*,-pod-garbage-collector-controller";
    let rkube = Rkube::start(suite, "schedule", &[controllers, "--no-scheduler"]).await?;
    work::prepare(&rkube.server, work::NAMESPACE).await?;
    fill(&rkube.server, MANY_NODES, |index| Call::post("/api/v1/nodes", node(index).to_string())).await?;
    ready_nodes(&rkube.server, MANY_NODES).await?;
    fill(&rkube.server, SCHEDULED, |index| Call::post(PODS, pod(index).to_string())).await?;
    drop(rkube);
    let begun = Instant::now();
    let rkube = Rkube::again(suite, "schedule", &[controllers]).await?;
    none_left(&rkube.server, &format!("{PODS}?fieldSelector=spec.nodeName%3D")).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let after_start = SCHEDULED as f64 / (seconds - rkube.ready_after.as_secs_f64());
    let rate = SCHEDULED as f64 / seconds;
    progress(&format!("{}: {rate:.0}/s, {after_start:.0}/s after the start", figures::SCHEDULE.name));
    let note = format!("with the start of the process, {:.0} ms", rkube.ready_after.as_secs_f64() * 1e3);
    suite.row(&figures::SCHEDULE, rate, None, note);
    Ok(())
}

async fn idle(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::IDLE_CLUSTER) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "idle", &["--sim-nodes", &MANY_NODES.to_string()]).await?;
    ready_nodes(&rkube.server, MANY_NODES).await?;
    let make = |index: usize| Call::post(DEPLOYMENTS, object(&format!("d-{index}"), 1).to_string());
    fill(&rkube.server, IDLE_DEPLOYMENTS, make).await?;
    none_left(&rkube.server, &format!("{PODS}?fieldSelector=status.phase!%3DRunning")).await?;
    tokio::time::sleep(SETTLED_AFTER * 2).await;
    let seconds = if suite.options.quick { 10 } else { 30 };
    let before = rkube.process.cpu_seconds()?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let percent = (rkube.process.cpu_seconds()? - before) * 100.0 / seconds as f64;
    let (all, _) = rkube.process.resident_bytes()?;
    progress(&format!("{}: {percent:.1}%", figures::IDLE_CLUSTER.name));
    let note = format!("over {seconds} s; {:.0} MB resident", all as f64 / 1e6);
    suite.row(&figures::IDLE_CLUSTER, percent, None, note);
    Ok(())
}

pub(super) fn object(name: &str, replicas: usize) -> Value {
    let labels = json!({ "app": name });
    let containers = json!([{ "name": "main", "image": "registry.k8s.io/pause:3.10",
                              "resources": { "requests": { "cpu": "10m", "memory": "10Mi" } } }]);
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
    let spec = json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template });
    json!({ "metadata": { "name": name }, "spec": spec })
}

fn pod(index: usize) -> Value {
    let containers = json!([{ "name": "main", "image": "registry.k8s.io/pause:3.10",
                              "resources": { "requests": { "cpu": "100m", "memory": "100Mi" } } }]);
    json!({ "metadata": { "name": format!("pod-{index}") }, "spec": { "containers": containers } })
}

fn node(index: usize) -> Value {
    let name = format!("node-{index}");
    let labels =
        json!({ "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", index % 3) });
    let room = json!({ "cpu": "32", "memory": "64Gi", "pods": "110" });
    let conditions = json!([{ "type": "Ready", "status": "True", "reason": "KubeletReady" }]);
    let status = json!({ "capacity": room, "allocatable": room, "conditions": conditions });
    json!({ "metadata": { "name": name, "labels": labels }, "status": status })
}

/// Makes so many objects, numbered.
pub(super) async fn fill(
    server: &Server,
    count: usize,
    make: impl Fn(usize) -> Call + Send + Sync + 'static,
) -> Result<()> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let make = move |_, _| make(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let made = load::drive(server, Load { count, ..Load::of(64, TIMEOUT) }, make).await?;
    anyhow::ensure!(made.requests == count, "only {} objects could be made in time", made.requests);
    Ok(())
}

pub(super) async fn ready_nodes(server: &Server, count: usize) -> Result<()> {
    let is_ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array();
        let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
        ready.is_some_and(|ready| ready["status"] == "True")
            && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
    };
    until(server, "/api/v1/nodes", |list| {
        list["items"].as_array().is_some_and(|items| items.iter().filter(|node| is_ready(node)).count() >= count)
    })
    .await
    .context("the nodes do not get ready")
}

pub(super) async fn available(server: &Server, name: &str, replicas: usize) -> Result<()> {
    until(server, &format!("{DEPLOYMENTS}/{name}"), |found| found["status"]["availableReplicas"] == replicas)
        .await
        .context("the Deployment is not available")
}

/// `path` may have a selector.
pub(super) async fn none_left(server: &Server, path: &str) -> Result<()> {
    let limit = if path.contains('?') { "&limit=1" } else { "?limit=1" };
    until(server, &format!("{path}{limit}"), |list| list["items"].as_array().is_some_and(Vec::is_empty)).await
}

pub(super) async fn until(server: &Server, path: &str, is_done: impl Fn(&Value) -> bool) -> Result<()> {
    let mut connection = server.connect(Protocol::Http1).await?;
    let waiting = async {
        while !is_done(&answer(&mut connection, path).await?) {
            tokio::time::sleep(POLL).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(TIMEOUT, waiting).await.with_context(|| format!("not in time: {path}"))?
}

async fn answer(connection: &mut Connection, path: &str) -> Result<Value> {
    use http_body_util::BodyExt as _;
    let answer = connection.send(&Call { accept: JSON, ..Call::get(path.to_owned()) }).await?;
    Ok(serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?)
}
