//! ResourceClaims of pods, from templates to release; and pods whose devices go bad. The test allocates: no scheduler
//! does.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Resource, ResourceExt as _};
use rkube_testkit::TestCluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

struct Devices {
    cluster: TestCluster,
}

impl Devices {
    /// Pods get nodes from the test, and run at once.
    async fn start() -> Devices {
        Devices { cluster: TestCluster::builder().nodes(1).without_scheduler().virtual_time().start().await }
    }

    fn claims(&self) -> Api<ResourceClaim> {
        Api::namespaced(self.cluster.client(), "default")
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn create<K>(api: Api<K>, object: Value) -> K
    where
        K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
    {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    async fn template(&self) {
        let api: Api<ResourceClaimTemplate> = Api::namespaced(self.cluster.client(), "default");
        let request = json!({ "name": "one", "exactly": { "deviceClassName": "gpus" } });
        let spec =
            json!({ "metadata": { "labels": { "kind": "gpu" } }, "spec": { "devices": { "requests": [request] } } });
        Self::create(api, json!({ "metadata": { "name": "gpu" }, "spec": spec })).await;
    }

    /// A pod with two claims: one from the template, and one by name.
    async fn pod(&self, name: &str, claims: Value) {
        let containers = json!([{ "name": "main", "image": "web" }]);
        let spec = json!({ "containers": containers, "resourceClaims": claims, "restartPolicy": "Never" });
        Self::create(self.pods(), json!({ "metadata": { "name": name }, "spec": spec })).await;
    }

    /// What a scheduler does: the claim gets a device for a pod, and the pod a node.
    async fn schedule(&self, pod: &str, claim: &str, tolerations: Value) {
        let uid = self.pods().get(pod).await.unwrap().uid().unwrap();
        let keep = Patch::Merge(json!({ "metadata": { "finalizers": [FINALIZER] } }));
        self.claims().patch(claim, &PatchParams::default(), &keep).await.unwrap();
        let result = json!({
            "request": "one", "driver": "gpu.example.com", "pool": "rack", "device": "gpu-0", "tolerations": tolerations,
        });
        let status = json!({
            "allocation": { "devices": { "results": [result] } },
            "reservedFor": [{ "resource": "pods", "name": pod, "uid": uid }],
        });
        let patch = Patch::Merge(json!({ "status": status }));
        self.claims().patch_status(claim, &PatchParams::default(), &patch).await.unwrap();
        self.bind(pod).await;
    }

    async fn bind(&self, pod: &str) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod },
            "target": { "apiVersion": "v1", "kind": "Node", "name": "sim-0" },
        });
        let _: Value = self.pods().create_subresource("binding", pod, &PostParams::default(), &binding).await.unwrap();
    }

    /// The name of the one claim that was made for a pod.
    async fn made(&self, pod: &str) -> String {
        let pods = self.pods();
        self.cluster
            .eventually("the pod has its claim", async || {
                let status = pods.get(pod).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
                let statuses = status.resource_claim_statuses.unwrap_or_default();
                statuses.into_iter().find_map(|one| one.resource_claim_name).ok_or_else(|| "none".to_owned())
            })
            .await
    }

    async fn told(&self, reason: &str) -> Vec<String> {
        let events = Api::<Event>::namespaced(self.cluster.client(), "default");
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let told = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        told.filter_map(|event| event.message).collect()
    }

    async fn taint(&self, taints: Value) {
        let api: Api<ResourceSlice> = Api::all(self.cluster.client());
        let pool = json!({ "name": "rack", "generation": 1, "resourceSliceCount": 1 });
        let spec = json!({
            "driver": "gpu.example.com", "nodeName": "sim-0", "pool": pool,
            "devices": [{ "name": "gpu-0", "taints": taints }],
        });
        let slice = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": spec });
        api.patch("s", &PatchParams::apply("driver").force(), &Patch::Apply(slice)).await.unwrap();
    }
}

fn from_template() -> Value {
    json!([{ "name": "gpu", "resourceClaimTemplateName": "gpu" }])
}

