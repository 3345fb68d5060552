//! The examples, each in a whole cluster in virtual time.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../examples/foo.rs"]
mod foo;
#[allow(dead_code)]
#[path = "../examples/ingress_annotator.rs"]
mod ingress_annotator;
#[allow(dead_code)]
#[path = "../examples/mydatabase.rs"]
mod mydatabase;
#[allow(dead_code)]
#[path = "../examples/website.rs"]
mod website;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rkube_operator::Operator;
use rkube_operator::k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use rkube_operator::k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Service};
use rkube_operator::k8s_openapi::api::networking::v1::Ingress;
use rkube_operator::kube::ResourceExt as _;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_testkit::{Faults, TestCluster};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LONG: Duration = Duration::from_secs(600);

async fn cluster() -> TestCluster {
    TestCluster::builder().virtual_time().start().await
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn deployment(name: &str) -> Value {
    let containers = json!([{ "name": "c", "image": "i" }]);
    json!({ "metadata": { "name": name }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": containers } },
    } })
}

#[tokio::test]
async fn an_ingress_is_annotated_with_one_write() {
    let cluster = cluster().await;
    let mut operator = Operator::new(cluster.environment());
    ingress_annotator::start(&mut operator);
    let writes = Arc::new(AtomicU32::new(0));
    let counted = writes.clone();
    let _counting = operator.environment().caches.objects::<Ingress>().on_change(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let api: Api<Ingress> = Api::default_namespaced(cluster.client());
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let ingress = json!({ "metadata": { "name": "web" }, "spec": { "defaultBackend": backend } });
    api.create(&PostParams::default(), &object(ingress)).await.unwrap();
    let annotation = async || api.get("web").await.unwrap().annotations().get("foo").cloned();
    cluster.advance(LONG).await;
    assert_eq!((annotation().await.as_deref(), writes.load(Ordering::Relaxed)), (Some("bar"), 2));

    // Whoever changes it gets it back, and that is all there is to write.
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "foo": "other" } } }));
    api.patch("web", &PatchParams::default(), &patch).await.unwrap();
    cluster.advance(LONG).await;
    assert_eq!((annotation().await.as_deref(), writes.load(Ordering::Relaxed)), (Some("bar"), 4));
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    api.patch("web", &PatchParams::default(), &patch).await.unwrap();
    cluster.advance(LONG).await;
    assert_eq!(writes.load(Ordering::Relaxed), 5);
    operator.status().ready().unwrap();
    operator.shutdown().await;
}

#[tokio::test]
async fn a_foo_has_a_deployment() {
    let cluster = cluster().await;
    let mut operator = Operator::new(cluster.environment());
    foo::define(cluster.client()).await.unwrap();
    foo::start(&mut operator);
    let foos: Api<foo::Foo> = Api::default_namespaced(cluster.client());
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let spec = |name: &str| foo::FooSpec { deployment_name: name.to_owned(), replicas: 1 };
    cluster
        .eventually("foos are served", async || {
            let made = foos.create(&PostParams::default(), &foo::Foo::new("example", spec("of-foo"))).await;
            made.map_err(|error| error.to_string())
        })
        .await;
    let replicas = async || -> Result<i32, String> {
        let found = deployments.get("of-foo").await.map_err(|error| error.to_string())?;
        assert_eq!(found.owner_references()[0].kind, "Foo");
        found.spec.and_then(|spec| spec.replicas).ok_or_else(|| "no replicas".to_owned())
    };
    assert_eq!(cluster.eventually("a deployment", replicas).await, 1);
    let patch = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    foos.patch("example", &PatchParams::default(), &patch).await.unwrap();
    let scaled = async || if replicas().await? == 3 { Ok(()) } else { Err("not scaled".to_owned()) };
    cluster.eventually("the deployment follows", scaled).await;
    // Who scales the deployment itself is overruled.
    let patch = Patch::Merge(json!({ "spec": { "replicas": 7 } }));
    deployments.patch("of-foo", &PatchParams::default(), &patch).await.unwrap();
    cluster.eventually("the deployment is as the Foo says", scaled).await;

    deployments.create(&PostParams::default(), &object(deployment("taken"))).await.unwrap();
    foos.create(&PostParams::default(), &foo::Foo::new("late", spec("taken"))).await.unwrap();
    let events: Api<Event> = Api::default_namespaced(cluster.client());
    let said = async || {
        let found = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let said = |reason: &str| found.items.iter().find(|event| event.reason.as_deref() == Some(reason)).cloned();
        said("Synced").ok_or("not synced")?;
        said("ErrResourceExists").ok_or_else(|| "no event".to_owned())
    };
    let event = cluster.eventually("an event says why", said).await;
    assert_eq!(event.message.as_deref(), Some("Resource \"taken\" already exists and is not managed by Foo"));
    assert_eq!((event.type_.as_deref(), event.involved_object.name.as_deref()), (Some("Warning"), Some("late")));
    operator.shutdown().await;
}

