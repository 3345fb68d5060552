//! What every source promises: one suite, on both of them. The network's reads through a client whose transport is the
//! server, so that nothing but the source differs.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use rkube_operator::k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use rkube_operator::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rkube_operator::kube::Api;
use rkube_operator::kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Event, Item, NetworkSource, Selection, Source};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

/// Nothing takes so long: it guards against hanging.
const LONG: Duration = Duration::from_secs(60);

async fn on_each<F: Future<Output = ()>>(test: impl Fn(Arc<TestCluster>, Arc<dyn Source>) -> F) {
    for in_process in [true, false] {
        let cluster = Arc::new(TestCluster::builder().controllers("").start().await);
        let network: Arc<dyn Source> = Arc::new(NetworkSource::new(cluster.client()));
        let source = if in_process { cluster.source() } else { network };
        test(cluster, source).await;
    }
}

fn map(name: &str, labels: &Value) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "data": { "k": "v" } })).unwrap()
}

/// What a stream tells of the namespace `default`, as short texts; progress is left out.
struct Told(BoxStream<'static, Event>);

impl Told {
    async fn next(&mut self) -> String {
        let name = |item: &Item| format!("{}/{}", item.namespace, item.name);
        loop {
            let event = tokio::time::timeout(LONG, self.0.next()).await.expect("an event comes");
            return match event {
                None => "end".to_owned(),
                Some(Event::Listed(items)) => {
                    let ours = items.iter().filter(|item| item.namespace == "default");
                    let mut names: Vec<String> = ours.map(name).collect();
                    names.sort();
                    format!("listed {}", names.join(" "))
                }
                Some(Event::Applied(item) | Event::Deleted(item)) if item.namespace == "kube-system" => continue,
                Some(Event::Applied(item)) => format!("applied {}", name(&item)),
                Some(Event::Deleted(item)) => format!("deleted {}", name(&item)),
                Some(Event::Progress(_)) => continue,
            };
        }
    }
}

fn maps() -> ApiResource {
    ApiResource::erase::<ConfigMap>(&())
}

#[tokio::test]
async fn a_stream_begins_with_a_list_and_tells_of_every_change() {
    on_each(async |cluster, source| {
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        api.create(&PostParams::default(), &map("a", &json!({}))).await.unwrap();
        let mut told = Told(source.follow(&maps(), &Selection::default()));
        assert_eq!(told.next().await, "listed default/a");
        api.create(&PostParams::default(), &map("b", &json!({}))).await.unwrap();
        assert_eq!(told.next().await, "applied default/b");
        let patch = Patch::Merge(json!({ "data": { "k": "w" } }));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(told.next().await, "applied default/a");
        api.delete("b", &DeleteParams::default()).await.unwrap();
        assert_eq!(told.next().await, "deleted default/b");
    })
    .await;
}

#[tokio::test]
async fn items_carry_what_the_object_is() {
    on_each(async |cluster, source| {
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let made = api.create(&PostParams::default(), &map("a", &json!({"x": "y"}))).await.unwrap();
        for metadata_only in [false, true] {
            let selection = Selection { metadata_only, ..Selection::default() };
            let mut events = source.follow(&maps(), &selection);
            let Some(Event::Listed(items)) = events.next().await else { panic!("a list comes first") };
            let item = items.iter().find(|item| item.name == "a").unwrap();
            assert_eq!(Some(item.uid.as_str()), made.metadata.uid.as_deref());
            assert_eq!(Some(item.revision.to_string()), made.metadata.resource_version);
            let object: Value = item.parse().unwrap();
            assert_eq!(object["metadata"]["labels"], json!({ "x": "y" }));
            assert!(metadata_only || object["data"] == json!({ "k": "v" }));
            let deleting = async {
                api.delete("a", &DeleteParams::default()).await.unwrap();
                api.create(&PostParams::default(), &map("a", &json!({"x": "y"}))).await.unwrap()
            };
            if metadata_only {
                let again = deleting.await;
                loop {
                    match events.next().await.unwrap() {
                        Event::Progress(_) => {}
                        Event::Deleted(gone) => assert!(gone.uid == item.uid && gone.revision > item.revision),
                        Event::Applied(new) => {
                            assert_eq!(Some(new.revision.to_string()), again.metadata.resource_version);
                            break;
                        }
                        Event::Listed(_) => panic!("nothing was missed"),
                    }
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_selection_tells_of_what_enters_and_leaves_it() {
    on_each(async |cluster, source| {
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let elsewhere: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-system");
        let selections = [
            Selection { name: Some("a"), namespace: Some("default".into()), ..Selection::default() },
            Selection { labels: Some("color in (red),size!=big".into()), ..Selection::default() },
            Selection { fields: Some("metadata.name=a,metadata.namespace=default".into()), ..Selection::default() },
        ];
        let mut all = selections.map(|selection| Told(source.follow(&maps(), &selection)));
        for told in &mut all {
            assert_eq!(told.next().await, "listed ");
        }
        api.create(&PostParams::default(), &map("b", &json!({"color": "blue"}))).await.unwrap();
        elsewhere.create(&PostParams::default(), &map("a", &json!({"color": "red", "size": "big"}))).await.unwrap();
        api.create(&PostParams::default(), &map("a", &json!({"color": "red"}))).await.unwrap();
        for told in &mut all {
            let mut heard = told.next().await;
            // To be told that something is gone that never was there hurts nobody.
            while heard.starts_with("deleted") {
                heard = told.next().await;
            }
            assert_eq!(heard, "applied default/a");
        }
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "size": "big" } } }));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(all[1].next().await, "deleted default/a");
        assert_eq!(all[0].next().await, "applied default/a");
        assert_eq!(all[2].next().await, "applied default/a");
    })
    .await;
}

#[tokio::test]
async fn pods_are_selected_by_their_own_fields() {
    on_each(async |cluster, source| {
        let api: Api<Pod> = Api::default_namespaced(cluster.client());
        let accounts: Api<ServiceAccount> = Api::default_namespaced(cluster.client());
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } })).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let pods = ApiResource::erase::<Pod>(&());
        let on_node = Selection { fields: Some("spec.nodeName=n".into()), ..Selection::default() };
        let mut told = Told(source.follow(&pods, &on_node));
        assert_eq!(told.next().await, "listed ");
        for (name, node) in [("elsewhere", "m"), ("here", "n")] {
            let container = json!({ "name": "c", "image": "i" });
            let spec = json!({ "nodeName": node, "containers": [container], "automountServiceAccountToken": false });
            let pod = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
            api.create(&PostParams::default(), &pod).await.unwrap();
        }
        let mut heard = told.next().await;
        while heard.starts_with("deleted") {
            heard = told.next().await;
        }
        assert_eq!(heard, "applied default/here");
    })
    .await;
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "gadgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "gadgets", "singular": "gadget", "kind": "Gadget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                           "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn a_stream_ends_when_its_resource_is_served_no_more() {
    on_each(async |cluster, source| {
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
        definitions.create(&PostParams::default(), &definition()).await.unwrap();
        let (group, version) = ("example.com".to_owned(), "v1".to_owned());
        let gadgets = ApiResource {
            api_version: format!("{group}/{version}"),
            group,
            version,
            kind: "Gadget".to_owned(),
            plural: "gadgets".to_owned(),
        };
        let mut told = cluster
            .eventually("the kind is served", async || {
                let mut told = Told(source.follow(&gadgets, &Selection::default()));
                let first = told.next().await;
                if first == "listed " { Ok(told) } else { Err(first) }
            })
            .await;
        definitions.delete("gadgets.example.com", &DeleteParams::default()).await.unwrap();
        let mut last = told.next().await;
        while last == "listed " {
            last = told.next().await;
        }
        assert_eq!(last, "end");
    })
    .await;
}

