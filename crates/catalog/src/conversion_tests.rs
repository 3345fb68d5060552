//! Versions of a custom resource as readers and watchers see them, with a converter that fails and hangs on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rkube_kinds::Kind;
use rkube_kinds::custom::Definition;
use rkube_machinery::managed::{Reset, WriteContext};
use rkube_machinery::{Status, Value, json};
use rkube_store::{Change, Expect, Revision, Store, Write};
use tokio::sync::watch;

use crate::tests::NoTime;
use crate::*;

const ALL: Limit = Limit { events: usize::MAX, bytes: usize::MAX };
/// Guards against hanging only.
const LONG: Duration = Duration::from_secs(60);

/// `v1` has `appName`, `v2` has `name` and a default; `v0` is not served.
fn definition(stored: &str) -> Definition {
    let schema = |field: &str, more: &str| {
        format!(r#"{{"openAPIV3Schema":{{"type":"object","properties":{{"{field}":{{"type":"string"}}{more}}}}}}}"#)
    };
    let version = |name: &str, served: bool, schema: String| {
        let storage = name == stored;
        format!(r#"{{"name":"{name}","served":{served},"storage":{storage},"schema":{schema}}}"#)
    };
    let text = format!(
        r#"{{"spec":{{"group":"example.com","scope":"Namespaced","names":{{"kind":"App"}},"versions":[{},{},{}]}},
            "status":{{"acceptedNames":{{"plural":"apps","singular":"app","kind":"App","listKind":"AppList"}}}}}}"#,
        version("v0", false, schema("appName", "")),
        version("v1", true, schema("appName", "")),
        version("v2", true, schema("name", r#","size":{"type":"integer","default":3}"#)),
    );
    Definition::read(&json::parse(text.as_bytes()).unwrap()).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    Dead,
    Hanging,
}

/// Renames the field; counts its calls and what it converted.
struct Fake {
    mood: watch::Sender<Mood>,
    calls: AtomicUsize,
    objects: AtomicUsize,
}

impl Fake {
    fn new() -> Arc<Fake> {
        Arc::new(Fake {
            mood: watch::Sender::new(Mood::Well),
            calls: AtomicUsize::new(0),
            objects: AtomicUsize::new(0),
        })
    }

    fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    fn objects(&self) -> usize {
        self.objects.load(Ordering::SeqCst)
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Converter for Fake {
    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a Kind) -> Converted<'a> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.mood.subscribe().wait_for(|mood| *mood != Mood::Hanging).await.unwrap();
            if *self.mood.borrow() == Mood::Dead {
                return Err(Status { code: 500, message: "it is dead".to_owned(), ..Status::default() });
            }
            self.objects.fetch_add(objects.len(), Ordering::SeqCst);
            let convert = |mut object: Value| {
                assert!(!object.get("metadata").has("resourceVersion"));
                let name = ["appName", "name"].iter().find_map(|field| object.remove(field));
                let field = if to.version == "v2" { "name" } else { "appName" };
                object.set(field, name.unwrap_or_default());
                object.set("unknown", true);
                object.set("apiVersion", to.api_version());
                object
            };
            Ok(objects.into_iter().map(convert).collect())
        })
    }
}

struct House {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    fake: Arc<Fake>,
}

impl House {
    async fn new(stored: &str) -> House {
        let store: Arc<dyn Store> = Arc::new(rkube_store::Memory::new());
        let catalog = Catalog::start(store.clone(), &[], Arc::new(NoTime)).await.unwrap();
        let house = House { store, catalog, fake: Fake::new() };
        house.define(stored).await;
        house
    }

    async fn define(&self, stored: &str) {
        self.catalog.replace(definition(stored), Some(self.fake.clone())).await.unwrap();
    }

    fn served(&self, version: &str) -> Arc<Served> {
        self.catalog.find("example.com", version, "apps").unwrap()
    }

    async fn put(&self, version: &str, name: &str, value: &str) -> Revision {
        let field = if version == "v2" { "name" } else { "appName" };
        let value = format!(
            r#"{{"apiVersion":"example.com/{version}","kind":"App",
                "metadata":{{"name":"{name}","namespace":"default","uid":"u"}},"{field}":"{value}"}}"#
        );
        let change = Change::Put { value: value.into(), lease: None, note: None };
        self.write(name, change).await
    }

    async fn write(&self, name: &str, change: Change) -> Revision {
        let key = format!("/registry/example.com/apps/default/{name}");
        self.store.write(Write { key: key.into(), expect: Expect::Anything, change, guard: None }).await.unwrap()
    }

    /// What a list in this version shows: the objects' names and their field, and the list's revision.
    async fn list(&self, version: &str) -> Result<(Vec<String>, Revision), Status> {
        let readable = tokio::time::timeout(LONG, self.served(version).readable()).await.unwrap()?;
        let (items, revision) = readable.snapshot();
        let api_version = format!("example.com/{version}");
        let shown = items.values().map(|entry| {
            assert!(entry.object.has_api_version(&api_version));
            shown(&entry.object, version)
        });
        Ok((shown.collect(), revision))
    }
}

