//! How a cluster starts, what it consists of, and how it ends.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ComponentStatus, ConfigMap, Namespace, Secret};
use rkube_operator::kube::api::{ListParams, PostParams};
use rkube_operator::kube::{Api, Client};
use rkube_store::{Memory, Store};
use rkube_testkit::TestCluster;
use serde_json::json;

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

async fn can_write(client: Client) {
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    maps.create(&PostParams::default(), &map("one")).await.unwrap();
    assert!(maps.get("one").await.unwrap().metadata.uid.is_some());
}

#[tokio::test]
async fn objects_are_kept_and_controllers_run() {
    let cluster = TestCluster::start().await;
    can_write(cluster.client()).await;
    let namespaces = Api::<Namespace>::all(cluster.client());
    let space = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    namespaces.create(&PostParams::default(), &space).await.unwrap();
    cluster
        .eventually("a controller writes into the namespace", async || {
            let maps = Api::<ConfigMap>::namespaced(cluster.client(), "a");
            maps.get("kube-root-ca.crt").await.map_err(|error| error.to_string())
        })
        .await;
    let components = Api::<ComponentStatus>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
    let controllers = components.iter().find(|one| one.metadata.name.as_deref() == Some("controller-manager")).unwrap();
    assert_eq!(controllers.conditions.as_ref().unwrap()[0].status, "True");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_runs_on_threads_and_on_files() {
    let cluster = TestCluster::builder().embedded_store().start().await;
    can_write(cluster.client()).await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn users_may_do_what_roles_say() {
    let cluster = TestCluster::start().await;
    let secrets = Api::<Secret>::namespaced(cluster.client_as("alice", &["people"]), "default");
    let refused = secrets.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(refused.contains(r#"User "alice" cannot list resource "secrets""#), "{refused}");
}

#[tokio::test]
async fn a_store_outlasts_its_cluster() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let first = TestCluster::builder().store(store.clone()).start().await;
    can_write(first.client()).await;
    first.shutdown().await;
    let second = TestCluster::builder().store(store).controllers("").start().await;
    Api::<ConfigMap>::namespaced(second.client(), "default").get("one").await.unwrap();
}

#[tokio::test]
async fn clients_from_outside_come_with_a_kubeconfig() {
    let cluster = TestCluster::builder().listen().start().await;
    let config = std::fs::read_to_string(cluster.kubeconfig().unwrap()).unwrap();
    assert!(config.contains(&format!("server: {}", cluster.url().unwrap())), "{config}");
    let address = cluster.url().unwrap().strip_prefix("https://").unwrap().to_owned();
    tokio::net::TcpStream::connect(&address).await.unwrap();
    drop(cluster);
    for _ in 0..1000 {
        if tokio::net::TcpStream::connect(&address).await.is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("a cluster that was dropped still listens");
}

/// Many at once, each with its own objects.
#[tokio::test]
async fn a_hundred_fit_into_a_process() {
    let starts = (0..100).map(|_| tokio::spawn(TestCluster::start()));
    let mut clusters = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        clusters.push(start.await.unwrap());
    }
    for cluster in &clusters {
        can_write(cluster.client()).await;
    }
}
