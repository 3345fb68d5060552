//! ResourceQuotas: admission and the controller together.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ResourceQuota, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use rkube_operator::kube::{self, Resource};
use rkube_store::{Memory, Store};
use rkube_testkit::TestCluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

struct Quotas {
    cluster: TestCluster,
}

impl Quotas {
    async fn start() -> Quotas {
        Quotas { cluster: TestCluster::builder().virtual_time().start().await }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn create<K>(&self, object: Value) -> Result<K, String>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.map_err(refusal)
    }

    async fn pod(&self, name: &str, spec: Value) -> Result<Pod, String> {
        let mut pod = pod(name, json!({}));
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        self.create(pod).await
    }

    async fn map(&self, name: &str) -> Result<ConfigMap, String> {
        self.create(json!({ "metadata": { "name": name } })).await
    }

    /// Makes a quota, and waits until it counts.
    async fn quota(&self, name: &str, spec: Value) {
        let quota = json!({ "metadata": { "name": name }, "spec": spec });
        self.create::<ResourceQuota>(quota).await.unwrap();
        self.cluster
            .eventually("the quota counts", async || {
                let status = self.status(name).await;
                if status["hard"] == spec["hard"] && status["used"].is_object() {
                    Ok(())
                } else {
                    Err(status.to_string())
                }
            })
            .await;
    }

    async fn status(&self, name: &str) -> Value {
        let quota = self.api::<ResourceQuota>().get(name).await.unwrap();
        serde_json::to_value(quota.status).unwrap()
    }

    async fn uses(&self, name: &str, expected: Value) {
        self.cluster
            .eventually(&format!("{name} says {expected}"), async || {
                let used = self.status(name).await["used"].clone();
                if used == expected { Ok(()) } else { Err(used.to_string()) }
            })
            .await;
    }

    async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

fn pod(name: &str, resources: Value) -> Value {
    let container = json!({ "name": "c", "image": "i", "resources": resources });
    json!({ "metadata": { "name": name }, "spec": { "containers": [container] } })
}

fn refusal(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        other => other.to_string(),
    }
}

/// However often it is used up, it can be used again as soon as it is free.
#[tokio::test]
async fn what_comes_and_goes_all_the_time_is_given_back_at_once() {
    let quotas = Quotas::start().await;
    quotas.quota("q", json!({ "hard": { "pods": "1" } })).await;
    let start = tokio::time::Instant::now();
    for turn in 0..100 {
        let name = format!("p{turn}");
        quotas.pod(&name, json!({})).await.unwrap();
        quotas.delete::<Pod>(&name).await;
        quotas.uses("q", json!({ "pods": "0" })).await;
    }
    let took = start.elapsed();
    assert!(took < 2 * MINUTE, "{took:?}");
}

#[tokio::test]
async fn a_quota_is_used_up_and_freed() {
    let quotas = Quotas::start().await;
    quotas.map("before").await.unwrap();
    // The one of the cluster's authority is there, too.
    quotas
        .quota("q", json!({ "hard": { "configmaps": "4", "services": "1", "pods": "2", "requests.cpu": "1" } }))
        .await;
    quotas.uses("q", json!({ "configmaps": "2", "services": "1", "pods": "0", "requests.cpu": "0" })).await;
    quotas.map("a").await.unwrap();
    quotas.map("b").await.unwrap();
    assert_eq!(
        quotas.map("c").await.unwrap_err(),
        "403 configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=4, limited: configmaps=4"
    );
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 1 }] } });
    assert_eq!(
        quotas.create::<Service>(service).await.unwrap_err(),
        "403 services \"s\" is forbidden: exceeded quota: q, requested: services=1, used: services=1, limited: services=1"
    );
    assert_eq!(
        quotas.pod("p", json!({})).await.unwrap_err(),
        "403 pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    let asking = |cpu: &str| pod("p", json!({ "requests": { "cpu": cpu } }));
    assert_eq!(
        quotas.create::<Pod>(asking("1500m")).await.unwrap_err(),
        "403 pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=0, limited: requests.cpu=1"
    );
    quotas.create::<Pod>(asking("750m")).await.unwrap();
    quotas.uses("q", json!({ "configmaps": "4", "services": "1", "pods": "1", "requests.cpu": "750m" })).await;
    quotas.delete::<Pod>("p").await;
    quotas.delete::<ConfigMap>("a").await;
    quotas.uses("q", json!({ "configmaps": "3", "services": "1", "pods": "0", "requests.cpu": "0" })).await;
    quotas.map("c").await.unwrap();
    quotas.uses("q", json!({ "configmaps": "4", "services": "1", "pods": "0", "requests.cpu": "0" })).await;
    quotas.cluster.shutdown().await;
}