fn shown(object: &Object, version: &str) -> String {
    let tree = object.tree();
    assert!(!tree.has("unknown"), "what the schema does not have is pruned");
    assert_eq!(tree.str("apiVersion"), format!("example.com/{version}"));
    format!("{}={}", object.name, tree.str(if version == "v2" { "name" } else { "appName" }))
}

async fn next(watch: &mut Subscription) -> Option<Vec<(&'static str, Arc<Object>, Revision)>> {
    let taken = tokio::time::timeout(LONG, watch.next(ALL)).await.unwrap().unwrap()?;
    Some(taken.events.iter().map(|event| (event.event_type.name(), event.object.clone(), event.revision)).collect())
}

#[tokio::test]
async fn without_a_converter_versions_differ_in_name_alone() {
    let house = House::new("v2").await;
    house.catalog.replace(definition("v2"), None).await.unwrap();
    house.put("v2", "a", "x").await;
    let served = house.served("v1");
    let (items, _) = served.readable().await.unwrap().snapshot();
    let object = items.values().next().unwrap().object.tree().clone();
    assert!(object.str("apiVersion") == "example.com/v1" && !object.has("name") && !object.has("size"), "{object:?}");

    let value = json::parse(
        br#"{"apiVersion":"example.com/v1","appName":"x","kind":"App","metadata":{"name":"b","resourceVersion":"7","uid":"u"}}"#,
    );
    let stored = served.to_storage(value.unwrap()).await.unwrap();
    assert_eq!(
        json::to_string(&stored),
        r#"{"apiVersion":"example.com/v2","kind":"App","metadata":{"name":"b","resourceVersion":"7","uid":"u"},"size":3}"#
    );
    let mut owned = stored;
    owned.set("apiVersion", "example.com/v1");
    let mut owner = Value::object();
    owner.set("manager", "me");
    owner.set("fieldsV1", Value::Written(r#"{"f:appName":{}}"#.into()));
    owned.object_mut("metadata").set("managedFields", vec![owner]);
    let stored = Object::new(&served.to_storage(owned).await.unwrap(), &served.stored().kind);
    let owners = r#""managedFields":[{"fieldsV1":{"f:appName":{}},"manager":"me"}]"#;
    assert!(String::from_utf8_lossy(&stored.stored()).contains(owners), "owners that are written already are kept");
}

#[test]
fn custom_resources_are_written_in_order() {
    let kind = definition("v2").stored;
    let value = json::parse(
        br#"{"size":1,"metadata":{"uid":"u","name":"a","resourceVersion":"9","managedFields":[{"time":"t","manager":"m"}]},"kind":"App","apiVersion":"example.com/v2"}"#,
    );
    let mut out = Vec::new();
    Object::new(&value.unwrap(), &kind).write(7, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"apiVersion":"example.com/v2","kind":"App","metadata":{"managedFields":[{"manager":"m","time":"t"}],"name":"a","resourceVersion":"7","uid":"u"},"size":1}"#
    );
}

#[tokio::test]
async fn a_version_is_converted_when_it_is_read_and_follows() {
    let house = House::new("v2").await;
    for index in 0..450 {
        house.put("v2", &format!("a-{index:03}"), "x").await;
    }
    assert_eq!(house.list("v2").await.unwrap().0.len(), 450);
    assert_eq!(house.fake.calls(), 0, "nobody asked for another version");

    let (first, revision) = house.list("v1").await.unwrap();
    assert_eq!((first.len(), first[7].as_str()), (450, "a-007=x"));
    assert_eq!((house.fake.calls(), house.fake.objects()), (3, 450), "in batches");
    assert_eq!(house.list("v2").await.unwrap().1, revision);

    let mut watch = house.served("v1").readable().await.unwrap().subscribe("default", revision).unwrap();
    let changed = house.put("v2", "a-000", "y").await;
    let added = house.put("v2", "b", "z").await;
    let deleted = house.write("a-001", Change::Delete).await;
    let mut events = Vec::new();
    while events.len() < 3 {
        events.extend(next(&mut watch).await.unwrap());
    }
    let seen: Vec<_> = events.iter().map(|(change, object, at)| (*change, shown(object, "v1"), *at)).collect();
    let expected = [
        ("MODIFIED", "a-000=y".to_owned(), changed),
        ("ADDED", "b=z".to_owned(), added),
        ("DELETED", "a-001=x".to_owned(), deleted),
    ];
    assert_eq!(seen, expected);
    assert_eq!(house.fake.objects(), 452, "what follows is converted once, and what is deleted not at all");

    // What other resources write moves the revision of every list.
    let other = Write {
        key: "/registry/other/x".into(),
        expect: Expect::Anything,
        change: Change::Put { value: "{}".into(), lease: None, note: None },
        guard: None,
    };
    let later = house.store.write(other).await.unwrap();
    assert_eq!(house.list("v1").await.unwrap().1, later);
    let past = house.served("v1").readable().await.unwrap().snapshot_at(revision).unwrap();
    assert_eq!(past.len(), 450);
    assert_eq!(house.fake.objects(), 452);
}

#[tokio::test]
async fn single_objects_are_converted_alone() {
    let house = House::new("v2").await;
    house.put("v2", "a", "x").await;
    let (one, two) = (house.served("v1"), house.served("v2"));
    let stored = two.stored().find("default", "a").unwrap();
    assert!(Arc::ptr_eq(&two.in_version(&stored).await.unwrap().object, &stored.object));
    assert_eq!(two.converted(&stored).await.unwrap().int("size"), 3, "a default shows on what was stored without");
    assert_eq!(house.fake.calls(), 0);

    let shown_in_one = one.converted(&stored).await.unwrap();
    assert_eq!(shown_in_one.str("appName"), "x");
    assert_eq!(shown_in_one.get("metadata").str("resourceVersion"), stored.revision.to_string());
    assert_eq!((house.fake.calls(), house.fake.objects()), (1, 1));

    house.list("v1").await.unwrap();
    assert_eq!(shown(&one.in_version(&stored).await.unwrap().object, "v1"), "a=x");
    assert_eq!(house.fake.calls(), 2, "what is converted already is not converted again");
    let dry = Entry::new(Arc::new(Object::new(stored.object.tree(), &two.kind)), stored.revision);
    one.in_version(&dry).await.unwrap();
    assert_eq!(house.fake.calls(), 3, "but what only looks like it is");
}

#[tokio::test]
async fn owners_of_other_versions_keep_what_they_own() {
    let house = House::new("v2").await;
    let (one, conversions) = (house.served("v1"), Conversions::default());
    let live = json::parse(
        br#"{"apiVersion":"example.com/v1","appName":"x","kind":"App","metadata":{"managedFields":[{"apiVersion":"example.com/v2",
            "fieldsType":"FieldsV1","fieldsV1":{"f:name":{}},"manager":"m","operation":"Update"}],"name":"a","resourceVersion":"7"}}"#,
    );
    let mut live = live.unwrap();
    let config = |value: &str| {
        let text =
            format!(r#"{{"apiVersion":"example.com/v1","appName":"{value}","kind":"App","metadata":{{"name":"a"}}}}"#);
        json::parse(text.as_bytes()).unwrap()
    };
    let context = WriteContext { manager: "s", api_version: "example.com/v1", kind: "App", subresource: "", time: "t" };
    let apply = |live: &Value, config: &Value| {
        let convert = |object: &Value, version: &str| conversions.get(&one, object, version);
        one.kind.schema.apply(live, config, &context, false, Reset::Nothing, &convert)
    };
    for (value, expected) in [("y", Err("conflict with \"m\" using example.com/v2: .name")), ("x", Ok(2))] {
        let applied = loop {
            let applied = apply(&live, &config(value));
            if !conversions.learn(&one).await.unwrap() {
                break applied;
            }
        };
        match expected {
            Err(words) => assert!(applied.unwrap_err().to_string().ends_with(words)),
            Ok(owners) => {
                let applied = applied.unwrap();
                assert_eq!(applied.get("metadata").list("managedFields").len(), owners);
                assert_eq!(applied.get("metadata").str("resourceVersion"), "7");
            }
        }
    }
    // Nothing has to be asked twice; and what no definition has is nothing.
    let calls = house.fake.calls();
    assert!(apply(&live, &config("y")).is_err() && !conversions.learn(&one).await.unwrap());
    assert_eq!(house.fake.calls(), calls);
    assert!(conversions.get(&one, &live, "example.com/v9").is_none() && !conversions.learn(&one).await.unwrap());
    house.fake.set(Mood::Dead);
    live.set("appName", "new");
    assert!(conversions.get(&one, &live, "example.com/v2").is_none());
    assert_eq!(conversions.learn(&one).await.unwrap_err().message, "it is dead");
}

