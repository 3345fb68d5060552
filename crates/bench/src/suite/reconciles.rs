//! How long controllers look at what they have nothing to do about: a label of an object is changed, and whoever sees that
//! finds everything as it should be.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use rkube_operator::kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Api, core::GroupVersionKind};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

use super::{Suite, progress};
use crate::figures;

const DEPLOYMENTS: usize = 1_000;
const OF_EACH: usize = 200;
/// Of a controller that was asked less often nothing can be said.
const ASKED_MIN: f64 = OF_EACH as f64 / 2.0;
/// Who does nothing for so long has nothing to do.
const QUIET: Duration = Duration::from_secs(1);
const LIMIT_MICROS: f64 = 50.0;

pub async fn run(suite: &mut Suite) -> Result<()> {
    if suite.wants(&figures::RECONCILE) {
        let cluster = TestCluster::start().await;
        let deployments = Kind::new("apps/v1", "Deployment");
        deployments.fill(&cluster, DEPLOYMENTS, deployment).await?;
        let times = touched(&cluster, &[deployments]).await?;
        let (count, micros) = times.get("deployment-controller").context("no controller of Deployments")?;
        progress(&format!("{}: {micros:.1} µs", figures::RECONCILE.name));
        suite.row(&figures::RECONCILE, *micros, None, format!("the mean of {count}, one replica each"));
    }
    if suite.wants(&figures::RECONCILES) {
        let cluster = TestCluster::builder().nodes(10).start().await;
        let kinds = fill_all(&cluster).await?;
        let times = touched(&cluster, &kinds).await?;
        let mut times: Vec<_> = times.into_iter().filter(|(_, (count, _))| *count >= ASKED_MIN).collect();
        times.sort_by(|(_, (_, one)), (_, (_, other))| other.total_cmp(one));
        let (slowest, (_, micros)) = times.first().context("nothing was reconciled")?;
        let all: Vec<String> = times.iter().map(|(name, (_, micros))| format!("{name} {micros:.1}")).collect();
        progress(&format!("{}: {}", figures::RECONCILES.name, all.join(", ")));
        let note = format!("{slowest}, of {} controllers", times.len());
        suite.row(&figures::RECONCILES, *micros, Some(LIMIT_MICROS), note);
    }
    Ok(())
}

struct Kind {
    resource: ApiResource,
    namespace: Option<&'static str>,
}

impl Kind {
    fn new(version: &str, kind: &str) -> Kind {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Kind { resource, namespace: Some("default") }
    }

    fn api(&self, cluster: &TestCluster) -> Api<DynamicObject> {
        match self.namespace {
            Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &self.resource),
            None => Api::all_with(cluster.client(), &self.resource),
        }
    }

    async fn fill(&self, cluster: &TestCluster, count: usize, make: impl Fn(&str) -> Value) -> Result<()> {
        let api = self.api(cluster);
        for index in 0..count {
            let name = format!("{}-{index}", self.resource.kind.to_lowercase());
            let mut object = make(&name);
            object["metadata"]["name"] = json!(name);
            object["apiVersion"] = json!(self.resource.api_version);
            object["kind"] = json!(self.resource.kind);
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        }
        Ok(())
    }
}

