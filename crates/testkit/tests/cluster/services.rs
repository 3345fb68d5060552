//! Where services lead: Endpoints and EndpointSlices in a whole cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Event, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rkube_cluster::SimulatedNodes;
use rkube_cluster::parts::NodeTemplate;
use rkube_operator::kube::ResourceExt as _;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

/// Everything that follows from a write has happened after so much virtual time.
const SOON: Duration = Duration::from_secs(3);

struct Services {
    cluster: TestCluster,
}

impl Services {
    async fn start(nodes: usize) -> Services {
        let part = SimulatedNodes { count: nodes, template: NodeTemplate::default(), ranges_are_given: true };
        Services { cluster: TestCluster::builder().virtual_time().part(part.into()).start().await }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: rkube_operator::kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn service(&self, name: &str, spec: Value) {
        let service: Service = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
        self.api().create(&PostParams::default(), &service).await.unwrap();
    }

    async fn pod(&self, name: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "i", "ports": [{ "name": "http", "containerPort": 8080 }] }] },
        }))
        .unwrap();
        self.api().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// The pods in each slice of a service, by name.
    async fn in_slices(&self, service: &str) -> Vec<Vec<String>> {
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        let mut slices = self.api::<EndpointSlice>().list(&of_service).await.unwrap().items;
        slices.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.as_ref().map_or(0, Vec::len)));
        let names = |slice: EndpointSlice| {
            let endpoints = slice.endpoints.into_iter().flatten().map(|endpoint| match endpoint.target_ref {
                Some(target) => target.name.unwrap_or_default(),
                None => endpoint.addresses.join(","),
            });
            let mut names: Vec<String> = endpoints.collect();
            names.sort();
            names
        };
        slices.into_iter().map(names).collect()
    }

    async fn endpoints(&self, service: &str) -> Value {
        let endpoints = self.api::<Endpoints>().get_opt(service).await.unwrap();
        endpoints.map_or(Value::Null, |endpoints| serde_json::to_value(endpoints).unwrap())
    }
}

fn web() -> Value {
    json!({ "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": "http" }] })
}