/// However writers and readers interleave, caches end up as the server is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caches_end_up_as_the_server_is() {
    on_each(async |cluster, source| {
        let caches = Caches::new(source);
        let informer = caches.objects::<ConfigMap>();
        let writers = (0..8_u32).map(|writer| {
            let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
            tokio::spawn(async move {
                for turn in 0..30 {
                    let name = format!("m{}", (writer + turn) % 5);
                    let patch = Patch::Merge(json!({ "data": { "by": format!("{writer}/{turn}") } }));
                    match turn % 3 {
                        0 => drop(api.create(&PostParams::default(), &map(&name, &json!({}))).await),
                        1 => drop(api.patch(&name, &PatchParams::default(), &patch).await),
                        _ => drop(api.delete(&name, &DeleteParams::default()).await),
                    }
                }
            })
        });
        futures::future::join_all(writers).await;
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        informer.synced().await;
        cluster
            .eventually("the cache is as the server", async || {
                let there = api.list(&Default::default()).await.map_err(|error| error.to_string())?.items;
                let known: Vec<ConfigMap> =
                    informer.in_namespace("default").iter().map(|map| (**map).clone()).collect();
                if there == known { Ok(()) } else { Err(format!("{} there, {} known", there.len(), known.len())) }
            })
            .await;
    })
    .await;
}