#[tokio::test]
async fn a_claim_is_made_from_a_template_and_goes_with_its_pod() {
    let devices = Devices::start().await;
    devices.pod("web", from_template()).await;
    devices.cluster.advance(Duration::from_secs(1)).await;
    let missing = "PodResourceClaim gpu: resource claim template \"gpu\": resourceclaimtemplate.resource.k8s.io \"gpu\" not found";
    assert_eq!(devices.told("FailedResourceClaimCreation").await, [missing]);

    devices.template().await;
    let name = devices.made("web").await;
    assert!(name.starts_with("web-gpu-"), "{name}");
    let claim = devices.claims().get(&name).await.unwrap();
    assert_eq!(claim.labels()["kind"], "gpu");
    assert_eq!(claim.annotations()["resource.kubernetes.io/pod-claim-name"], "gpu");
    assert_eq!(claim.owner_references()[0].name, "web");
    let pod = devices.pods().get("web").await.unwrap();
    let managers = pod.metadata.managed_fields.unwrap();
    assert!(managers.iter().any(|entry| entry.manager.as_deref() == Some("ResourceClaimController")), "{managers:?}");

    // One that is lost is made again.
    devices.claims().delete(&name, &DeleteParams::default()).await.unwrap();
    devices.cluster.advance(MINUTE).await;
    let again = devices.made("web").await;
    assert_ne!(name, again);

    devices.schedule("web", &again, json!([])).await;
    devices.cluster.advance(MINUTE).await;
    let claim = devices.claims().get(&again).await.unwrap();
    assert!(claim.status.unwrap().allocation.is_some(), "it is in use");
    devices.pods().delete("web", &DeleteParams::default()).await.unwrap();
    devices.cluster.advance(2 * MINUTE).await;
    assert!(devices.claims().list(&ListParams::default()).await.unwrap().items.is_empty());
}

/// A claim that pods share is reserved for each that has a node, and free when the last of them is done.
#[tokio::test]
async fn a_shared_claim_is_released_by_the_last_pod() {
    let devices = Devices::start().await;
    let request = json!({ "name": "one", "exactly": { "deviceClassName": "gpus" } });
    let claim = json!({ "metadata": { "name": "shared" }, "spec": { "devices": { "requests": [request] } } });
    Devices::create(devices.claims(), claim).await;
    for name in ["a", "b"] {
        devices.pod(name, json!([{ "name": "gpu", "resourceClaimName": "shared" }])).await;
    }
    devices.schedule("a", "shared", json!([])).await;
    devices.bind("b").await;
    devices.cluster.advance(MINUTE).await;
    let reserved = async || {
        let status = devices.claims().get("shared").await.unwrap().status.unwrap_or_default();
        let all = status.reserved_for.unwrap_or_default();
        (all.into_iter().map(|one| one.name).collect::<Vec<_>>(), status.allocation.is_some())
    };
    assert_eq!(reserved().await, (vec!["a".to_owned(), "b".to_owned()], true));
    devices.pods().delete("a", &DeleteParams::default()).await.unwrap();
    devices.cluster.advance(MINUTE).await;
    assert_eq!(reserved().await, (vec!["b".to_owned()], true));
    // Whoever is to be deleted is kept while it is in use.
    devices.claims().delete("shared", &DeleteParams::default()).await.unwrap();
    devices.cluster.advance(MINUTE).await;
    assert_eq!(reserved().await, (vec!["b".to_owned()], true));
    devices.pods().delete("b", &DeleteParams::default()).await.unwrap();
    devices.cluster.advance(MINUTE).await;
    assert!(devices.claims().get_opt("shared").await.unwrap().is_none());
}

#[tokio::test]
async fn pods_leave_devices_that_go_bad() {
    let devices = Devices::start().await;
    devices.template().await;
    let toleration = json!([{ "key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 90 }]);
    for (name, tolerations) in [("brief", json!([])), ("patient", toleration)] {
        devices.pod(name, from_template()).await;
        let claim = devices.made(name).await;
        devices.schedule(name, &claim, tolerations).await;
    }
    devices.taint(json!([{ "key": "bad", "effect": "NoSchedule" }])).await;
    devices.cluster.advance(MINUTE).await;
    assert_eq!(devices.pods().list(&ListParams::default()).await.unwrap().items.len(), 2);

    devices.taint(json!([{ "key": "bad", "effect": "NoExecute" }])).await;
    devices.cluster.advance(MINUTE).await;
    assert!(devices.pods().get_opt("brief").await.unwrap().is_none());
    assert!(devices.pods().get_opt("patient").await.unwrap().is_some());
    assert_eq!(devices.told("DeviceTaintManagerEviction").await, ["Marking for deletion"]);
    // It is well again before the other has lost its patience.
    devices.taint(json!([])).await;
    devices.cluster.advance(10 * MINUTE).await;
    assert!(devices.pods().get_opt("patient").await.unwrap().is_some());
    let told = devices.told("DeviceTaintManagerEviction").await;
    assert!(told.contains(&"Cancelling deletion".to_owned()), "{told:?}");
    devices.taint(json!([{ "key": "bad", "effect": "NoExecute" }])).await;
    devices.cluster.advance(3 * MINUTE).await;
    assert!(devices.pods().get_opt("patient").await.unwrap().is_none());
}