#[tokio::test]
async fn dry_runs_are_checked_and_not_charged() {
    let quotas = Quotas::start().await;
    quotas.quota("q", json!({ "hard": { "pods": "1" } })).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let trying = serde_json::from_value::<Pod>(pod("p", json!({}))).unwrap();
    quotas.api::<Pod>().create(&dry, &trying).await.unwrap();
    assert_eq!(quotas.status("q").await["used"], json!({ "pods": "0" }));
    quotas.api::<Pod>().create(&PostParams::default(), &trying).await.unwrap();
    let other = serde_json::from_value::<Pod>(pod("other", json!({}))).unwrap();
    let refused = quotas.api::<Pod>().create(&dry, &other).await.map_err(refusal).unwrap_err();
    assert!(refused.contains("exceeded quota: q"), "{refused}");
    quotas.cluster.shutdown().await;
}

#[tokio::test]
async fn scopes_tell_pods_apart() {
    let quotas = Quotas::start().await;
    let scoped = |scope: &str| json!({ "hard": { "pods": "1" }, "scopes": [scope] });
    for scope in ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort"] {
        quotas.quota(&scope.to_lowercase(), scoped(scope)).await;
    }
    let critical = json!({ "scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"] });
    let selector = json!({ "hard": { "pods": "0" }, "scopeSelector": { "matchExpressions": [critical] } });
    quotas.quota("critical", selector).await;
    let used = async || {
        let mut used = Vec::new();
        for name in ["terminating", "notterminating", "besteffort", "notbesteffort"] {
            used.push(quotas.status(name).await["used"]["pods"].as_str().unwrap().parse::<u32>().unwrap());
        }
        used
    };
    quotas.pod("long", json!({})).await.unwrap();
    assert_eq!(used().await, [0, 1, 1, 0]);
    let refused = quotas.pod("other", json!({})).await.unwrap_err();
    assert!(
        refused.contains("exceeded quota: besteffort, requested: pods=1, used: pods=1, limited: pods=1"),
        "{refused}"
    );
    let refused = quotas.pod("other", json!({ "priorityClassName": "system-node-critical" })).await.unwrap_err();
    assert!(refused.contains("exceeded quota"), "{refused}");
    let mut short = pod("short", json!({ "requests": { "cpu": "1" } }));
    short["spec"]["activeDeadlineSeconds"] = 3600.into();
    quotas.create::<Pod>(short).await.unwrap();
    assert_eq!(used().await, [1, 1, 1, 1]);
    // It gets an end: it is another quota's, which is used up.
    let ending = Patch::Merge(json!({ "spec": { "activeDeadlineSeconds": 5 } }));
    let refused =
        quotas.api::<Pod>().patch("long", &PatchParams::default(), &ending).await.map_err(refusal).unwrap_err();
    assert!(refused.contains("exceeded quota: terminating"), "{refused}");
    quotas.delete::<Pod>("short").await;
    quotas.uses("terminating", json!({ "pods": "0" })).await;
    quotas.api::<Pod>().patch("long", &PatchParams::default(), &ending).await.unwrap();
    quotas.uses("terminating", json!({ "pods": "1" })).await;
    quotas.uses("notterminating", json!({ "pods": "0" })).await;
    quotas.cluster.shutdown().await;
}

