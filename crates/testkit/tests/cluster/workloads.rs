//! Deployments, ReplicaSets and ReplicationControllers in a whole cluster. The tests play the nodes.

use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ReplicationController};
use rkube_operator::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use rkube_operator::kube::core::Resource;
use rkube_operator::kube::{Api, ResourceExt};
use rkube_testkit::TestCluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Everything that follows from a write has happened after so much virtual time.
const SOON: Duration = Duration::from_secs(1);

struct Workloads {
    cluster: TestCluster,
    namespace: &'static str,
}

impl Workloads {
    async fn start() -> Workloads {
        Workloads { cluster: TestCluster::builder().virtual_time().start().await, namespace: "default" }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), self.namespace)
    }

    async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Serialize
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        let made = self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
        self.cluster.advance(SOON).await;
        made
    }

    async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.cluster.advance(SOON).await;
    }

    async fn list<K>(&self) -> Vec<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    async fn deployment(&self) -> Value {
        serde_json::to_value(self.api::<Deployment>().get("d").await.unwrap()).unwrap()
    }

    /// Name, wanted and available replicas of each set, by revision.
    async fn sets(&self) -> Vec<(String, i32, i32)> {
        let mut sets = self.list::<ReplicaSet>().await;
        sets.sort_by_key(|set| set.annotations().get("deployment.kubernetes.io/revision").cloned());
        let told = |set: ReplicaSet| {
            let (spec, status) = (set.spec.clone().unwrap(), set.status.clone().unwrap_or_default());
            (set.name_any(), spec.replicas.unwrap(), status.available_replicas.unwrap_or(0))
        };
        sets.into_iter().map(told).collect()
    }

    async fn sizes(&self) -> Vec<(i32, i32)> {
        self.sets().await.into_iter().map(|(_, wanted, available)| (wanted, available)).collect()
    }

    /// Makes all pods ready, and those that this brings about, until there are no others.
    async fn make_ready(&self) {
        let ready = json!({ "status": { "phase": "Running", "conditions": [{
            "type": "Ready", "status": "True",
            "lastTransitionTime": rkube_machinery::time::format_seconds(self.cluster.clock().now_seconds()),
        }] } });
        loop {
            let mut pods = self.list::<Pod>().await;
            pods.retain(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending"));
            if pods.is_empty() {
                return;
            }
            for pod in pods {
                // It may be gone by now.
                let _ = self
                    .api::<Pod>()
                    .patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&ready))
                    .await;
            }
            self.cluster.advance(SOON).await;
        }
    }

    /// The reasons and messages of events, with what is random in names cut off.
    async fn events(&self) -> Vec<String> {
        let events = self.list::<Event>().await;
        let mut told: Vec<String> = events
            .into_iter()
            .map(|event| format!("{} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default()))
            .collect();
        told.sort();
        told
    }
}

fn template(image: &str) -> Value {
    json!({ "metadata": { "labels": { "app": "d" } }, "spec": { "containers": [{ "name": "c", "image": image }] } })
}

fn deployment(replicas: i32, spec: Value) -> Value {
    let mut deployment = json!({
        "metadata": { "name": "d" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "d" } }, "template": template("one") },
    });
    for (field, value) in spec.as_object().unwrap() {
        deployment["spec"][field] = value.clone();
    }
    deployment
}

