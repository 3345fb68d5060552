//! Shared informers on a source that tells what it is told to.

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::testing::Script;

fn map(name: &str, revision: u64) -> Item {
    let json = format!(r#"{{"metadata":{{"namespace":"a","name":"{name}"}},"data":{{"at":"{revision}"}}}}"#);
    Item { namespace: "a".into(), name: name.into(), uid: "".into(), revision, json: json.into() }
}

/// An informer that writes down what it hears.
fn heard(caches: &Caches) -> (Informer<ConfigMap>, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let said = heard.clone();
    let at = |map: Option<&Arc<ConfigMap>>| map.and_then(|map| map.metadata.resource_version.clone());
    let informer = caches.objects::<ConfigMap>().on_change(move |change| {
        let (old, new) = (at(change.old).unwrap_or_default(), at(change.new).unwrap_or_default());
        said.lock().push(format!("{} {old}>{new}", change.key.name));
    });
    (informer, heard)
}

async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_watch_serves_all_who_ask_and_ends_with_the_last() {
    let source = Arc::new(Script::default());
    let caches = Caches::new(source.clone());
    let (one, of_one) = heard(&caches);
    settle().await;
    source.tell("configmaps", Event::Listed(vec![map("x", 1)]));
    one.synced().await;
    let (other, of_other) = heard(&caches);
    source.tell("configmaps", Event::Applied(map("x", 2)));
    source.tell("configmaps", Event::Deleted(map("x", 3)));
    settle().await;
    assert_eq!(*of_one.lock(), ["x >1", "x 1>2", "x 2>"]);
    assert_eq!(*of_other.lock(), ["x >1", "x 1>2", "x 2>"], "who comes later hears of what is there");
    assert_eq!((source.followed.load(Ordering::Relaxed), caches.watches()), (1, 1));
    drop(one);
    source.tell("configmaps", Event::Applied(map("y", 4)));
    settle().await;
    assert_eq!((of_one.lock().len(), of_other.lock().len()), (3, 4), "handlers go with who added them");
    drop(other);
    settle().await;
    assert!(!source.is_followed("configmaps"));
    assert_eq!(caches.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_listed_again_is_gone() {
    let source = Arc::new(Script::default());
    let (informer, heard) = heard(&Caches::new(source.clone()));
    settle().await;
    source.tell("configmaps", Event::Listed(vec![map("x", 1), map("y", 2)]));
    settle().await;
    heard.lock().clear();
    source.tell("configmaps", Event::Listed(vec![map("y", 3)]));
    settle().await;
    assert_eq!(*heard.lock(), ["x 1>", "y 2>3"]);
    assert!(informer.get("a", "x").is_none() && informer.get("a", "y").is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_listed_again_as_it_was_is_not_read_again() {
    let source = Arc::new(Script::default());
    let (informer, heard) = heard(&Caches::new(source.clone()));
    settle().await;
    let list = |items: Vec<Item>| source.tell("configmaps", Event::Listed(items));
    let shown_otherwise = |name: &str, revision: u64| Item { json: map(name, 9).json, ..map(name, revision) };
    let another = |name: &str, revision: u64| Item { uid: "another".into(), ..map(name, revision) };
    list(["same", "changed", "shown", "other"].map(|name| map(name, 1)).into());
    settle().await;
    let before = ["same", "changed", "shown", "other"].map(|name| informer.get("a", name).unwrap());
    heard.lock().clear();
    list(vec![map("same", 1), map("changed", 2), shown_otherwise("shown", 1), another("other", 1)]);
    settle().await;
    let [same, changed, shown, other] =
        ["same", "changed", "shown", "other"].map(|name| informer.get("a", name).unwrap());
    assert!(Arc::ptr_eq(&same, &before[0]), "the very same");
    assert!(!Arc::ptr_eq(&other, &before[3]), "of the same text, and yet another");
    let data = |map: &ConfigMap| map.data.as_ref().unwrap()["at"].clone();
    assert_eq!([data(&same), data(&changed), data(&shown)], ["1", "2", "9"]);
    assert_eq!(*heard.lock(), ["changed 1>2", "other 1>1", "same 1>1", "shown 1>1"], "all are told of");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_ends_nothing() {
    let source = Arc::new(Script::default());
    let caches = Caches::new(source.clone());
    let informer = caches.objects::<ConfigMap>().on_change(|change| assert_ne!(change.key.name, "bad"));
    settle().await;
    source.tell("configmaps", Event::Applied(map("bad", 1)));
    tokio::time::sleep(AGAIN * 2).await;
    source.tell("configmaps", Event::Listed(vec![map("good", 2)]));
    informer.synced().await;
    assert!(informer.get("a", "good").is_some());
}

struct ByData;

impl Index<ConfigMap> for ByData {
    type Key = String;

    fn keys(_: &Key, map: &ConfigMap) -> impl IntoIterator<Item = String> {
        map.data.iter().flatten().map(|(_, value)| value.clone()).collect::<Vec<_>>()
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_follows_every_change() {
    let source = Arc::new(Script::default());
    let caches = Caches::new(source.clone());
    let informer = caches.objects::<ConfigMap>().indexed::<ByData>();
    settle().await;
    let found = |by: &str| -> Vec<String> {
        informer.by_index::<ByData, _>(by).iter().map(|map| map.metadata.name.clone().unwrap()).collect()
    };
    let as_of = |name: &str, written: u64, now: u64| Item { revision: now, ..map(name, written) };
    source.tell("configmaps", Event::Listed(vec![as_of("y", 1, 2), as_of("x", 1, 1)]));
    settle().await;
    assert_eq!((found("1"), found("2")), (vec!["x".into(), "y".into()], vec![]));
    source.tell("configmaps", Event::Applied(as_of("x", 2, 3)));
    source.tell("configmaps", Event::Applied(as_of("y", 1, 4)));
    settle().await;
    assert_eq!((found("1"), found("2")), (vec!["y".into()], vec!["x".into()]));
    assert_eq!(informer.with_index::<ByData, _, _>("1", |found| found.len()), 1);
    assert_eq!(informer.index_keys::<ByData>(), ["1", "2"]);
    source.tell("configmaps", Event::Deleted(map("x", 5)));
    settle().await;
    assert_eq!((found("1"), found("2")), (vec!["y".into()], vec![]));
    assert_eq!(informer.index_keys::<ByData>(), ["1"]);
    source.tell("configmaps", Event::Listed(vec![as_of("y", 1, 4), map("z", 7)]));
    settle().await;
    assert_eq!((found("1"), found("7")), (vec!["y".into()], vec!["z".into()]));
    source.tell("configmaps", Event::Listed(vec![as_of("y", 7, 8), map("z", 7)]));
    settle().await;
    assert_eq!((found("1"), found("7")), (vec![], vec!["y".into(), "z".into()]));
    source.tell("configmaps", Event::Listed(vec![map("z", 7)]));
    settle().await;
    assert_eq!((found("1"), found("7")), (vec![], vec!["z".into()]));
    assert_eq!(informer.index_keys::<ByData>(), ["7"]);
    assert_eq!(caches.objects::<ConfigMap>().by_index::<ByData, _>("7").len(), 1, "whoever asks shares it");
}

#[tokio::test(start_paused = true)]
async fn objects_are_found_by_namespace_and_by_label() {
    let source = Arc::new(Script::default());
    let informer = Caches::new(source.clone()).objects::<ConfigMap>();
    settle().await;
    let labelled = |namespace: &str, name: &str, color: &str| {
        let json =
            format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","labels":{{"color":"{color}"}}}}}}"#);
        Item { namespace: namespace.into(), name: name.into(), uid: "".into(), revision: 1, json: json.into() }
    };
    let all = ["a/x/red", "ab/y/blue", "b/x/red", "b/z/blue"].map(|text| {
        let parts: Vec<&str> = text.split('/').collect();
        labelled(parts[0], parts[1], parts[2])
    });
    source.tell("configmaps", Event::Listed(all.into()));
    informer.synced().await;
    let names = |found: Vec<Arc<ConfigMap>>| -> Vec<String> {
        found.iter().map(|map| Key::of(&**map)).map(|key| format!("{}/{}", key.namespace, key.name)).collect()
    };
    assert_eq!(names(informer.in_namespace("a")), ["a/x"]);
    assert_eq!(names(informer.in_namespace("b")), ["b/x", "b/z"]);
    assert!(informer.in_namespace("").is_empty());
    let red = Selector::parse("color=red").unwrap();
    assert_eq!(names(informer.select(None, &red)), ["a/x", "b/x"]);
    assert_eq!(names(informer.select(Some("b"), &red)), ["b/x"]);
}
