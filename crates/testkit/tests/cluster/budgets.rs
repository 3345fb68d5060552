//! PodDisruptionBudgets: what they count, and that evictions keep them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use rkube_operator::kube::{self, Client, ResourceExt as _};
use rkube_testkit::TestCluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);

fn api<K>(client: &Client) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), "default")
}

async fn create<K>(client: &Client, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug,
{
    api::<K>(client).create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn workload(replicas: usize) -> Value {
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "terminationGracePeriodSeconds": 1, "containers": [{ "name": "c", "image": "i" }] },
            },
        },
    })
}

fn deployment(replicas: usize) -> Value {
    let mut deployment = workload(replicas);
    let spec = deployment["spec"].as_object_mut().unwrap();
    spec.remove("serviceName");
    spec.remove("podManagementPolicy");
    deployment
}

async fn budget(client: &Client, name: &str, limit: Value) {
    let mut spec = json!({ "selector": { "matchLabels": { "app": "web" } } });
    spec.as_object_mut().unwrap().extend(limit.as_object().cloned().unwrap());
    create::<PodDisruptionBudget>(client, json!({ "metadata": { "name": name }, "spec": spec })).await;
}

/// Expected, healthy, desired and allowed, and why.
async fn status(client: &Client, name: &str) -> (i32, i32, i32, i32, String) {
    let status = api::<PodDisruptionBudget>(client).get(name).await.unwrap().status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let reason = conditions.iter().map(|one| one.reason.clone()).collect::<Vec<_>>().join(" ");
    let [expected, healthy, desired, allowed] =
        [status.expected_pods, status.current_healthy, status.desired_healthy, status.disruptions_allowed]
            .map(Option::unwrap_or_default);
    (expected, healthy, desired, allowed, reason)
}

async fn evict(client: &Client, pod: &str, options: Value) -> Result<(), (u16, String, Vec<String>)> {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod, "namespace": "default" }, "deleteOptions": options,
    });
    let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{pod}/eviction"))
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            Err((status.code, status.message.clone(), causes.map(|cause| cause.message.clone()).collect()))
        }
        Err(other) => panic!("{other}"),
    }
}

async fn pods(client: &Client) -> Vec<Pod> {
    api::<Pod>(client).list(&ListParams::default()).await.unwrap().items
}

fn is_healthy(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.clone().any(|one| one.type_ == "Ready" && one.status == "True");
    pod.metadata.deletion_timestamp.is_none() && is_ready
}

