//! What users do: they make, change and delete objects of all kinds that controllers look after.

use std::time::Duration;

use http::{Method, Request};
use rkube_machinery::host::Entropy as _;
use rkube_operator::kube::Client;
use serde_json::{Value, json};

use crate::Chaos;
use crate::host::SeededEntropy;

/// So that users are another stream than faults and names of the same seed.
const STREAM: u64 = 0x3e55_0a5e_11b0_0c4d;
const NAMESPACES: [&str; 2] = ["default", "team"];
/// Of each kind there are at most so many; then one goes.
const EACH_MAX: usize = 4;

/// Kinds that users make, by plural, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Service,
    Budget,
    Namespace,
}

const KINDS: [Kind; 8] = [
    Kind::Deployment,
    Kind::StatefulSet,
    Kind::DaemonSet,
    Kind::Job,
    Kind::CronJob,
    Kind::Service,
    Kind::Budget,
    Kind::Namespace,
];

impl Kind {
    fn collection(self, namespace: &str) -> String {
        let (group, plural) = match self {
            Kind::Deployment => ("apis/apps/v1", "deployments"),
            Kind::StatefulSet => ("apis/apps/v1", "statefulsets"),
            Kind::DaemonSet => ("apis/apps/v1", "daemonsets"),
            Kind::Job => ("apis/batch/v1", "jobs"),
            Kind::CronJob => ("apis/batch/v1", "cronjobs"),
            Kind::Service => ("api/v1", "services"),
            Kind::Budget => ("apis/policy/v1", "poddisruptionbudgets"),
            Kind::Namespace => return "/api/v1/namespaces".to_owned(),
        };
        format!("/{group}/namespaces/{namespace}/{plural}")
    }

    fn prefix(self) -> &'static str {
        match self {
            Kind::Deployment => "web",
            Kind::StatefulSet => "db",
            Kind::DaemonSet => "agent",
            Kind::Job => "job",
            Kind::CronJob => "cron",
            Kind::Service => "svc",
            Kind::Budget => "pdb",
            Kind::Namespace => "ns",
        }
    }
}

/// Something that users made.
#[derive(Clone)]
struct Made {
    kind: Kind,
    namespace: &'static str,
    name: String,
}

impl Made {
    fn path(&self) -> String {
        format!("{}/{}", self.kind.collection(self.namespace), self.name)
    }
}

pub(super) struct Workload {
    client: Client,
    dice: SeededEntropy,
    made: Vec<Made>,
    count: u64,
}

impl Workload {
    pub fn new(client: Client, seed: u64) -> Workload {
        Workload { client, dice: SeededEntropy::new(seed ^ STREAM), made: Vec::new(), count: 0 }
    }

    pub fn a_while(&self, max: Duration) -> Duration {
        Duration::from_millis(self.below(u64::try_from(max.as_millis()).unwrap_or(u64::MAX)) + 1)
    }

    fn below(&self, end: u64) -> u64 {
        self.dice.next_u64() % end.max(1)
    }

    fn pick<T: Clone>(&self, from: &[T]) -> Option<T> {
        from.get(usize::try_from(self.below(from.len() as u64)).unwrap_or(0)).cloned()
    }

    /// One thing that a user does.
    pub async fn act(&mut self, chaos: &Chaos) {
        match self.below(20) {
            0..=7 => self.create(chaos).await,
            8..=11 => self.change(chaos).await,
            12..=13 => self.scale(chaos).await,
            14..=15 => self.delete(chaos).await,
            16 => self.delete_pod(chaos).await,
            17..=18 => self.evict_pod(chaos).await,
            _ => self.make_cycle(chaos).await,
        }
    }

    /// Nothing begins by itself any more.
    pub async fn end(&mut self) {
        for cron_job in self.made.iter().filter(|made| made.kind == Kind::CronJob) {
            self.patch(&cron_job.path(), &json!({ "spec": { "suspend": true } })).await;
        }
    }

    async fn create(&mut self, chaos: &Chaos) {
        let Some(kind) = self.pick(&KINDS) else { return };
        let of_kind: Vec<usize> = (0..self.made.len()).filter(|place| self.made[*place].kind == kind).collect();
        if of_kind.len() >= EACH_MAX {
            let made = self.made.remove(of_kind[0]);
            return self.remove(&made, chaos).await;
        }
        self.count += 1;
        let namespace = if kind == Kind::Namespace { "" } else { self.pick(&NAMESPACES).unwrap_or("default") };
        let made = Made { kind, namespace, name: format!("{}-{}", kind.prefix(), self.count) };
        chaos.note(&format!("user: create {}", made.path()));
        if namespace == "team" {
            self.send(Method::POST, "/api/v1/namespaces", &json!({ "metadata": { "name": "team" } })).await;
        }
        let object = self.object(&made);
        self.send(Method::POST, &kind.collection(namespace), &object).await;
        if kind == Kind::Namespace {
            self.fill(&made.name).await;
        }
        self.made.push(made);
    }