#[tokio::test]
async fn pods_that_ended_are_only_counted() {
    let quotas = Quotas::start().await;
    quotas.quota("q", json!({ "hard": { "pods": "1", "count/pods": "2" } })).await;
    quotas.pod("a", json!({})).await.unwrap();
    quotas.uses("q", json!({ "pods": "1", "count/pods": "1" })).await;
    let ended = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
    quotas.api::<Pod>().patch_status("a", &PatchParams::default(), &ended).await.unwrap();
    quotas.uses("q", json!({ "pods": "0", "count/pods": "1" })).await;
    quotas.pod("b", json!({})).await.unwrap();
    let refused = quotas.pod("c", json!({})).await.unwrap_err();
    let why =
        "exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=2,pods=1, limited: count/pods=2,pods=1";
    assert!(refused.ends_with(why), "{refused}");
    quotas.cluster.shutdown().await;
}

#[tokio::test]
async fn custom_resources_are_counted_when_they_come_and_go() {
    let quotas = Quotas::start().await;
    let name = "count/widgets.example.com";
    quotas
        .create::<ResourceQuota>(json!({ "metadata": { "name": "q" }, "spec": { "hard": { name: "1", "pods": "5" } } }))
        .await
        .unwrap();
    // Nobody knows what they are; the rest counts.
    quotas.uses("q", json!({ "pods": "0" })).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(quotas.cluster.client());
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let definition = json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    });
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    quotas.uses("q", json!({ name: "0", "pods": "0" })).await;
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Widget"), "widgets");
    let widgets: Api<DynamicObject> = Api::namespaced_with(quotas.cluster.client(), "default", &kind);
    widgets.create(&PostParams::default(), &DynamicObject::new("a", &kind)).await.unwrap();
    let refused = widgets.create(&PostParams::default(), &DynamicObject::new("b", &kind)).await.map_err(refusal);
    assert_eq!(
        refused.unwrap_err(),
        format!(
            "403 widgets.example.com \"b\" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}=1, limited: {name}=1"
        )
    );
    definitions.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    quotas.uses("q", json!({ name: "0", "pods": "0" })).await;
    quotas.cluster.shutdown().await;
}

#[tokio::test]
async fn a_quota_is_lowered_raised_and_removed() {
    let quotas = Quotas::start().await;
    quotas.quota("q", json!({ "hard": { "pods": "3" } })).await;
    for name in ["a", "b", "c"] {
        quotas.pod(name, json!({})).await.unwrap();
    }
    let limit = async |pods: &str| {
        let patch = Patch::Merge(json!({ "spec": { "hard": { "pods": pods } } }));
        quotas.api::<ResourceQuota>().patch("q", &PatchParams::default(), &patch).await.unwrap();
        let said = async || {
            let hard = quotas.status("q").await["hard"]["pods"].clone();
            if hard == pods { Ok(()) } else { Err(hard.to_string()) }
        };
        quotas.cluster.eventually("the limit counts", said).await;
    };
    limit("1").await;
    let refused = quotas.pod("d", json!({})).await.unwrap_err();
    assert!(refused.ends_with("exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=1"), "{refused}");
    quotas.delete::<Pod>("a").await;
    quotas.delete::<Pod>("b").await;
    quotas.uses("q", json!({ "pods": "1" })).await;
    assert!(quotas.pod("d", json!({})).await.is_err());
    limit("2").await;
    quotas.pod("d", json!({})).await.unwrap();
    assert!(quotas.pod("e", json!({})).await.is_err());
    quotas.delete::<ResourceQuota>("q").await;
    quotas.pod("e", json!({})).await.unwrap();
    quotas.cluster.shutdown().await;
}

#[tokio::test]
async fn what_was_charged_for_nothing_is_found_out() {
    let quotas = Quotas::start().await;
    quotas.quota("q", json!({ "hard": { "count/configmaps": "10" } })).await;
    let used = quotas.status("q").await["used"]["count/configmaps"].clone();
    quotas.map("a").await.unwrap();
    // The name is taken: nothing comes of it.
    assert!(quotas.map("a").await.unwrap_err().starts_with("409"));
    assert_eq!((used, quotas.status("q").await["used"]["count/configmaps"].clone()), (json!("1"), json!("3")));
    quotas.cluster.advance(MINUTE * 6).await;
    quotas.uses("q", json!({ "count/configmaps": "2" })).await;
    quotas.cluster.shutdown().await;
}