fn set(name: &str, replicas: i32) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "d" } }, "template": template("one") },
    })
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_template_is_rolled_out_and_back() {
    let workloads = Workloads::start().await;
    workloads.create::<Deployment>(deployment(3, json!({}))).await;
    workloads.make_ready().await;
    assert_eq!(workloads.sizes().await, [(3, 3)]);
    workloads.patch::<Deployment>("d", json!({ "spec": { "template": template("two") } })).await;
    assert_eq!(workloads.sizes().await, [(3, 3), (1, 0)], "one more, and none less");
    workloads.make_ready().await;
    assert_eq!(workloads.sizes().await, [(0, 0), (3, 3)]);
    let told = workloads.deployment().await;
    assert_eq!(told["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(condition(&told, "Progressing")["reason"], "NewReplicaSetAvailable");

    let back = json!({ "metadata": { "annotations": { "deprecated.deployment.rollback.to": "1" } } });
    workloads.patch::<Deployment>("d", back).await;
    workloads.make_ready().await;
    let told = workloads.deployment().await;
    assert_eq!(told["spec"]["template"]["spec"]["containers"][0]["image"], "one");
    assert_eq!(told["metadata"]["annotations"], json!({ "deployment.kubernetes.io/revision": "3" }));
    assert_eq!(workloads.sizes().await, [(0, 0), (3, 3)]);
    let events = workloads.events().await;
    assert!(
        events.contains(&r#"DeploymentRollback Rolled back deployment "d" to revision 1"#.to_owned()),
        "{events:?}"
    );
}

#[tokio::test]
async fn time_decides_what_is_available_and_what_takes_too_long() {
    let workloads = Workloads::start().await;
    workloads
        .create::<Deployment>(deployment(2, json!({ "minReadySeconds": 30, "progressDeadlineSeconds": 60 })))
        .await;
    workloads.make_ready().await;
    workloads.cluster.advance(Duration::from_secs(20)).await;
    assert_eq!(workloads.sizes().await, [(2, 0)]);
    workloads.cluster.advance(Duration::from_secs(15)).await;
    assert_eq!(workloads.sizes().await, [(2, 2)]);
    assert_eq!(condition(&workloads.deployment().await, "Progressing")["reason"], "NewReplicaSetAvailable");

    workloads.patch::<Deployment>("d", json!({ "spec": { "template": template("two") } })).await;
    workloads.cluster.advance(Duration::from_secs(50)).await;
    assert_eq!(condition(&workloads.deployment().await, "Progressing")["reason"], "ReplicaSetUpdated");
    workloads.cluster.advance(Duration::from_secs(15)).await;
    let told = workloads.deployment().await;
    let name = workloads.sets().await[1].0.clone();
    assert_eq!(condition(&told, "Progressing")["reason"], "ProgressDeadlineExceeded");
    assert_eq!(condition(&told, "Progressing")["message"], format!("ReplicaSet {name:?} has timed out progressing."));
}

#[tokio::test]
async fn who_is_recreated_waits_until_the_old_pods_are_gone() {
    let workloads = Workloads::start().await;
    workloads.create::<Deployment>(deployment(1, json!({ "strategy": { "type": "Recreate" } }))).await;
    let pod = workloads.list::<Pod>().await.remove(0).name_any();
    let bind = json!({ "metadata": { "name": pod }, "target": { "kind": "Node", "name": "nowhere" } });
    workloads
        .api::<Pod>()
        .create_subresource::<Value, Value>("binding", &pod, &PostParams::default(), &bind)
        .await
        .unwrap();
    workloads.make_ready().await;
    workloads.patch::<Deployment>("d", json!({ "spec": { "template": template("two") } })).await;
    assert_eq!(workloads.sets().await.len(), 1, "its pod still terminates");
    assert_eq!(workloads.deployment().await["status"]["terminatingReplicas"], 1);
    workloads.api::<Pod>().delete(&pod, &DeleteParams::default().grace_period(0)).await.unwrap();
    workloads.cluster.advance(SOON).await;
    assert_eq!(workloads.sizes().await, [(0, 0), (1, 0)]);
}

#[tokio::test]
async fn sets_that_select_the_same_pods_leave_each_other_alone() {
    let workloads = Workloads::start().await;
    let lone = json!({ "metadata": { "name": "lone", "labels": { "app": "d" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    workloads.create::<Pod>(lone).await;
    workloads.create::<ReplicaSet>(set("a", 2)).await;
    workloads.create::<ReplicaSet>(set("b", 3)).await;
    let mut controller = set("rc", 1);
    controller["spec"]["selector"] = json!({ "app": "d" });
    workloads.create::<ReplicationController>(controller).await;
    workloads.cluster.advance(Duration::from_secs(60)).await;
    let owner = |pod: &Pod| pod.owner_references()[0].name.clone();
    let pods = workloads.list::<Pod>().await;
    for (name, expected) in [("a", 2), ("b", 3), ("rc", 1)] {
        assert_eq!(pods.iter().filter(|pod| owner(pod) == name).count(), expected, "{name}");
    }
    let before = workloads.list::<ReplicaSet>().await;
    workloads.cluster.advance(Duration::from_secs(60 * 60)).await;
    assert_eq!(workloads.list::<ReplicaSet>().await, before, "nobody has anything to write");

    // What is taken out of a set is replaced, and what is left behind is taken up.
    workloads.patch::<Pod>("lone", json!({ "metadata": { "labels": { "app": "other" } } })).await;
    assert!(workloads.api::<Pod>().get("lone").await.unwrap().owner_references().is_empty());
    let orphaning = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    workloads.api::<ReplicaSet>().delete("b", &orphaning).await.unwrap();
    workloads.cluster.advance(Duration::from_secs(10)).await;
    let pods = workloads.list::<Pod>().await;
    let owned = pods.iter().filter(|pod| !pod.owner_references().is_empty());
    assert!(owned.clone().all(|pod| ["a", "rc"].contains(&owner(pod).as_str())));
    assert_eq!(owned.count(), 3, "those that are too many go");
}

#[tokio::test]
async fn a_name_that_is_taken_is_not_fought_over() {
    let workloads = Workloads::start().await;
    workloads.create::<Deployment>(deployment(1, json!({}))).await;
    let name = workloads.sets().await[0].0.clone();
    workloads.api::<Deployment>().delete("d", &DeleteParams::background()).await.unwrap();
    workloads.cluster.advance(Duration::from_secs(5)).await;
    assert!(workloads.sets().await.is_empty());
    let mut taken = set(&name, 0);
    taken["spec"]["selector"] = json!({ "matchLabels": { "app": "other" } });
    taken["spec"]["template"]["metadata"]["labels"] = json!({ "app": "other" });
    workloads.create::<ReplicaSet>(taken).await;
    workloads.create::<Deployment>(deployment(1, json!({}))).await;
    workloads.cluster.advance(Duration::from_secs(5)).await;
    assert_eq!(workloads.deployment().await["status"]["collisionCount"], 1);
    let sets = workloads.sets().await;
    assert!(sets.iter().any(|(other, wanted, _)| *other != name && *wanted == 1), "{sets:?}");
}

#[tokio::test]
async fn pods_that_are_refused_are_told_of_until_they_can_be_made() {
    let workloads = Workloads::start().await;
    let label = |level: Value| json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": level } } });
    let namespaces: Api<Namespace> = Api::all(workloads.cluster.client());
    namespaces.patch("default", &PatchParams::default(), &Patch::Merge(label(json!("restricted")))).await.unwrap();
    workloads.create::<Deployment>(deployment(2, json!({}))).await;
    let told = workloads.deployment().await;
    let failure = condition(&told, "ReplicaFailure");
    assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedCreate")));
    assert!(failure["message"].as_str().unwrap().contains(r#"violates PodSecurity "restricted:latest""#), "{failure}");
    let events = workloads.events().await;
    assert!(events.iter().any(|event| event.starts_with("FailedCreate Error creating: pods \"")), "{events:?}");

    namespaces.patch("default", &PatchParams::default(), &Patch::Merge(label(Value::Null))).await.unwrap();
    workloads.cluster.advance(Duration::from_secs(2 * 60)).await;
    workloads.make_ready().await;
    assert_eq!(workloads.sizes().await, [(2, 2)]);
    assert!(condition(&workloads.deployment().await, "ReplicaFailure").is_null());
}

/// A Deployment that wants very many pods gets them bit by bit, and the others are not kept waiting.
#[tokio::test]
async fn a_hundred_thousand_replicas_hold_up_nobody() {
    // In virtual time all of them would be made before anything else is looked at.
    let workloads = Workloads { cluster: TestCluster::start().await, namespace: "default" };
    let mut many = deployment(100_000, json!({}));
    many["metadata"]["name"] = "many".into();
    let many: Deployment = serde_json::from_value(many).unwrap();
    workloads.api::<Deployment>().create(&PostParams::default(), &many).await.unwrap();
    let mut few = deployment(3, json!({ "selector": { "matchLabels": { "app": "few" } } }));
    few["spec"]["template"]["metadata"]["labels"] = json!({ "app": "few" });
    let few: Deployment = serde_json::from_value(few).unwrap();
    workloads.api::<Deployment>().create(&PostParams::default(), &few).await.unwrap();
    let selected = ListParams::default().labels("app=few");
    workloads
        .cluster
        .eventually("the pods of the other", async || {
            let pods = workloads.api::<Pod>().list(&selected).await.map_err(|error| error.to_string())?;
            if pods.items.len() == 3 { Ok(()) } else { Err(format!("there are {}", pods.items.len())) }
        })
        .await;
    let there = workloads.api::<Pod>().list_metadata(&ListParams::default()).await.unwrap().items.len();
    assert!(there < 50_000, "{there} were made before");
}

/// Pods that fail as soon as they are made are made again, but not as fast as that can be done.
#[tokio::test]
async fn pods_that_fail_at_once_do_not_fill_the_cluster() {
    let workloads = Workloads::start().await;
    workloads.create::<ReplicaSet>(set("a", 2)).await;
    let pods = workloads.api::<Pod>();
    let failing = tokio::spawn(async move {
        let failed = json!({ "status": { "phase": "Failed" } });
        loop {
            let selected = ListParams::default().fields("status.phase=Pending");
            for pod in pods.list_metadata(&selected).await.unwrap().items {
                let _ = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&failed)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    workloads.cluster.advance(Duration::from_secs(20)).await;
    failing.abort();
    let made = workloads.list::<Pod>().await.len();
    assert!((30..150).contains(&made), "{made}");
}

/// Somebody else wants a set to have another size: neither of the two writes at full speed.
#[tokio::test]
async fn a_dispute_over_a_set_is_not_fought_at_full_speed() {
    let workloads = Workloads::start().await;
    workloads.create::<Deployment>(deployment(3, json!({}))).await;
    let name = workloads.sets().await[0].0.clone();
    let (sets, disputed) = (workloads.api::<ReplicaSet>(), name.clone());
    let disputing = tokio::spawn(async move {
        let opinion = json!({ "spec": { "replicas": 5 } });
        loop {
            sets.patch(&disputed, &PatchParams::default(), &Patch::Merge(&opinion)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    workloads.cluster.advance(Duration::from_secs(20)).await;
    disputing.abort();
    let writes = workloads.api::<ReplicaSet>().get(&name).await.unwrap().metadata.generation.unwrap();
    assert!((20..200).contains(&writes), "{writes}");
}