#[tokio::test(start_paused = true)]
async fn a_service_follows_its_pods() {
    let services = Services::start(3).await;
    services.service("web", web()).await;
    services.cluster.advance(SOON).await;
    assert_eq!(services.in_slices("web").await, [[""; 0]], "there is always a slice");
    for number in 0..104 {
        services.pod(&format!("p{number}")).await;
    }
    services.cluster.advance(SOON).await;
    let sizes: Vec<usize> = services.in_slices("web").await.iter().map(Vec::len).collect();
    assert_eq!(sizes, [100, 4]);
    let endpoints = services.endpoints("web").await;
    assert_eq!(endpoints["subsets"][0]["addresses"].as_array().unwrap().len(), 104);
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], 8080);

    let pods = services.api::<Pod>();
    let all = DeleteParams::default();
    for number in 1..104 {
        pods.delete(&format!("p{number}"), &all).await.unwrap();
    }
    services.cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(services.in_slices("web").await, [["p0"]]);
    let patch = json!({ "metadata": { "labels": { "app": "other" } } });
    pods.patch("p0", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    services.cluster.advance(SOON).await;
    assert_eq!(services.in_slices("web").await, [[""; 0]], "what is not selected any more is not there");
    let patch = json!({ "spec": { "selector": { "app": "other" } } });
    services.api::<Service>().patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    services.cluster.advance(SOON).await;
    assert_eq!(services.in_slices("web").await, [["p0"]]);

    services.api::<Service>().delete("web", &all).await.unwrap();
    services.cluster.advance(SOON).await;
    assert_eq!((services.in_slices("web").await.len(), services.endpoints("web").await), (0, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_somebody_changed_is_put_right() {
    let services = Services::start(1).await;
    services.service("web", web()).await;
    services.pod("p").await;
    services.cluster.advance(SOON).await;
    let slices = services.api::<EndpointSlice>();
    let of_service = ListParams::default().labels("kubernetes.io/service-name=web");
    let name = slices.list(&of_service).await.unwrap().items[0].name_any();
    let patch = json!({ "endpoints": [] });
    slices.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    services.cluster.advance(SOON).await;
    assert_eq!(services.in_slices("web").await, [["p"]]);
    slices.delete(&name, &DeleteParams::default()).await.unwrap();
    services.api::<Endpoints>().delete("web", &DeleteParams::default()).await.unwrap();
    services.cluster.advance(SOON).await;
    assert_eq!(services.in_slices("web").await, [["p"]]);
    assert_eq!(services.endpoints("web").await["subsets"][0]["addresses"][0]["targetRef"]["name"], "p");
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_were_written_by_hand_are_mirrored() {
    let services = Services::start(0).await;
    services.service("mine", json!({ "ports": [{ "name": "p", "port": 80 }] })).await;
    let endpoints = |address: &str| -> Endpoints {
        let ports = json!([{ "name": "p", "port": 81 }]);
        serde_json::from_value(json!({
            "metadata": { "name": "mine" }, "subsets": [{ "addresses": [{ "ip": address }], "ports": ports }],
        }))
        .unwrap()
    };
    let generate_name = async || {
        let mut slices = services.api::<EndpointSlice>().list(&ListParams::default()).await.unwrap().items.into_iter();
        slices.find(|slice| slice.name_any().starts_with("mine-")).unwrap().metadata.generate_name
    };
    let api = services.api::<Endpoints>();
    api.create(&PostParams::default(), &endpoints("192.0.2.1")).await.unwrap();
    services.cluster.advance(SOON).await;
    assert_eq!(services.in_slices("mine").await, [["192.0.2.1"]]);
    assert_eq!(generate_name().await.as_deref(), Some("mine-"));
    api.patch("mine", &PatchParams::default(), &Patch::Merge(&endpoints("192.0.2.2"))).await.unwrap();
    services.cluster.advance(SOON).await;
    assert_eq!(services.in_slices("mine").await, [["192.0.2.2"]]);
    assert_eq!(generate_name().await, None, "it is written as one that has its name");
    let skip = json!({ "metadata": { "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" } } });
    api.patch("mine", &PatchParams::default(), &Patch::Merge(&skip)).await.unwrap();
    services.cluster.advance(SOON).await;
    assert_eq!(services.in_slices("mine").await.len(), 0);
}

const IN_ZONES: &str = "{ kind: Node, metadata: { labels: { topology.kubernetes.io/zone: 'z{index%2}' } } }";

#[tokio::test(start_paused = true)]
async fn a_service_shares_its_pods_out_to_zones() {
    let cluster = TestCluster::builder().virtual_time().nodes(2).node_template(IN_ZONES).start().await;
    let services = Services { cluster };
    let hints = async || {
        let slices = services.api::<EndpointSlice>().list(&ListParams::default()).await.unwrap().items;
        let of_web = slices.into_iter().filter(|slice| slice.name_any().starts_with("web"));
        let endpoints = of_web.flat_map(|slice| slice.endpoints.unwrap_or_default());
        let zones =
            endpoints.filter_map(|endpoint| endpoint.hints).flat_map(|hints| hints.for_zones.unwrap_or_default());
        let mut zones: Vec<String> = zones.map(|zone| zone.name).collect();
        zones.sort();
        zones
    };
    let told = async |reason: &str, message: &str| {
        let events = services.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        let is_it =
            |event: &Event| event.reason.as_deref() == Some(reason) && event.message.as_deref() == Some(message);
        assert!(events.iter().any(is_it), "{message}");
    };
    services.service("web", web()).await;
    let annotate = async |mode: Option<&str>| {
        let patch = json!({ "metadata": { "annotations": { "service.kubernetes.io/topology-mode": mode } } });
        services.api::<Service>().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        services.cluster.advance(SOON).await;
    };
    services.pod("one").await;
    annotate(Some("Auto")).await;
    let few = "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4";
    told("TopologyAwareHintsDisabled", few).await;
    assert!(hints().await.is_empty());
    for name in ["two", "three", "four"] {
        services.pod(name).await;
    }
    services.cluster.advance(SOON).await;
    assert_eq!(hints().await, ["z0", "z0", "z1", "z1"]);
    told("TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled, addressType: IPv4").await;
    annotate(None).await;
    assert!(hints().await.is_empty());
    told("TopologyAwareHintsDisabled", "Topology Aware Hints has been disabled, addressType: IPv4").await;
}
