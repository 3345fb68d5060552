//! What users do: they make, change and delete objects of all kinds that controllers look after.

mod changes;
mod jobs;
mod objects;
mod others;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use rkube_machinery::host::{Clock, Entropy as _};
use rkube_operator::kube::Client;
use serde_json::{Value, json};

use crate::Chaos;
use crate::host::SeededEntropy;
use objects::{KINDS, Kind, OTHERS};

/// So that users are another stream than faults and names of the same seed.
const STREAM: u64 = 0x3e55_0a5e_11b0_0c4d;
const NAMESPACES: [&str; 2] = ["default", "team"];
/// Of each kind there are at most so many; then one goes.
const EACH_MAX: usize = 4;
const NODES: &str = "/api/v1/nodes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

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
    clock: Arc<dyn Clock>,
    dice: SeededEntropy,
    made: Vec<Made>,
    /// Deleted, and somebody has to let them go.
    held: Vec<Made>,
    /// Deleted, but not what they owned; as they were.
    orphaned: Vec<(Made, Value)>,
    /// Nodes on which nothing new is to run.
    cordoned: Vec<String>,
    count: u64,
}

impl Workload {
    pub fn new(client: Client, clock: Arc<dyn Clock>, seed: u64) -> Workload {
        Workload {
            client,
            clock,
            dice: SeededEntropy::new(seed ^ STREAM),
            made: Vec::new(),
            held: Vec::new(),
            orphaned: Vec::new(),
            cordoned: Vec::new(),
            count: 0,
        }
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

    /// What is there before anything happens.
    pub async fn begin(&self) {
        self.send(Method::POST, DEFINITIONS, &objects::definition()).await;
        self.send(Method::POST, CLASSES, &objects::growing_class()).await;
        self.inform().await;
    }

    /// One thing that a user does.
    pub async fn act(&mut self, chaos: &Chaos) {
        if self.below(3) == 0 {
            self.let_go().await;
            self.see_to_orphans(chaos).await;
        }
        match self.below(28) {
            0..=7 => self.create(chaos).await,
            8..=11 => self.change(chaos).await,
            12..=13 => self.scale(chaos).await,
            14..=15 => self.delete(chaos).await,
            16 => self.delete_pod(chaos).await,
            17..=18 => self.evict_pod(chaos).await,
            19 => self.change_definition(chaos).await,
            20..=24 => self.adjust(chaos).await,
            25 => self.grow_claim(chaos).await,
            26 => self.cordon(chaos).await,
            _ => self.make_cycle(chaos).await,
        }
    }

    /// Nothing begins by itself any more, and nothing is held back.
    pub async fn end(&mut self) {
        self.let_go().await;
        for made in self.made.clone() {
            match made.kind {
                Kind::Token => self.expire(&made).await,
                Kind::Job => self.patch(&made.path(), &json!({ "spec": { "suspend": false } })).await,
                Kind::CronJob => self.patch(&made.path(), &json!({ "spec": { "suspend": true } })).await,
                Kind::Quota | Kind::Autoscaler => drop(self.send(Method::DELETE, &made.path(), &json!({})).await),
                _ => {}
            }
        }
    }

    async fn let_go(&mut self) {
        for made in std::mem::take(&mut self.held) {
            self.patch(&made.path(), &json!({ "metadata": { "finalizers": null } })).await;
        }
        for node in std::mem::take(&mut self.cordoned) {
            self.patch(&format!("{NODES}/{node}"), &json!({ "spec": { "unschedulable": null } })).await;
        }
    }

    /// What was left is taken over by another of that name, or deleted.
    async fn see_to_orphans(&mut self, chaos: &Chaos) {
        for (made, object) in std::mem::take(&mut self.orphaned) {
            // A Job does not take over pods of another.
            if made.kind != Kind::Job && self.below(2) == 0 {
                chaos.note(&format!("user: create {} again", made.path()));
                self.send(Method::POST, &made.kind.collection(made.namespace), &object).await;
                self.made.push(made);
                continue;
            }
            chaos.note(&format!("user: delete what {} left", made.path()));
            let (namespace, name) = (made.namespace, &made.name);
            let left = match made.kind {
                Kind::Job => format!("/api/v1/namespaces/{namespace}/pods?labelSelector=job-name={name}"),
                Kind::Deployment => {
                    format!("/apis/apps/v1/namespaces/{namespace}/replicasets?labelSelector=app={name}")
                }
                _ => format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app={name}"),
            };
            self.send(Method::DELETE, &left, &json!({ "propagationPolicy": "Background" })).await;
        }
    }

    async fn create(&mut self, chaos: &Chaos) {
        let kinds: &[Kind] = if self.below(4) == 0 { &OTHERS } else { &KINDS };
        let Some(kind) = self.pick(kinds) else { return };
        let of_kind: Vec<usize> = (0..self.made.len()).filter(|place| self.made[*place].kind == kind).collect();
        if of_kind.len() >= EACH_MAX {
            let made = self.made.remove(of_kind[0]);
            return self.remove(&made, chaos).await;
        }
        self.count += 1;
        let namespace = kind.namespace().or_else(|| self.pick(&NAMESPACES)).unwrap_or("default");
        let made = Made { kind, namespace, name: kind.name(self.count) };
        chaos.note(&format!("user: create {}", made.path()));
        if namespace == "team" {
            self.send(Method::POST, "/api/v1/namespaces", &json!({ "metadata": { "name": "team" } })).await;
        }
        let object = self.object(&made);
        let stored = self.send(Method::POST, &kind.collection(namespace), &object).await;
        match kind {
            Kind::Namespace => self.fill(&made.name).await,
            Kind::Widget => self.furnish(&made, &stored.unwrap_or_default()).await,
            Kind::Mirrored => self.write_endpoints(&made).await,
            // Most are answered soon, if ever.
            Kind::Request if self.below(3) > 0 => self.adjust_other(&made).await,
            _ => {}
        }
        self.made.push(made);
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

    /// What a custom resource owns: a map, and one of its own kind.
    async fn furnish(&self, made: &Made, stored: &Value) {
        let owner = json!({
            "apiVersion": "example.com/v2", "kind": "Widget", "name": made.name, "uid": stored["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        });
        let metadata = json!({ "name": format!("{}-owned", made.name), "ownerReferences": [owner] });
        let maps = format!("/api/v1/namespaces/{}/configmaps", made.namespace);
        self.send(Method::POST, &maps, &json!({ "metadata": metadata })).await;
        let part = json!({ "apiVersion": "example.com/v2", "kind": "Widget", "metadata": metadata });
        let widgets = format!("/apis/example.com/v2/namespaces/{}/widgets", made.namespace);
        self.send(Method::POST, &widgets, &part).await;
    }

    /// A definition changes, and all who follow its objects begin anew.
    async fn change_definition(&self, chaos: &Chaos) {
        chaos.note("user: change the definition of widgets");
        let names = json!({ "shortNames": [format!("w{}", self.below(5))] });
        self.patch(&format!("{DEFINITIONS}/widgets.example.com"), &json!({ "spec": { "names": names } })).await;
    }

    fn one_of(&self, kinds: &[Kind]) -> Option<Made> {
        let fitting: Vec<Made> = self.made.iter().filter(|made| kinds.contains(&made.kind)).cloned().collect();
        self.pick(&fitting)
    }

    async fn delete(&mut self, chaos: &Chaos) {
        if self.made.is_empty() {
            return;
        }
        let place = usize::try_from(self.below(self.made.len() as u64)).unwrap_or(0);
        let made = self.made.remove(place);
        self.remove(&made, chaos).await;
    }

    async fn remove(&mut self, made: &Made, chaos: &Chaos) {
        let policy = match made.kind {
            Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet | Kind::Job | Kind::ReplicationController
                if self.below(4) == 0 =>
            {
                "Orphan"
            }
            _ => self.pick(&["Foreground", "Background"]).unwrap_or_default(),
        };
        chaos.note(&format!("user: delete {} ({policy})", made.path()));
        if policy == "Orphan" {
            // Of other volumes than its pods have a StatefulSet could make nothing: they cannot be changed.
            let object = self.send(Method::GET, &made.path(), &Value::Null).await.unwrap_or_default();
            let again = json!({ "metadata": { "name": made.name }, "spec": object["spec"] });
            self.orphaned.push((made.clone(), again));
        }
        self.send(Method::DELETE, &made.path(), &json!({ "propagationPolicy": policy })).await;
        if made.kind == Kind::Widget {
            self.held.push(made.clone());
        }
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
