//! What users change: of what they made, of pods and of nodes.

use http::Method;
use serde_json::{Value, json};

use super::objects::{Kind, OTHERS};
use super::{NODES, Workload};
use crate::Chaos;

impl Workload {
    /// Another template: it is rolled out.
    pub(super) async fn change(&self, chaos: &Chaos) {
        let Some(made) =
            self.one_of(&[Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet, Kind::ReplicationController])
        else {
            return;
        };
        chaos.note(&format!("user: change {}", made.path()));
        let image = format!("web:{}", self.below(3));
        let containers = json!([{ "name": "main", "image": image }]);
        let patch = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
        self.strategic(&made.path(), &patch).await;
    }

    pub(super) async fn scale(&self, chaos: &Chaos) {
        let Some(made) = self.one_of(&[Kind::Deployment, Kind::StatefulSet, Kind::ReplicationController]) else {
            return;
        };
        let replicas = self.below(if made.kind == Kind::Deployment { 7 } else { 5 });
        chaos.note(&format!("user: scale {} to {replicas}", made.path()));
        self.patch(&made.path(), &json!({ "spec": { "replicas": replicas } })).await;
    }

    /// What else a user says of an object than what it is made of and how often.
    pub(super) async fn adjust(&self, chaos: &Chaos) {
        if self.below(2) == 0 {
            let Some(made) = self.one_of(&OTHERS) else { return };
            chaos.note(&format!("user: adjust {}", made.path()));
            return self.adjust_other(&made).await;
        }
        let kinds = [Kind::Job, Kind::StatefulSet, Kind::Quota, Kind::Autoscaler, Kind::Budget];
        let Some(kind) = self.pick(&kinds) else { return };
        let Some(made) = self.one_of(&[kind]) else { return };
        let spec = match kind {
            Kind::Job => json!({ "suspend": self.below(2) == 0 }),
            Kind::StatefulSet => json!({ "updateStrategy": { "rollingUpdate": { "partition": self.below(4) } } }),
            Kind::Quota => json!({ "hard": { "pods": (self.below(12) + 1).to_string() } }),
            Kind::Autoscaler => json!({ "maxReplicas": self.below(6) + 1 }),
            _ => json!({ "minAvailable": null, "maxUnavailable": self.below(3) }),
        };
        chaos.note(&format!("user: adjust {} to {spec}", made.path()));
        self.patch(&made.path(), &json!({ "spec": spec })).await;
    }

    /// One of the claims asks for more than it has: nobody gives it, but that is told.
    pub(super) async fn grow_claim(&self, chaos: &Chaos) {
        let Some((namespace, name)) = self.some("persistentvolumeclaims").await else { return };
        chaos.note(&format!("user: grow claim {namespace}/{name}"));
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        let requests = json!({ "storage": format!("{}Gi", self.below(3) + 2) });
        self.patch(&path, &json!({ "spec": { "resources": { "requests": requests } } })).await;
    }

    /// Nothing more comes to a node for a while, and maybe all that is there goes.
    pub(super) async fn cordon(&mut self, chaos: &Chaos) {
        let Some(nodes) = self.send(Method::GET, NODES, &Value::Null).await else { return };
        let names = nodes["items"].as_array().into_iter().flatten().map(|node| text(&node["metadata"]["name"]));
        let Some(name) = self.pick(&names.collect::<Vec<_>>()) else { return };
        chaos.note(&format!("user: cordon {name}"));
        self.patch(&format!("{NODES}/{name}"), &json!({ "spec": { "unschedulable": true } })).await;
        self.cordoned.push(name.clone());
        if self.below(2) > 0 {
            return;
        }
        chaos.note(&format!("user: drain {name}"));
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName={name}");
        let Some(pods) = self.send(Method::GET, &path, &Value::Null).await else { return };
        for pod in pods["items"].as_array().into_iter().flatten() {
            let metadata = &pod["metadata"];
            if metadata["ownerReferences"][0]["kind"] != "DaemonSet" {
                self.evict(&text(&metadata["namespace"]), &text(&metadata["name"])).await;
            }
        }
    }

    /// Namespace and name of one of those that there are.
    async fn some(&self, plural: &str) -> Option<(String, String)> {
        let all = self.send(Method::GET, &format!("/api/v1/{plural}"), &Value::Null).await?;
        let metadata = all["items"].as_array()?.iter().map(|one| &one["metadata"]);
        let names: Vec<_> = metadata.map(|metadata| (text(&metadata["namespace"]), text(&metadata["name"]))).collect();
        self.pick(&names)
    }

    pub(super) async fn delete_pod(&self, chaos: &Chaos) {
        let Some((namespace, name)) = self.some("pods").await else { return };
        chaos.note(&format!("user: delete pod {namespace}/{name}"));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        self.send(Method::DELETE, &path, &json!({})).await;
    }

    pub(super) async fn evict_pod(&self, chaos: &Chaos) {
        let Some((namespace, name)) = self.some("pods").await else { return };
        chaos.note(&format!("user: evict pod {namespace}/{name}"));
        self.evict(&namespace, &name).await;
    }

    async fn evict(&self, namespace: &str, name: &str) {
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
        self.send(Method::POST, &format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction"), &eviction).await;
    }

    /// Two objects that own each other, of which one is deleted: both go.
    pub(super) async fn make_cycle(&mut self, chaos: &Chaos) {
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
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
