//! A controller written with kube-rs: it gives every ConfigMap that asks for one a copy, and keeps it right.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Config, Resource, ResourceExt};
use rkube_testkit::{Rkube, TIMEOUT};

use crate::start;

#[tokio::test]
async fn a_controller_reconciles_config_maps() {
    let rkube = start();
    let client = client(&rkube).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let controller = tokio::spawn(run_controller(client));

    maps.create(&PostParams::default(), &source("word", "one")).await.unwrap();
    wait_for_copy(&maps, Some("one")).await;

    let change = serde_json::json!({"data": {"word": "two"}});
    maps.patch("source", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    wait_for_copy(&maps, Some("two")).await;

    maps.delete("copy", &DeleteParams::default()).await.unwrap();
    wait_for_copy(&maps, Some("two")).await;
    controller.abort();
}

pub async fn client(rkube: &Rkube) -> Client {
    let kubeconfig = Kubeconfig::read_from(rkube.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn run_controller(client: Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let sources = watcher::Config::default().labels("role=source");
    Controller::new(maps.clone(), sources)
        .owns(maps, watcher::Config::default().labels("role=copy"))
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client))
        .for_each(|result| async move { drop(result) })
        .await;
}

async fn reconcile(source: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.as_ref().clone());
    let copy = ConfigMap {
        metadata: ObjectMeta {
            name: Some("copy".to_owned()),
            labels: Some([("role".to_owned(), "copy".to_owned())].into()),
            owner_references: Some(vec![source.controller_owner_ref(&()).expect("a stored object has a uid")]),
            ..ObjectMeta::default()
        },
        data: source.data.clone(),
        ..ConfigMap::default()
    };
    let applied = maps.patch("copy", &PatchParams::apply("kube-rs-test").force(), &Patch::Apply(&copy)).await?;
    assert!(applied.resource_version().is_some());
    Ok(Action::await_change())
}

fn source(key: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some("source".to_owned()),
            labels: Some([("role".to_owned(), "source".to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([(key.to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

async fn wait_for_copy(maps: &Api<ConfigMap>, expected: Option<&str>) {
    let poll = async {
        loop {
            let copy = maps.get_opt("copy").await.unwrap();
            let word = copy.and_then(|copy| copy.data?.get("word").cloned());
            if word.as_deref() == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, poll).await.unwrap_or_else(|_| panic!("the copy does not become {expected:?}"));
}