async fn reasons(client: &Client) -> BTreeMap<String, String> {
    let events = api::<Event>(client).list(&ListParams::default()).await.unwrap().items;
    events.into_iter().map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_by_what_controllers_want() {
    // The limit, and what is expected, desired and allowed of seven pods.
    let table = [
        (json!({ "minAvailable": 5 }), (7, 5, 2)),
        (json!({ "minAvailable": "50%" }), (7, 4, 3)),
        (json!({ "minAvailable": "100%" }), (7, 7, 0)),
        (json!({ "maxUnavailable": 1 }), (7, 6, 1)),
        (json!({ "maxUnavailable": "30%" }), (7, 4, 3)),
        (json!({ "maxUnavailable": 0 }), (7, 7, 0)),
    ];
    let cluster = TestCluster::builder().virtual_time().nodes(3).start().await;
    let client = cluster.client();
    create::<Deployment>(&client, deployment(7)).await;
    for (index, (limit, _)) in table.iter().enumerate() {
        budget(&client, &format!("b{index}"), limit.clone()).await;
    }
    cluster.advance(SOON).await;
    for (index, (limit, (expected, desired, allowed))) in table.iter().enumerate() {
        let reason = if *allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
        let wanted = (*expected, 7, *desired, *allowed, reason.to_owned());
        assert_eq!(status(&client, &format!("b{index}")).await, wanted, "{limit}");
    }
    let scale = Patch::Merge(json!({ "spec": { "replicas": 2 } }));
    api::<Deployment>(&client).patch("web", &PatchParams::default(), &scale).await.unwrap();
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b0").await, (2, 2, 5, 0, "InsufficientPods".to_owned()));
    assert_eq!(status(&client, "b1").await, (2, 2, 1, 1, "SufficientPods".to_owned()));
    let name = pods(&client).await[0].name_any();
    let (code, message, _) = evict(&client, &name, json!({})).await.unwrap_err();
    assert_eq!(
        (code, message.as_str()),
        (500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
    );
    let events = api::<Event>(&client).list(&ListParams::default()).await.unwrap().items;
    let told = events.into_iter().filter(|event| event.reason.as_deref() == Some("MultiplePodDisruptionBudgets"));
    let told: Vec<String> = told.filter_map(|event| event.message).collect();
    let chosen = |name: &str| {
        let end = format!("matches multiple PodDisruptionBudgets.  Chose \"{name}\" arbitrarily.");
        told.iter().any(|message| message.ends_with(&end))
    };
    assert!(table.iter().enumerate().filter(|(index, _)| chosen(&format!("b{index}"))).count() > 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn evictions_at_once_keep_a_budget() {
    for seed in [1, 2, 3] {
        let cluster = TestCluster::builder().seed(seed).virtual_time().nodes(4).start().await;
        let client = cluster.client();
        let statefully = seed == 2;
        if statefully {
            create::<StatefulSet>(&client, workload(10)).await;
        } else {
            create::<Deployment>(&client, deployment(10)).await;
        }
        budget(&client, "b", json!({ "minAvailable": 7 })).await;
        cluster.advance(SOON).await;
        assert_eq!(status(&client, "b").await.3, 3);
        let first: Vec<String> = pods(&client).await.iter().map(|pod| pod.name_any()).collect();
        let answers = join_all(first.iter().map(|name| evict(&client, name, json!({})))).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3, "{answers:?}");
        let refused = answers.into_iter().find_map(Result::err).unwrap();
        assert_eq!((refused.0, refused.1.contains("Cannot evict pod as it would violate")), (429, true));
        assert!(refused.2[0].starts_with("The disruption budget b "), "{refused:?}");

        // All others, again and again, as a drain does.
        let mut left: Vec<String> = pods(&client).await.iter().map(|pod| pod.uid().unwrap()).collect();
        for round in 0..200 {
            let now = pods(&client).await;
            assert!(now.iter().filter(|pod| is_healthy(pod)).count() >= 7, "seed {seed}, round {round}");
            left.retain(|uid| now.iter().any(|pod| pod.uid().as_ref() == Some(uid)));
            let going = now.iter().filter(|pod| left.contains(&pod.uid().unwrap()));
            let names: Vec<String> = going.filter(|pod| is_healthy(pod)).map(|pod| pod.name_any()).collect();
            if left.is_empty() {
                break;
            }
            join_all(names.iter().map(|name| evict(&client, name, json!({})))).await;
            cluster.advance(Duration::from_millis(100)).await;
        }
        assert!(left.is_empty(), "seed {seed}: {left:?}");
        cluster.advance(SOON).await;
        assert_eq!(status(&client, "b").await, (10, 10, 7, 3, "SufficientPods".to_owned()));
    }
}

/// Defines fleets, which have a scale, and makes one of ten, `f`.
async fn fleet(cluster: &TestCluster) -> DynamicObject {
    let client = cluster.client();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "fleets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "fleets", "kind": "Fleet" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                "subresources": { "scale": { "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size" } },
            }, {
                "name": "v1beta1", "served": true, "storage": false,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    cluster.advance(SOON).await;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Fleet"), "fleets");
    let fleets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let fleet = json!({
        "apiVersion": "example.com/v1", "kind": "Fleet", "metadata": { "name": "f" }, "spec": { "size": 10 },
    });
    fleets.create(&PostParams::default(), &serde_json::from_value(fleet).unwrap()).await.unwrap()
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": uid, "controller": true }])
}

fn owned(name: &str, owner: Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": "web" }, "ownerReferences": owner },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    })
}

#[tokio::test(start_paused = true)]
async fn a_budget_asks_whatever_has_a_scale() {
    let cluster = TestCluster::builder().virtual_time().nodes(2).start().await;
    let client = cluster.client();
    let fleet = fleet(&cluster).await;
    budget(&client, "b", json!({ "maxUnavailable": "20%" })).await;
    for index in 0..9 {
        create::<Pod>(&client, owned(&format!("p{index}"), owner("Fleet", "f", &fleet.uid().unwrap()))).await;
    }
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b").await, (10, 9, 8, 1, "SufficientPods".to_owned()));

    create::<Pod>(&client, owned("nobodys", json!([]))).await;
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b").await, (10, 10, 8, 2, "SufficientPods".to_owned()));
    let unmanaged = reasons(&client).await["UnmanagedPods"].clone();
    assert!(
        unmanaged.starts_with("Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:"),
        "{unmanaged}"
    );
    api::<Pod>(&client).delete("nobodys", &DeleteParams::default().grace_period(0)).await.unwrap();

    // A kind that is not there: nothing is known, so nothing is allowed.
    create::<Pod>(&client, owned("lost", owner("Ghost", "a/../b c", "1"))).await;
    cluster.advance(SOON).await;
    let (_, _, _, allowed, reason) = status(&client, "b").await;
    assert_eq!((allowed, reason.as_str()), (0, "SyncFailed"));
    let failed = reasons(&client).await["CalculateExpectedPodCountFailed"].clone();
    let why = "no matches for kind \"Ghost\" in version \"example.com/v1\"";
    assert_eq!(failed, format!("Failed to calculate the number of expected pods: {why}"));
    let (code, _, causes) = evict(&client, "p0", json!({})).await.unwrap_err();
    let cause = format!("The disruption budget b does not allow evicting pods currently because it failed sync: {why}");
    assert_eq!((code, causes), (429, vec![cause]));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_counted_is_tried_again_when_a_pod_changes() {
    let cluster = TestCluster::builder().virtual_time().nodes(2).start().await;
    let client = cluster.client();
    let fleet = fleet(&cluster).await;
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let scaled = definitions.get("fleets.example.com").await.unwrap().data["spec"].clone();
    let mut plain = scaled.clone();
    plain["versions"][0]["subresources"].take();
    let define = async |spec: &Value| {
        let patch = Patch::Merge(json!({ "spec": spec }));
        definitions.patch("fleets.example.com", &PatchParams::default(), &patch).await.unwrap();
        cluster.advance(SOON).await;
    };
    define(&plain).await;
    budget(&client, "b", json!({ "maxUnavailable": "20%" })).await;
    create::<Pod>(&client, owned("early", owner("Fleet", "f", &fleet.uid().unwrap()))).await;
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b").await.4, "SyncFailed");
    define(&scaled).await;
    assert_eq!(status(&client, "b").await.4, "SyncFailed", "nobody says so");
    let patch = json!({ "metadata": { "annotations": { "seen": "again" } } });
    api::<Pod>(&client).patch("early", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b").await, (10, 1, 8, 0, "InsufficientPods".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_disruption_is_taken_back() {
    let cluster = TestCluster::builder().virtual_time().nodes(2).start().await;
    let client = cluster.client();
    create::<Deployment>(&client, deployment(3)).await;
    budget(&client, "b", json!({ "maxUnavailable": 1 })).await;
    cluster.advance(SOON).await;
    let name = pods(&client).await[0].name_any();
    evict(&client, &name, json!({ "dryRun": ["All"] })).await.unwrap();
    assert_eq!(status(&client, "b").await.3, 1, "a rehearsal takes nothing");
    let (code, message, _) = evict(&client, &name, json!({ "preconditions": { "uid": "another" } })).await.unwrap_err();
    assert_eq!((code, message.contains("the UID in the precondition (another) does not match")), (409, true));
    let taken = api::<PodDisruptionBudget>(&client).get("b").await.unwrap().status.unwrap();
    assert!(taken.disrupted_pods.unwrap_or_default().contains_key(&name), "it was taken before the pod refused");
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b").await.3, 0);
    cluster.advance(Duration::from_secs(120)).await;
    assert_eq!(status(&client, "b").await, (3, 3, 2, 1, "SufficientPods".to_owned()));
    let late = reasons(&client).await["NotDeleted"].clone();
    assert_eq!(late, "Pod was expected by PDB default/default to be deleted but it wasn't");

    let now = rkube_machinery::time::format_seconds(cluster.clock().now_seconds());
    let condition =
        json!({ "type": "DisruptionTarget", "status": "True", "reason": "Somebody", "lastTransitionTime": now });
    let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
    api::<Pod>(&client).patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    let target = async || {
        let pod = serde_json::to_value(api::<Pod>(&client).get(&name).await.unwrap()).unwrap();
        let conditions = pod["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|one| one["type"] == "DisruptionTarget").unwrap()
    };
    cluster.advance(Duration::from_secs(100)).await;
    assert_eq!(target().await["status"], "True");
    cluster.advance(Duration::from_secs(25)).await;
    let stale = target().await;
    assert_eq!((&stale["status"], stale.get("reason")), (&json!("False"), None));
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_ready_go_by_the_policy() {
    let cluster = TestCluster::builder().virtual_time().nodes(2).start().await;
    let client = cluster.client();
    let mut broken = deployment(3);
    broken["spec"]["template"]["spec"]["readinessGates"] = json!([{ "conditionType": "example.com/never" }]);
    create::<Deployment>(&client, broken).await;
    budget(&client, "b", json!({ "minAvailable": 1 })).await;
    cluster.advance(SOON).await;
    let name = pods(&client).await[0].name_any();
    let (code, _, causes) = evict(&client, &name, json!({})).await.unwrap_err();
    let cause = "The disruption budget b needs 1 healthy pods and has 0 currently".to_owned();
    assert_eq!((code, causes), (429, vec![cause]));
    let always = Patch::Merge(json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } }));
    api::<PodDisruptionBudget>(&client).patch("b", &PatchParams::default(), &always).await.unwrap();
    evict(&client, &name, json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_gets_other_labels_is_not_missed_at_once() {
    let cluster = TestCluster::builder().virtual_time().nodes(1).start().await;
    let client = cluster.client();
    let pod = |name: &str| {
        json!({
            "metadata": { "name": name, "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        })
    };
    create::<Pod>(&client, pod("a")).await;
    budget(&client, "b", json!({ "minAvailable": 1 })).await;
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b").await, (1, 1, 1, 0, "InsufficientPods".to_owned()));
    let other = Patch::Merge(json!({ "metadata": { "labels": { "app": "other" } } }));
    api::<Pod>(&client).patch("a", &PatchParams::default(), &other).await.unwrap();
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b").await, (1, 1, 1, 0, "InsufficientPods".to_owned()), "as upstream");
    create::<Pod>(&client, pod("b")).await;
    cluster.advance(SOON).await;
    assert_eq!(status(&client, "b").await, (1, 1, 1, 0, "InsufficientPods".to_owned()));
    assert!(!reasons(&client).await.contains_key("NoPods"));
}