    fn object(&self, made: &Made) -> Value {
        let name = made.name.as_str();
        let metadata = json!({ "name": name, "labels": { "app": name } });
        let selector = json!({ "matchLabels": { "app": name } });
        let spec = match made.kind {
            Kind::Deployment => json!({
                "replicas": self.below(6), "selector": selector, "template": self.template(name),
                "strategy": self.strategy(), "minReadySeconds": self.below(2) * 5,
            }),
            Kind::StatefulSet => json!({
                "replicas": self.below(4), "selector": selector, "template": self.template(name), "serviceName": name,
                "podManagementPolicy": if self.below(3) == 0 { "Parallel" } else { "OrderedReady" },
            }),
            Kind::DaemonSet => json!({ "selector": selector, "template": self.template(name) }),
            Kind::Job => self.job(),
            Kind::CronJob => json!({
                "schedule": self.pick(&["*/2 * * * *", "*/15 * * * *", "0 * * * *", "0 0 31 2 *"]),
                "concurrencyPolicy": self.pick(&["Allow", "Forbid", "Replace"]),
                "jobTemplate": { "spec": self.job() },
            }),
            Kind::Service => {
                let selected = self.made.iter().filter(|made| made.kind == Kind::Deployment);
                let selected: Vec<&str> = selected.map(|made| made.name.as_str()).collect();
                json!({ "selector": { "app": self.pick(&selected) }, "ports": [{ "port": 80 }] })
            }
            Kind::Budget => {
                let selected =
                    self.made.iter().filter(|made| matches!(made.kind, Kind::Deployment | Kind::StatefulSet));
                let selected: Vec<&str> = selected.map(|made| made.name.as_str()).collect();
                json!({ "selector": { "matchLabels": { "app": self.pick(&selected) } }, "maxUnavailable": 1 })
            }
            Kind::Namespace => return json!({ "metadata": metadata }),
        };
        json!({ "metadata": metadata, "spec": spec })
    }

    fn template(&self, app: &str) -> Value {
        let requests = json!({ "cpu": format!("{}m", 50 + 50 * self.below(5)), "memory": "128Mi" });
        let container = json!({ "name": "main", "image": "web:1", "resources": { "requests": requests } });
        json!({ "metadata": { "labels": { "app": app } }, "spec": { "containers": [container] } })
    }