/// Many create and delete at once, against two quotas: there are never more pods than either allows.
#[tokio::test]
async fn no_quota_is_ever_exceeded() {
    const HARD: usize = 5;
    let quotas = Quotas::start().await;
    quotas.quota("all", json!({ "hard": { "count/pods": HARD.to_string(), "pods": "50" } })).await;
    quotas.quota("wide", json!({ "hard": { "count/pods": "6" } })).await;
    let entropy = quotas.cluster.host().entropy().clone();
    let dice = |below: u64| entropy.next_u64() % below;
    let (mut created, mut refused) = (0, 0);
    for round in 0..30 {
        let writes = (0..dice(12)).map(|index| {
            let (quotas, name) = (&quotas, format!("p-{round}-{index}"));
            async move { quotas.pod(&name, json!({})).await.is_ok() }
        });
        let there = quotas.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
        assert!(there.len() <= HARD, "{} pods", there.len());
        let going = there.iter().filter(|_| dice(3) == 0).map(|pod| pod.metadata.name.clone().unwrap());
        let deletions = going.map(|name| {
            let quotas = &quotas;
            async move { quotas.delete::<Pod>(&name).await }
        });
        let (outcomes, _) = futures::join!(join_all(writes), join_all(deletions));
        created += outcomes.iter().filter(|created| **created).count();
        refused += outcomes.iter().filter(|created| !**created).count();
        quotas.cluster.advance(Duration::from_millis(dice(300))).await;
    }
    assert!(created > HARD && refused > 0, "{created} {refused}");
    let there = quotas.api::<Pod>().list(&ListParams::default()).await.unwrap().items.len();
    quotas.uses("all", json!({ "count/pods": there.to_string(), "pods": there.to_string() })).await;
    quotas.uses("wide", json!({ "count/pods": there.to_string() })).await;
    quotas.cluster.shutdown().await;
}

/// Two API servers on one store charge one quota.
#[tokio::test]
async fn two_servers_never_exceed_a_quota() {
    const HARD: usize = 7;
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let first = TestCluster::builder().store(store.clone()).virtual_time().start().await;
    let second = TestCluster::builder().store(store).controllers("").without_scheduler().seed(8).start().await;
    let quotas = Quotas { cluster: first };
    quotas.quota("q", json!({ "hard": { "count/pods": HARD.to_string() } })).await;
    let clients = [quotas.cluster.client(), second.client()];
    let writes = (0..40).map(|index| {
        let pods: Api<Pod> = Api::namespaced(clients[index % 2].clone(), "default");
        async move {
            let pod = serde_json::from_value(pod(&format!("p-{index}"), json!({}))).unwrap();
            pods.create(&PostParams::default(), &pod).await.map_err(refusal)
        }
    });
    let outcomes = join_all(writes).await;
    let refused: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert_eq!(outcomes.len() - refused.len(), HARD);
    assert!(refused.iter().all(|why| why.contains("exceeded quota: q, requested: count/pods=1")), "{refused:?}");
    let there = quotas.api::<Pod>().list(&ListParams::default()).await.unwrap().items.len();
    assert_eq!(there, HARD);
    quotas.uses("q", json!({ "count/pods": HARD.to_string() })).await;
    second.shutdown().await;
    quotas.cluster.shutdown().await;
}

#[tokio::test]
async fn namespaces_without_a_quota_are_free() {
    let quotas = Quotas::start().await;
    quotas.quota("q", json!({ "hard": { "count/configmaps": "0" } })).await;
    assert!(quotas.map("a").await.is_err());
    let namespaces: Api<Namespace> = Api::all(quotas.cluster.client());
    let other = serde_json::from_value(json!({ "metadata": { "name": "default-other" } })).unwrap();
    namespaces.create(&PostParams::default(), &other).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(quotas.cluster.client(), "default-other");
    let map = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    quotas.cluster.shutdown().await;
}