#[tokio::test(start_paused = true)]
async fn reads_fail_while_conversion_fails_and_recover() {
    let house = House::new("v2").await;
    house.put("v2", "a", "x").await;
    house.fake.set(Mood::Dead);
    for _ in 0..2 {
        let status = house.list("v1").await.unwrap_err();
        assert_eq!((status.code, status.message.as_str(), status.reason), (500, "it is dead", ""));
    }
    assert_eq!(house.list("v2").await.unwrap().0, ["a=x"], "the stored version needs nobody");
    house.fake.set(Mood::Well);
    assert_eq!(house.list("v1").await.unwrap().0, ["a=x"]);

    let readable = house.served("v1").readable().await.unwrap();
    let mut watch = readable.subscribe("", readable.snapshot().1).unwrap();
    house.fake.set(Mood::Dead);
    house.put("v2", "a", "y").await;
    assert_eq!(house.list("v1").await.unwrap_err().message, "it is dead");
    house.put("v2", "a", "z").await;
    assert_eq!(house.list("v1").await.unwrap_err().message, "it is dead");
    house.fake.set(Mood::Well);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        // Nobody reads: the feed tries again by itself.
        seen.extend(next(&mut watch).await.unwrap().iter().map(|(_, object, _)| shown(object, "v1")));
    }
    assert_eq!(seen, ["a=y", "a=z"], "a watch goes on where it was");
    assert_eq!(house.list("v1").await.unwrap().0, ["a=z"]);
}