#[tokio::test]
async fn a_website_has_pods_a_status_and_a_domain_until_it_goes() {
    let cluster = cluster().await;
    let mut operator = Operator::new(cluster.environment());
    website::define(cluster.client()).await.unwrap();
    website::start(&mut operator);
    let sites: Api<website::Website> = Api::default_namespaced(cluster.client());
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    for name in ["blog", "shop"] {
        let domain = format!("{name}.example.com");
        let site = website::Website::new(name, website::WebsiteSpec { domain, replicas: Some(2) });
        cluster
            .eventually("websites are served", async || {
                sites.create(&PostParams::default(), &site).await.map_err(|error| error.to_string())
            })
            .await;
    }
    let domains = async || {
        let map = maps.get_opt("domains").await.map_err(|error| error.to_string())?;
        let map = map.ok_or_else(|| "no domain is registered".to_owned())?;
        Ok::<_, String>(map.data.unwrap_or_default().into_values().collect::<Vec<_>>())
    };
    cluster
        .eventually("both are served", async || {
            let site = sites.get("blog").await.map_err(|error| error.to_string())?;
            site.status.filter(|status| status.observed_generation == Some(1)).ok_or("no status")?;
            deployments.get("shop").await.map_err(|error| error.to_string())?;
            let all = domains().await?;
            if all == ["blog.example.com", "shop.example.com"] { Ok(()) } else { Err(format!("{all:?}")) }
        })
        .await;
    assert_eq!(sites.get("blog").await.unwrap().finalizers(), ["example.com/domain"]);
    sites.delete("blog", &DeleteParams::background()).await.unwrap();
    cluster
        .eventually("nothing is left of it", async || {
            let left = sites.get_opt("blog").await.map_err(|error| error.to_string())?;
            let deployment = deployments.get_opt("blog").await.map_err(|error| error.to_string())?;
            if left.is_none() && deployment.is_none() { Ok(()) } else { Err("it is still there".to_owned()) }
        })
        .await;
    assert_eq!(domains().await.unwrap(), ["shop.example.com"]);
    operator.shutdown().await;
}