/// Some of every kind that a controller keeps, and the kinds.
async fn fill_all(cluster: &TestCluster) -> Result<Vec<Kind>> {
    let job = json!({ "template": pods(&json!({})) , "suspend": true });
    let cron = json!({ "schedule": "0 0 1 1 *", "jobTemplate": { "spec": job } });
    let claim = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let volume = json!({ "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
                         "storageClassName": "none", "hostPath": { "path": "/x" } });
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment-0" });
    let scaler = json!({ "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 1 });
    let table: Vec<(&str, &str, Value)> = vec![
        ("batch/v1", "Job", json!({ "spec": job })),
        ("batch/v1", "CronJob", json!({ "spec": cron })),
        ("v1", "Service", json!({ "spec": { "selector": { "app": "deployment-0" }, "ports": [{ "port": 80 }] } })),
        ("v1", "PersistentVolumeClaim", json!({ "spec": claim })),
        ("v1", "ServiceAccount", json!({})),
        ("policy/v1", "PodDisruptionBudget", json!({ "spec": { "minAvailable": 1, "selector": {} } })),
        ("autoscaling/v2", "HorizontalPodAutoscaler", json!({ "spec": scaler })),
        ("v1", "ResourceQuota", json!({ "spec": { "hard": { "count/secrets": "1000" } } })),
    ];
    let mut kinds = Vec::new();
    for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
        let kind = Kind::new("apps/v1", kind);
        let with_replicas = kind.resource.kind != "DaemonSet";
        kind.fill(cluster, OF_EACH, |name| workload(name, with_replicas)).await?;
        kinds.push(kind);
    }
    kinds.push(Kind::new("apps/v1", "ReplicaSet"));
    for (version, kind, object) in table {
        let kind = Kind::new(version, kind);
        kind.fill(cluster, OF_EACH, |_| object.clone()).await?;
        kinds.push(kind);
    }
    for (kind, object) in [("PersistentVolume", json!({ "spec": volume })), ("Namespace", json!({}))] {
        let kind = Kind { namespace: None, ..Kind::new("v1", kind) };
        kind.fill(cluster, OF_EACH, |_| object.clone()).await?;
        kinds.push(kind);
    }
    Ok(kinds)
}

/// Changes a label of all objects of these kinds. How often each controller then looked, and for how long on average.
async fn touched(cluster: &TestCluster, kinds: &[Kind]) -> Result<BTreeMap<String, (f64, f64)>> {
    let before = settle(cluster).await?;
    for kind in kinds {
        // Endpoints have the labels of their Service, and ReplicaSets the annotations of their Deployment: those are work.
        let field = if kind.resource.kind == "Service" { "annotations" } else { "labels" };
        let patch = Patch::Merge(json!({ "metadata": { field: { "looked": "at" } } }));
        let api = kind.api(cluster);
        for object in api.list_metadata(&ListParams::default()).await? {
            let name = object.metadata.name.context("an object without a name")?;
            api.patch_metadata(&name, &PatchParams::default(), &patch).await?;
        }
    }
    let after = settle(cluster).await?;
    let mut means = BTreeMap::new();
    for (name, (count, seconds)) in after {
        let (count_before, seconds_before) = before.get(&name).copied().unwrap_or_default();
        let count = count - count_before;
        if count > 0.0 {
            means.insert(name, (count, (seconds - seconds_before) * 1e6 / count));
        }
    }
    Ok(means)
}

/// How often each controller has reconciled so far, and how many seconds that took.
fn reconciles(cluster: &TestCluster) -> Result<BTreeMap<String, (f64, f64)>> {
    let mut all: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for line in cluster.metrics().lines() {
        let Some(rest) = line.strip_prefix("controller_runtime_reconcile_time_seconds_") else { continue };
        let Some((what, rest)) = rest.split_once("{controller=\"") else { continue };
        let Some((name, value)) = rest.split_once("\"} ") else { continue };
        let known = all.entry(name.to_owned()).or_default();
        match what {
            "count" => known.0 = value.parse()?,
            "sum" => known.1 = value.parse()?,
            _ => {}
        }
    }
    Ok(all)
}

/// Waits until nothing is reconciled any more.
async fn settle(cluster: &TestCluster) -> Result<BTreeMap<String, (f64, f64)>> {
    let mut last = BTreeMap::new();
    // Some look again and again, at all times.
    for _ in 0..30 {
        let now = reconciles(cluster)?;
        let counts = |all: &BTreeMap<String, (f64, f64)>| all.values().map(|(count, _)| count).sum::<f64>();
        if counts(&now) - counts(&last) < 10.0 {
            return Ok(now);
        }
        last = now;
        tokio::time::sleep(QUIET).await;
    }
    Ok(last)
}

fn deployment(name: &str) -> Value {
    workload(name, true)
}

fn workload(name: &str, with_replicas: bool) -> Value {
    let labels = json!({ "app": name });
    let mut spec = json!({ "selector": { "matchLabels": labels }, "template": pods(&labels) });
    if with_replicas {
        spec["replicas"] = json!(1);
    } else {
        spec["template"]["spec"]["nodeSelector"] = json!({ "no": "where" });
    }
    json!({ "spec": spec })
}

fn pods(labels: &Value) -> Value {
    json!({ "metadata": { "labels": labels },
            "spec": { "restartPolicy": if labels.get("app").is_some() { "Always" } else { "Never" },
                      "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] } })
}
