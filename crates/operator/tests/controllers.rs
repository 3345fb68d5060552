//! Controllers in a whole cluster, in virtual time: those that misbehave, and what happens to the others.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rkube_operator::k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use rkube_operator::kube::ResourceExt as _;
use rkube_operator::kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use rkube_operator::kube::core::PartialObjectMeta;
use rkube_operator::ownership::{Claimant, controller_reference};
use rkube_operator::{
    Action, ByOwner, Caches, Controller, Environment, Error, Key, NetworkSource, Operator, Predicate, Watch,
};
use rkube_testkit::TestCluster;
use serde_json::json;

const LONG: Duration = Duration::from_secs(600);

async fn cluster() -> TestCluster {
    TestCluster::builder().controllers("").without_scheduler().virtual_time().start().await
}

fn map(name: &str) -> ConfigMap {
    let labels = [("ours".to_owned(), "true".to_owned())].into();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

fn ours() -> Watch<ConfigMap> {
    Watch::objects().namespace("default").labels("ours=true")
}

#[tokio::test]
async fn who_panics_hangs_or_fails_for_ever_holds_up_nobody() {
    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let mut operator = Operator::new(cluster.environment());
    let done = Arc::new(AtomicU32::new(0));
    let counted = done.clone();
    let controller = Controller::of(ours(), "misbehaving").workers(2).quarantine_after(Some(3));
    operator.controller(controller, move |context, key: Key| {
        let counted = counted.clone();
        async move {
            let Some(map) = context.get::<ConfigMap>(&key).await else { return Ok(Action::done()) };
            match key.name.as_str() {
                _ if map.data.is_some() => {}
                "panics" => panic!("this one is bad"),
                "hangs" => std::future::pending().await,
                "fails" => return Err(Error::text("there is no luck")),
                _ => {}
            }
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(Action::done())
        }
    });
    for name in ["panics", "hangs", "fails", "a", "b", "c"] {
        maps.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    cluster.advance(LONG).await;
    assert_eq!(done.load(Ordering::Relaxed), 3);
    let status = operator.status();
    assert_eq!(status.ready(), Ok(()));
    let queue = status.metrics().snapshots().remove("misbehaving").unwrap();
    assert_eq!((queue.depth, queue.works.len(), queue.quarantined.len()), (0, 0, 3));
    let text = status.metrics().text();
    assert!(text.contains("controller_runtime_reconcile_panics_total{controller=\"misbehaving\"} 3\n"), "{text}");
    assert!(text.contains("controller_runtime_reconcile_timeouts_total{controller=\"misbehaving\"} 3\n"), "{text}");
    assert!(text.contains("rkube_operator_quarantined{controller=\"misbehaving\",name=\"misbehaving\"} 3\n"), "{text}");
    let events: Api<Event> = Api::default_namespaced(cluster.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let mut messages: Vec<_> = events.iter().filter_map(|event| event.message.as_deref()).collect();
    messages.sort_unstable();
    let said = |why: &str| format!("Reconciling failed too often and waits for a change: {why}");
    let expected = [said("panicked: this one is bad"), said("there is no luck"), said("took longer than 60s")];
    assert_eq!(messages, expected);

    // A change gives it another try.
    for name in ["panics", "hangs", "fails"] {
        let patch = Patch::Merge(json!({ "data": { "fixed": "yes" } }));
        maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    cluster.advance(LONG).await;
    assert_eq!(done.load(Ordering::Relaxed), 6);
    assert!(status.metrics().snapshots()["misbehaving"].quarantined.is_empty());
    operator.shutdown().await;
}

#[tokio::test]
async fn keys_come_from_owned_objects_timers_and_from_outside() {
    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let mut operator = Operator::new(cluster.environment());
    let mut controller = Controller::of(ours().when(Predicate::labels()), "listening")
        .owns(Watch::<PartialObjectMeta<Secret>>::metadata())
        .resync(LONG);
    let trigger = controller.trigger();
    let key = |name: &str| Key { namespace: "default".to_owned(), name: name.to_owned() };
    assert!(trigger.send(key("early")), "it waits for the controller");
    operator.controller(controller, move |_, key: Key| {
        let said = said.clone();
        async move {
            said.send(key.name)?;
            Ok(Action::done())
        }
    });
    assert_eq!(heard.recv().await.as_deref(), Some("early"));
    let owner = maps.create(&PostParams::default(), &map("x")).await.unwrap();
    assert_eq!(heard.recv().await.as_deref(), Some("x"));
    let patch = Patch::Merge(json!({ "data": { "k": "v" } }));
    maps.patch("x", &PatchParams::default(), &patch).await.unwrap();
    let mut owned = Secret::default();
    owned.metadata.name = Some("s".to_owned());
    owned.metadata.owner_references = controller_reference(&owner).map(|owner| vec![owner]);
    secrets.create(&PostParams::default(), &owned).await.unwrap();
    assert_eq!(heard.recv().await.as_deref(), Some("x"), "its Secret is new");
    trigger.send(key("outside"));
    assert_eq!(heard.recv().await.as_deref(), Some("outside"), "that the data changed was not told");
    cluster.advance(LONG).await;
    assert_eq!(heard.recv().await.as_deref(), Some("x"), "all are looked at again");
    operator.shutdown().await;
}

#[tokio::test]
async fn an_end_in_good_order_waits_for_what_is_under_way() {
    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let mut operator = Operator::new(cluster.environment());
    let (begun, ended) = (Arc::new(tokio::sync::Notify::new()), Arc::new(AtomicU32::new(0)));
    let (telling, counting) = (begun.clone(), ended.clone());
    operator.controller(Controller::of(ours(), "slow"), move |_, _| {
        let (begun, ended) = (telling.clone(), counting.clone());
        async move {
            begun.notify_one();
            tokio::time::sleep(Duration::from_secs(10)).await;
            ended.fetch_add(1, Ordering::Relaxed);
            Ok(Action::done())
        }
    });
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    begun.notified().await;
    let status = operator.status();
    operator.shutdown().await;
    assert_eq!(ended.load(Ordering::Relaxed), 1, "the first ends, the second is not begun with");
    assert_eq!(status.healthy(), Err("not running: slow".to_owned()));
}

#[tokio::test]
async fn objects_are_adopted_and_released() {
    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
    let owner = maps.create(&PostParams::default(), &map("owner")).await.unwrap();
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".to_owned());
    let secret = secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert!(!Claimant::new(&maps, &owner).claim(&secrets, &secret, false).await.unwrap());
    assert!(Claimant::new(&maps, &owner).claim(&secrets, &secret, true).await.unwrap());
    let adopted = secrets.get("s").await.unwrap();
    assert_eq!(adopted.owner_references(), [controller_reference(&owner).unwrap()]);
    assert!(!Claimant::new(&maps, &owner).claim(&secrets, &adopted, false).await.unwrap());
    let released = secrets.get("s").await.unwrap();
    assert!(released.owner_references().is_empty());
    // Released by another meanwhile, or gone: there is nothing left to do.
    assert!(!Claimant::new(&maps, &owner).claim(&secrets, &adopted, false).await.unwrap());
    secrets.delete("s", &Default::default()).await.unwrap();
    assert!(!Claimant::new(&maps, &owner).claim(&secrets, &adopted, false).await.unwrap());
    // The owner is another one by now: it adopts nothing.
    let again = secrets
        .create(
            &PostParams::default(),
            &Secret {
                metadata: ObjectMeta { name: Some("s".to_owned()), ..ObjectMeta::default() },
                ..Secret::default()
            },
        )
        .await
        .unwrap();
    maps.delete("owner", &Default::default()).await.unwrap();
    maps.create(&PostParams::default(), &map("owner")).await.unwrap();
    assert!(!Claimant::new(&maps, &owner).claim(&secrets, &again, true).await.unwrap());
}

/// Whoever looks into the cache for what it made, and makes what is not there, makes it twice if the cache is behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconcile_sees_what_an_earlier_one_wrote() {
    const OWNERS: usize = 40;
    for in_process in [true, false] {
        let cluster = TestCluster::builder().controllers("").without_scheduler().start().await;
        let environment = if in_process {
            cluster.environment()
        } else {
            let caches = Caches::new(Arc::new(NetworkSource::new(cluster.client())));
            let server = cluster.client();
            let transport = tower::service_fn(move |request| {
                let server = server.clone();
                async move { server.send(request).await }
            });
            let client = caches.client(transport, "default");
            Environment { client, caches, ..cluster.environment() }
        };
        let mut operator = Operator::new(environment);
        let mut controller = Controller::of(ours(), "maker").owns(Watch::<Secret>::objects()).workers(8);
        let trigger = controller.trigger();
        let reconciles = Arc::new(AtomicU32::new(0));
        let counted = reconciles.clone();
        operator.controller(controller, move |context, key: Key| {
            let counted = counted.clone();
            async move {
                let Some(map) = context.get::<ConfigMap>(&key).await else { return Ok(Action::done()) };
                let secrets = context.cache::<Secret>().await;
                let uid = map.metadata.uid.clone().unwrap_or_default();
                counted.fetch_add(1, Ordering::Relaxed);
                if secrets.with_index::<ByOwner, _, _>(uid.as_str(), |made| made.is_empty()) {
                    let mut secret = Secret::default();
                    secret.metadata.generate_name = Some("made-".to_owned());
                    secret.metadata.owner_references = controller_reference(&*map).map(|owner| vec![owner]);
                    context.api::<Secret>(&key.namespace).create(&PostParams::default(), &secret).await?;
                }
                Ok(Action::done())
            }
        });
        let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        for number in 0..OWNERS {
            maps.create(&PostParams::default(), &map(&format!("m{number}"))).await.unwrap();
        }
        // They are looked at again and again, as fast as can be.
        let enough = 50 * u32::try_from(OWNERS).unwrap();
        while reconciles.load(Ordering::Relaxed) < enough {
            for number in 0..OWNERS {
                trigger.send(Key { namespace: "default".to_owned(), name: format!("m{number}") });
            }
            tokio::task::yield_now().await;
        }
        let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
        let made = secrets.list(&ListParams::default()).await.unwrap().items.len();
        assert_eq!(made, OWNERS, "in process: {in_process}");
        operator.shutdown().await;
    }
}