#[tokio::test]
async fn reads_that_wait_share_one_conversion_and_writes_do_not_wait() {
    let house = House::new("v2").await;
    house.put("v2", "a", "x").await;
    house.fake.set(Mood::Hanging);
    let served = house.served("v1");
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let served = served.clone();
            tokio::spawn(async move { served.readable().await.map(|resource| resource.count()) })
        })
        .collect();
    while house.fake.calls() == 0 {
        tokio::task::yield_now().await;
    }
    house.put("v2", "b", "x").await;
    assert_eq!(house.list("v2").await.unwrap().0.len(), 2);
    house.fake.set(Mood::Well);
    for reader in readers {
        assert!(tokio::time::timeout(LONG, reader).await.unwrap().unwrap().unwrap() >= 1);
    }
    assert_eq!(house.list("v1").await.unwrap().0.len(), 2);
    assert_eq!(house.fake.objects(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_nobody_reads_is_dropped() {
    let house = House::new("v2").await;
    house.put("v2", "a", "x").await;
    let readable = house.served("v1").readable().await.unwrap();
    let watch = readable.subscribe("", readable.snapshot().1).unwrap();
    tokio::time::sleep(IDLE_MAX * 2).await;
    house.put("v2", "a", "y").await;
    assert_eq!(house.list("v1").await.unwrap().0, ["a=y"]);
    assert_eq!(house.fake.calls(), 2, "a watch keeps it");
    assert!(!readable.has_ended());

    drop(watch);
    tokio::time::sleep(IDLE_MAX * 2).await;
    assert!(readable.has_ended());
    assert_eq!(readable.count(), 1, "who still has it has it whole");
    house.put("v2", "b", "x").await;
    tokio::time::sleep(IDLE_MAX).await;
    assert_eq!(house.fake.calls(), 2, "nothing is converted for nobody");
    assert_eq!(house.list("v1").await.unwrap().0, ["a=y", "b=x"]);
}

#[tokio::test]
async fn what_was_stored_in_another_version_is_converted() {
    let house = House::new("v1").await;
    house.put("v0", "old", "o").await;
    house.put("v1", "a", "x").await;
    house.fake.set(Mood::Dead);
    house.define("v2").await;
    assert_eq!(house.list("v2").await.unwrap_err().message, "it is dead");
    let new = house.put("v2", "b", "y").await;
    assert_eq!(house.served("v2").stored().snapshot().1, new, "writes go on");
    let (one, two) = (house.served("v1"), house.served("v2"));
    let entry = |name: &str| two.stored().find("default", name).unwrap();
    assert_eq!(two.converted(&entry("b")).await.unwrap().str("name"), "y", "what is in the version needs nobody");
    assert_eq!(one.converted(&entry("a")).await.unwrap().str("appName"), "x");
    assert_eq!(two.converted(&entry("a")).await.unwrap_err().message, "it is dead");

    house.fake.set(Mood::Well);
    assert_eq!(house.list("v2").await.unwrap().0, ["a=x", "b=y", "old=o"]);
    assert_eq!(house.list("v1").await.unwrap().0, ["a=x", "b=y", "old=o"]);
    let (items, revision) = two.readable().await.unwrap().snapshot();
    let shared = items.values().find(|entry| entry.object.name == "b").unwrap();
    assert!(Arc::ptr_eq(&shared.object, &entry("b").object), "nothing is kept twice without need");

    // They are written in the new version one after another; then nobody is needed.
    let mut watch = two.readable().await.unwrap().subscribe("", revision).unwrap();
    house.fake.set(Mood::Dead);
    house.put("v2", "a", "x2").await;
    house.put("v2", "old", "o2").await;
    assert_eq!(house.list("v2").await.unwrap().0, ["a=x2", "b=y", "old=o2"]);
    assert_eq!(next(&mut watch).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_version_that_is_no_more_cannot_be_read() {
    let house = House::new("v2").await;
    house.put("v3", "a", "x").await;
    for version in ["v1", "v2"] {
        let status = house.list(version).await.unwrap_err();
        assert_eq!(status.message, "request to convert CR from an invalid group/version: example.com/v3");
    }
    house.write("a", Change::Delete).await;
    house.put("v2", "b", "y").await;
    assert_eq!(house.list("v1").await.unwrap().0, ["b=y"]);
    assert_eq!(house.list("v2").await.unwrap().0, ["b=y"]);
}

#[tokio::test]
async fn what_is_past_is_no_reason_to_fail() {
    let house = House::new("v2").await;
    house.put("v3", "a", "x").await;
    house.put("v2", "b", "x").await;
    house.write("a", Change::Delete).await;
    assert_eq!(house.list("v1").await.unwrap().0, ["b=x"], "what could not be converted is gone");
    // The same where all of it is in the past that is followed.
    let house = House::new("v2").await;
    house.put("v3", "a", "x").await;
    house.write("a", Change::Delete).await;
    house.put("v3", "a", "x").await;
    house.write("a", Change::Delete).await;
    house.put("v2", "b", "x").await;
    assert_eq!(house.list("v1").await.unwrap().0, ["b=x"]);
}

#[tokio::test]
async fn watches_of_the_stored_version_never_see_another() {
    let house = House::new("v2").await;
    let start = house.put("v2", "a", "x").await;
    let mut watch = house.served("v2").readable().await.unwrap().subscribe("", start).unwrap();
    // Written by a server that does not know yet that the storage version has moved.
    house.put("v1", "b", "y").await;
    assert!(tokio::time::timeout(LONG, watch.next(ALL)).await.unwrap().is_err(), "it begins again");
    let (objects, revision) = house.list("v2").await.unwrap();
    assert_eq!(objects, ["a=x", "b=y"]);
    let mut watch = house.served("v2").readable().await.unwrap().subscribe("", revision).unwrap();
    house.put("v1", "c", "z").await;
    assert_eq!(shown(&next(&mut watch).await.unwrap()[0].1, "v2"), "c=z");
}

#[tokio::test]
async fn watches_end_when_the_kind_is_replaced() {
    let house = House::new("v2").await;
    house.put("v2", "a", "x").await;
    for mood in [Mood::Well, Mood::Dead, Mood::Hanging] {
        house.fake.set(Mood::Well);
        let readable = house.served("v1").readable().await.unwrap();
        let mut watch = readable.subscribe("", readable.snapshot().1).unwrap();
        house.fake.set(mood);
        let calls = house.fake.calls();
        house.put("v2", "a", "y").await;
        while house.fake.calls() == calls {
            tokio::task::yield_now().await;
        }
        house.define("v2").await;
        while next(&mut watch).await.is_some() {}
        house.write("a", Change::Delete).await;
    }
    house.fake.set(Mood::Well);
    house.put("v2", "a", "z").await;
    assert_eq!(house.list("v1").await.unwrap().0, ["a=z"]);
    house.catalog.remove("example.com", "apps").await;
    assert!(house.catalog.find("example.com", "v1", "apps").is_none());
}

#[tokio::test]
async fn a_version_that_is_read_for_the_first_time_has_a_past() {
    let house = House::new("v2").await;
    house.put("v2", "a", "x").await;
    let made = house.put("v2", "b", "x").await;
    let gone = house.write("b", Change::Delete).await;
    let readable = house.served("v1").readable().await.unwrap();
    let mut watch = readable.subscribe("", made).unwrap();
    let events = next(&mut watch).await.unwrap();
    let found: Vec<_> = events.iter().map(|(change, object, at)| (*change, shown(object, "v1"), *at)).collect();
    assert_eq!(found, [("DELETED", "b=x".to_owned(), gone)]);
    assert_eq!(house.list("v1").await.unwrap().0, ["a=x"]);
}
