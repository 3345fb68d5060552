//! Controllers that do not work, beside one that does.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use rkube_operator::kube::Api;
use rkube_operator::kube::api::PostParams;
use rkube_operator::{Action, Caches, Manager, Queue, run};
use rkube_testkit::TestCluster;
use serde_json::json;

const OBJECTS: usize = 10;
const PANIC: &str = "as it always does";

type Seen = Arc<Mutex<BTreeSet<String>>>;

#[derive(Clone, Copy)]
enum Temper {
    Healthy,
    Panics,
    Hangs,
    Fails,
}

/// A controller of all ConfigMaps of the namespace `default` but those of the cluster.
async fn controller(name: &'static str, temper: Temper, caches: Caches, seen: Seen) {
    let queue = Queue::new();
    let adding = queue.clone();
    let maps = caches.objects::<ConfigMap>().on_change(move |change| {
        if change.key.namespace == "default" && change.key.name.starts_with("map-") {
            adding.add(change.key.name.clone());
        }
    });
    maps.synced().await;
    run(name, queue, 2, move |key: String| {
        let seen = seen.clone();
        async move {
            match temper {
                Temper::Healthy => {
                    seen.lock().unwrap().insert(key);
                    Ok(Action::done())
                }
                Temper::Panics => panic!("{PANIC}"),
                Temper::Hangs => std::future::pending().await,
                Temper::Fails => Err("as it always does"),
            }
        }
    })
    .await;
}

/// These panics are no news: their traces would be longer than all else that the tests say.
fn silence() {
    let said = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<String>().map(String::as_str) != Some(PANIC) {
            said(panic);
        }
    }));
}

#[tokio::test]
async fn others_go_on() {
    silence();
    let cluster = TestCluster::builder().virtual_time().start().await;
    let mut manager = Manager::new(cluster.source());
    let seen = Seen::default();
    let controllers =
        [("panics", Temper::Panics), ("hangs", Temper::Hangs), ("fails", Temper::Fails), ("healthy", Temper::Healthy)];
    for (name, temper) in controllers {
        let (caches, seen) = (manager.caches().clone(), seen.clone());
        manager.add(name, move || controller(name, temper, caches.clone(), seen.clone()));
    }
    let maps = Api::<ConfigMap>::namespaced(cluster.client(), "default");
    for index in 0..OBJECTS {
        let map = json!({ "metadata": { "name": format!("map-{index}") } });
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
        // The cluster's own controllers and the healthy one see it before anybody's time-out.
        cluster.advance(Duration::from_secs(1)).await;
        assert_eq!(seen.lock().unwrap().len(), index + 1);
    }
    cluster.advance(Duration::from_secs(2 * 60 * 60)).await;
    assert_eq!(seen.lock().unwrap().len(), OBJECTS);
    assert_eq!(manager.health().check(), Ok(()), "a reconcile that fails is not its controller's end");
    manager.shutdown().await;
}