#[tokio::test]
async fn a_database_has_members_with_disks_until_it_goes() {
    let cluster = TestCluster::builder().nodes(3).virtual_time().start().await;
    let mut operator = Operator::new(cluster.environment());
    mydatabase::define(cluster.client()).await.unwrap();
    mydatabase::start(&mut operator);
    let databases: Api<mydatabase::MyDatabase> = Api::default_namespaced(cluster.client());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    let sets: Api<StatefulSet> = Api::default_namespaced(cluster.client());
    let services: Api<Service> = Api::default_namespaced(cluster.client());
    let spec = mydatabase::MyDatabaseSpec { version: "16".into(), members: 2, storage: "1Gi".into() };
    let database = mydatabase::MyDatabase::new("orders", spec);
    cluster
        .eventually("databases are served", async || {
            databases.create(&PostParams::default(), &database).await.map_err(|error| error.to_string())
        })
        .await;
    let running = async |generation: i64, members: i32| {
        let what = format!("{members} members run");
        cluster
            .eventually(&what, async || {
                let database = databases.get("orders").await.map_err(|error| error.to_string())?;
                let status = database.status.unwrap_or_default();
                let there = (status.observed_generation, status.phase.as_str(), status.ready_members);
                if there == (Some(generation), "Running", members) { Ok(status) } else { Err(format!("{status:?}")) }
            })
            .await
    };
    assert_eq!(running(1, 2).await.address, "orders.default.svc:5432");
    let patch = |spec: Value| Patch::Merge(json!({ "spec": spec }));
    let grown = patch(json!({ "members": 3, "version": "17" }));
    databases.patch("orders", &PatchParams::default(), &grown).await.unwrap();
    running(2, 3).await;
    let names = |claims: Vec<PersistentVolumeClaim>| claims.iter().map(|claim| claim.name_any()).collect::<Vec<_>>();
    let disks = claims.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(names(disks), ["data-orders-0", "data-orders-1", "data-orders-2"]);
    let larger = patch(json!({ "storage": "2Gi" }));
    let refused = databases.patch("orders", &PatchParams::default(), &larger).await.unwrap_err().to_string();
    assert!(refused.contains("disks cannot change"), "{refused}");
    databases.delete("orders", &DeleteParams::background()).await.unwrap();
    cluster
        .eventually("nothing is left of it", async || {
            let left = claims.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items.len();
            let set = sets.get_opt("orders").await.map_err(|error| error.to_string())?;
            let service = services.get_opt("orders").await.map_err(|error| error.to_string())?;
            if left == 0 && set.is_none() && service.is_none() { Ok(()) } else { Err(format!("{left} claims")) }
        })
        .await;
    operator.shutdown().await;
}

/// All of them at once, while everything goes wrong that can: in the end all is as it should be.
#[tokio::test]
async fn the_examples_get_there_whatever_goes_wrong() {
    let cluster = TestCluster::builder().nodes(2).virtual_time().seed(7).faults(Faults::all()).start().await;
    let mut operator = Operator::new(cluster.environment());
    foo::define(cluster.client()).await.unwrap();
    website::define(cluster.client()).await.unwrap();
    ingress_annotator::start(&mut operator);
    foo::start(&mut operator);
    website::start(&mut operator);
    cluster.advance(LONG).await;
    let ingresses: Api<Ingress> = Api::default_namespaced(cluster.client());
    let foos: Api<foo::Foo> = Api::default_namespaced(cluster.client());
    let sites: Api<website::Website> = Api::default_namespaced(cluster.client());
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let ingress = json!({ "metadata": { "name": "web" }, "spec": { "defaultBackend": backend } });
    ingresses.create(&PostParams::default(), &object(ingress)).await.unwrap();
    let spec = foo::FooSpec { deployment_name: "of-foo".to_owned(), replicas: 1 };
    foos.create(&PostParams::default(), &foo::Foo::new("example", spec)).await.unwrap();
    for name in ["blog", "shop"] {
        let spec = website::WebsiteSpec { domain: format!("{name}.example.com"), replicas: Some(2) };
        sites.create(&PostParams::default(), &website::Website::new(name, spec)).await.unwrap();
    }
    cluster.advance(LONG).await;
    for replicas in 2..=6 {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        foos.patch("example", &PatchParams::default(), &patch).await.unwrap();
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "foo": replicas.to_string() } } }));
        ingresses.patch("web", &PatchParams::default(), &patch).await.unwrap();
        cluster.advance(LONG).await;
    }
    sites.delete("blog", &DeleteParams::background()).await.unwrap();
    cluster.advance(LONG).await;
    cluster.end_faults().await;
    cluster.advance(LONG).await;
    assert!(cluster.chaos().unwrap().faults() > 0);
    assert_eq!(ingresses.get("web").await.unwrap().annotations()["foo"], "bar");
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let available = async |name: &str| deployments.get(name).await.unwrap().status.unwrap().available_replicas;
    assert_eq!((available("of-foo").await, available("shop").await), (Some(6), Some(2)));
    assert!(sites.get_opt("blog").await.unwrap().is_none() && deployments.get_opt("blog").await.unwrap().is_none());
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let domains = maps.get("domains").await.unwrap().data.unwrap_or_default();
    assert_eq!(domains.into_values().collect::<Vec<_>>(), ["shop.example.com"]);
    operator.shutdown().await;
}