    fn strategy(&self) -> Value {
        match self.below(4) {
            0 => json!({ "type": "Recreate" }),
            1 => json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } }),
            2 => json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 2, "maxUnavailable": 0 } }),
            _ => json!({ "type": "RollingUpdate" }),
        }
    }

    fn job(&self) -> Value {
        let fails = self.below(4) == 0;
        let script = format!("sleep {}; exit {}", self.below(90), u8::from(fails));
        let requests = json!({ "cpu": "50m", "memory": "64Mi" });
        let command = json!(["sh", "-c", script]);
        let container =
            json!({ "name": "main", "image": "busybox", "command": command, "resources": { "requests": requests } });
        let mut spec = json!({
            "completions": self.below(6) + 1, "parallelism": self.below(3) + 1, "backoffLimit": self.below(3),
            "template": { "spec": { "restartPolicy": "Never", "containers": [container] } },
        });
        if self.below(2) == 0 {
            spec["completionMode"] = json!("Indexed");
        }
        if self.below(4) == 0 {
            spec["ttlSecondsAfterFinished"] = json!(self.below(600));
        }
        spec
    }

    /// What a namespace has that is to go some day.
    async fn fill(&self, namespace: &str) {
        for number in 0..self.below(4) {
            let name = format!("c-{number}");
            let map = json!({ "metadata": { "name": name }, "data": { "a": "b" } });
            self.send(Method::POST, &format!("/api/v1/namespaces/{namespace}/configmaps"), &map).await;
        }
        let mut deployment = self.object(&Made { kind: Kind::Deployment, namespace: "", name: "inner".to_owned() });
        deployment["spec"]["replicas"] = json!(2);
        self.send(Method::POST, &Kind::Deployment.collection(namespace), &deployment).await;
    }

    fn one_of(&self, kinds: &[Kind]) -> Option<Made> {
        let fitting: Vec<Made> = self.made.iter().filter(|made| kinds.contains(&made.kind)).cloned().collect();
        self.pick(&fitting)
    }

    /// Another template: it is rolled out.
    async fn change(&self, chaos: &Chaos) {
        let Some(made) = self.one_of(&[Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet]) else { return };
        chaos.note(&format!("user: change {}", made.path()));
        let image = format!("web:{}", self.below(3));
        let containers = json!([{ "name": "main", "image": image }]);
        let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        self.strategic(&made.path(), &patch).await;
    }

    async fn scale(&self, chaos: &Chaos) {
        let Some(made) = self.one_of(&[Kind::Deployment, Kind::StatefulSet]) else { return };
        let replicas = self.below(if made.kind == Kind::Deployment { 7 } else { 5 });
        chaos.note(&format!("user: scale {} to {replicas}", made.path()));
        self.patch(&made.path(), &json!({ "spec": { "replicas": replicas } })).await;
    }

    async fn delete(&mut self, chaos: &Chaos) {
        if self.made.is_empty() {
            return;
        }
        let place = usize::try_from(self.below(self.made.len() as u64)).unwrap_or(0);
        let made = self.made.remove(place);
        self.remove(&made, chaos).await;
    }

    async fn remove(&self, made: &Made, chaos: &Chaos) {
        let policy = self.pick(&["Foreground", "Background"]);
        chaos.note(&format!("user: delete {}", made.path()));
        self.send(Method::DELETE, &made.path(), &json!({ "propagationPolicy": policy })).await;
    }

    async fn some_pod(&self) -> Option<(String, String)> {
        let pods = self.send(Method::GET, "/api/v1/pods", &Value::Null).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = pods["items"].as_array()?.iter().map(|pod| &pod["metadata"]);
        let names: Vec<_> = metadata.map(|metadata| (text(&metadata["namespace"]), text(&metadata["name"]))).collect();
        self.pick(&names)
    }

    async fn delete_pod(&self, chaos: &Chaos) {
        let Some((namespace, name)) = self.some_pod().await else { return };
        chaos.note(&format!("user: delete pod {namespace}/{name}"));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        self.send(Method::DELETE, &path, &json!({})).await;
    }

    async fn evict_pod(&self, chaos: &Chaos) {
        let Some((namespace, name)) = self.some_pod().await else { return };
        chaos.note(&format!("user: evict pod {namespace}/{name}"));
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
        self.send(Method::POST, &format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction"), &eviction).await;
    }

    /// Two objects that own each other, of which one is deleted: both go.
    async fn make_cycle(&mut self, chaos: &Chaos) {
        self.count += 1;
        let names = ["a", "b"].map(|letter| format!("cycle-{letter}-{}", self.count));
        chaos.note(&format!("user: owner cycle {}", self.count));
        let collection = "/api/v1/namespaces/default/configmaps";
        let mut uids = Vec::new();
        for name in &names {
            let made = self.send(Method::POST, collection, &json!({ "metadata": { "name": name } })).await;
            uids.push(made.map(|made| made["metadata"]["uid"].clone()).unwrap_or_default());
        }
        for (own, other) in [(0, 1), (1, 0)] {
            let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": names[other], "uid": uids[other], "blockOwnerDeletion": true });
            let patch = json!({ "metadata": { "ownerReferences": [owner] } });
            self.patch(&format!("{collection}/{}", names[own]), &patch).await;
        }
        let policy = self.pick(&["Foreground", "Background"]);
        let options = json!({ "propagationPolicy": policy });
        self.send(Method::DELETE, &format!("{collection}/{}", names[0]), &options).await;
    }

    async fn patch(&self, path: &str, patch: &Value) {
        self.send_as(Method::PATCH, path, patch, "application/merge-patch+json").await;
    }

    async fn strategic(&self, path: &str, patch: &Value) {
        self.send_as(Method::PATCH, path, patch, "application/strategic-merge-patch+json").await;
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Option<Value> {
        self.send_as(method, path, body, "application/json").await
    }

    /// A user who is refused does something else: what was to be changed may be gone.
    async fn send_as(&self, method: Method, path: &str, body: &Value, content_type: &str) -> Option<Value> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(bytes).expect("a path of ours is one");
        self.client.request(request).await.ok()
    }
}