/// A database with disks on two control planes, while everything goes wrong that can.
#[tokio::test]
async fn a_database_gets_there_whatever_goes_wrong() {
    for seed in 1..=4 {
        let builder = TestCluster::builder().nodes(3).candidates(2).virtual_time().seed(seed);
        let cluster = builder.faults(Faults::all()).start().await;
        let mut operator = Operator::new(cluster.environment());
        mydatabase::define(cluster.client()).await.unwrap();
        mydatabase::start(&mut operator);
        cluster.advance(LONG).await;
        let databases: Api<mydatabase::MyDatabase> = Api::default_namespaced(cluster.client());
        for name in ["orders", "stock"] {
            let spec = mydatabase::MyDatabaseSpec { version: "16".into(), members: 2, storage: "1Gi".into() };
            databases.create(&PostParams::default(), &mydatabase::MyDatabase::new(name, spec)).await.unwrap();
        }
        for (members, version) in [(3, "16"), (3, "17"), (1, "17"), (4, "18")] {
            cluster.advance(2 * LONG).await;
            let patch = Patch::Merge(json!({ "spec": { "members": members, "version": version } }));
            databases.patch("orders", &PatchParams::default(), &patch).await.unwrap();
        }
        databases.delete("stock", &DeleteParams::background()).await.unwrap();
        cluster.advance(LONG).await;
        cluster.end_faults().await;
        cluster.advance(3 * LONG).await;
        assert!(cluster.chaos().unwrap().faults() > 0);
        let found = databases.get("orders").await.unwrap();
        let status = found.status.unwrap_or_default();
        let is_up = status.phase == "Running" && status.ready_members == 4;
        assert!(is_up && status.observed_generation == found.metadata.generation, "seed {seed}: {status:?}");
        let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
        let disks: Vec<String> =
            claims.list(&ListParams::default()).await.unwrap().iter().map(|it| it.name_any()).collect();
        let expected = ["data-orders-0", "data-orders-1", "data-orders-2", "data-orders-3"];
        assert_eq!(disks, expected, "seed {seed}");
        let sets: Api<StatefulSet> = Api::default_namespaced(cluster.client());
        assert!(sets.get_opt("stock").await.unwrap().is_none(), "seed {seed}");
        operator.shutdown().await;
        cluster.shutdown().await;
    }
}

/// As people run it: over the network, by a kubeconfig, with endpoints.
#[tokio::test]
async fn an_operator_works_in_a_process_of_its_own() {
    let cluster = TestCluster::builder().listen().start().await;
    let kubeconfig = kube::config::Kubeconfig::read_from(cluster.kubeconfig().unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    let mut operator = Operator::connect_to(config, "ingress-annotator").unwrap();
    let address = operator.serve("127.0.0.1:0").await.unwrap();
    ingress_annotator::start(&mut operator);
    let api: Api<Ingress> = Api::default_namespaced(cluster.client());
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let ingress = json!({ "metadata": { "name": "web" }, "spec": { "defaultBackend": backend } });
    api.create(&PostParams::default(), &object(ingress)).await.unwrap();
    let annotated = cluster
        .eventually("an annotation", async || {
            let found = api.get("web").await.map_err(|error| error.to_string())?;
            if found.annotations().contains_key("foo") { Ok(found) } else { Err("none".to_owned()) }
        })
        .await;
    let managers: Vec<_> = annotated.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
    assert!(managers.contains(&"ingress-annotator"), "{managers:?}");
    let ask = async |path: &str| {
        let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    };
    for path in ["/healthz", "/readyz"] {
        let answer = ask(path).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    }
    let metrics = ask("/metrics").await;
    for metric in ["controller_runtime_reconcile_total", "workqueue_depth", "workqueue_adds_total"] {
        assert!(metrics.contains(&format!("{metric}{{controller=\"ingress-annotator\"")), "{metrics}");
    }
    assert!(ask("/elsewhere").await.starts_with("HTTP/1.1 404"));
    operator.shutdown().await;
}
