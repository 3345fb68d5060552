//! Definitions through their life, on a store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use rkube_catalog::{Catalog, Entry, Object, Served};
use rkube_machinery::host::Clock;
use rkube_machinery::{GroupResource, Status, Value, json, object};

use rkube_store::{Change, Expect, Memory, Store, Write};

use super::names::Names;
use super::plan::{self, Step};
use super::{Definitions, GROUP, RESOURCE, Requests, VERSION};

const NOW: i64 = 1_700_000_000;

fn definition(plural: &str, kind: &str) -> Value {
    let text = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{{"name":"{plural}.example.com","uid":"{plural}","generation":1}},
        "spec":{{"group":"example.com","scope":"Namespaced",
          "names":{{"plural":"{plural}","singular":"{}","shortNames":["x"],"kind":"{kind}","listKind":"{kind}List"}},
          "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}]}}}}"#,
        kind.to_lowercase()
    );
    json::parse(text.as_bytes()).unwrap()
}

fn condition<'a>(definition: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let conditions = definition.get("status").list("conditions");
    let found = conditions.iter().find(|condition| condition.str("type") == kind);
    found.map_or(("", "", ""), |found| (found.str("status"), found.str("reason"), found.str("message")))
}

#[test]
fn free_names_are_accepted_and_taken_ones_are_not() {
    let mut first = definition("foos", "Foo");
    plan::settle(&mut first, &Names::default().of_group("example.com"), NOW);
    assert_eq!(condition(&first, "NamesAccepted"), ("True", "NoConflicts", "no conflicts found"));
    let established = ("True", "InitialNamesAccepted", "the initial names have been accepted");
    assert_eq!(condition(&first, "Established"), established);
    let mut names = Names::default();
    assert_eq!(names.note(&"foos.example.com".into(), "example.com", first.get("status")), None);

    let table = [
        (definition("bars", "Bar"), "ShortNamesConflict", "\"x\" is already in use"),
        (definition("bars", "Foo"), "ListKindConflict", "\"FooList\" is already in use"),
    ];
    for (mut second, reason, message) in table {
        plan::settle(&mut second, &names.of_group("example.com"), NOW);
        assert_eq!(condition(&second, "NamesAccepted"), ("False", reason, message));
        let refused = ("False", "NotAccepted", "not all names are accepted");
        assert_eq!(condition(&second, "Established"), refused);
        assert_eq!(second.at(&["status", "acceptedNames", "plural"]).as_str(), "bars");
        names.note(&"bars.example.com".into(), "example.com", second.get("status"));
        assert_eq!(names.waiting("example.com"), ["bars.example.com"]);
        names.forget(&"bars.example.com".into());
    }
    let mut elsewhere = definition("bars", "Foo");
    plan::settle(&mut elsewhere, &names.of_group("example.org"), NOW);
    assert_eq!(condition(&elsewhere, "NamesAccepted").0, "True");

    assert_eq!(names.forget(&"foos.example.com".into()).as_deref(), Some("example.com"));
    let mut second = definition("bars", "Foo");
    plan::settle(&mut second, &names.of_group("example.com"), NOW);
    assert_eq!(condition(&second, "NamesAccepted").0, "True");
}

#[test]
fn what_is_established_stays_so_when_new_names_are_taken() {
    let mut names = Names::default();
    let mut other = definition("bars", "Bar");
    plan::settle(&mut other, &names.of_group("example.com"), NOW);
    names.note(&"bars.example.com".into(), "example.com", other.get("status"));
    let mut first = definition("foos", "Foo");
    first.object_mut("spec").object_mut("names").remove("shortNames");
    plan::settle(&mut first, &names.of_group("example.com"), NOW);
    let before = first.clone();
    plan::settle(&mut first, &names.of_group("example.com"), NOW + 60);
    assert_eq!(first, before, "nothing changes by itself");
    first.object_mut("spec").object_mut("names").set("kind", "Bar");
    plan::settle(&mut first, &names.of_group("example.com"), NOW + 60);
    assert_eq!(condition(&first, "NamesAccepted"), ("False", "KindConflict", "\"Bar\" is already in use"));
    assert_eq!(condition(&first, "Established").0, "True");
    assert_eq!(first.at(&["status", "acceptedNames", "kind"]).as_str(), "Foo");
}

#[test]
fn groups_of_the_community_say_whether_they_are_approved() {
    let mut definition = definition("foos", "Foo");
    definition.object_mut("spec").set("group", "x.k8s.io");
    for (annotation, status, reason) in [
        ("", "False", "MissingAnnotation"),
        ("x", "False", "InvalidAnnotation"),
        ("unapproved, a test", "False", "UnapprovedAnnotation"),
        ("https://example.com/1", "True", "ApprovedAnnotation"),
    ] {
        let annotations = object! { "api-approved.kubernetes.io": annotation };
        definition.object_mut("metadata").set("annotations", annotations);
        plan::settle(&mut definition, &Names::default().of_group(""), NOW);
        let found = condition(&definition, "KubernetesAPIApprovalPolicyConformant");
        assert_eq!((found.0, found.1), (status, reason), "{annotation}");
    }
}

#[test]
fn a_deletion_goes_step_by_step() {
    let mut definition = definition("foos", "Foo");
    plan::settle(&mut definition, &Names::default().of_group(""), NOW);
    assert_eq!(plan::termination(&mut definition, NOW), Step::Nothing);
    let metadata = definition.object_mut("metadata");
    metadata.set("deletionTimestamp", "2023-11-14T22:13:20Z");
    metadata.set("finalizers", vec![Value::from("customresourcecleanup.apiextensions.k8s.io")]);
    assert_eq!(plan::termination(&mut definition, NOW), Step::Announce);
    let announced = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
    assert_eq!(condition(&definition, "Terminating"), announced);
    assert_eq!(plan::termination(&mut definition, NOW), Step::Empty);
    plan::deletion_failed(&mut definition, "no", NOW);
    assert_eq!(condition(&definition, "Terminating").2, "could not issue all deletes: no");
    plan::deletion_completed(&mut definition, NOW);
    assert_eq!(condition(&definition, "Terminating"), ("False", "InstanceDeletionCompleted", "removed all instances"));
    assert!(definition.get("metadata").list("finalizers").is_empty());
}

struct Stopped;

impl Clock for Stopped {
    fn now_micros(&self) -> i64 {
        NOW * 1_000_000
    }
}

/// The server's part: writes to the store as the road would.
struct Server {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    /// Whether deletions of objects fail.
    stuck: AtomicBool,
}

impl Server {
    async fn write(&self, value: &Value, expect: Expect) -> Result<(), Status> {
        let kind = &self.catalog.resource(GROUP, VERSION, RESOURCE).unwrap().kind;
        let object = Arc::new(Object::new(value, kind));
        let key = format!("/registry/{}/{}", kind.storage_prefix, value.get("metadata").str("name"));
        let change = match value.get("metadata").has("deletionTimestamp")
            && value.get("metadata").list("finalizers").is_empty()
        {
            true => Change::Delete,
            false => Change::Put { value: object.stored(), lease: None, note: Some(object) },
        };
        let written = self.store.write(Write { key: key.into(), expect, change, guard: None }).await;
        written.map(drop).map_err(|_| Status::conflict(&GroupResource::default(), "", "changed"))
    }

    async fn make_object(&self, resource: &str, name: &str) {
        let key = format!("/registry/example.com/{resource}/default/{name}");
        let value = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Foo","metadata":{{"name":"{name}","namespace":"default","uid":"u"}}}}"#
        );
        let change = Change::Put { value: value.into(), lease: None, note: None };
        self.store.write(Write { key: key.into(), expect: Expect::Absent, change, guard: None }).await.unwrap();
    }

    fn find(&self, plural: &str) -> Option<Value> {
        let definitions = self.catalog.resource(GROUP, VERSION, RESOURCE)?;
        let entry = definitions.find("", &format!("{plural}.example.com"))?;
        Some(entry.object.value(entry.revision))
    }

    /// Waits until the definition is as wanted.
    async fn until(&self, plural: &str, wanted: impl Fn(Option<&Value>) -> bool) {
        while !wanted(self.find(plural).as_ref()) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

impl Requests for Server {
    fn put_status(&self, definition: Value) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            let revision = definition.get("metadata").str("resourceVersion").parse().unwrap();
            self.write(&definition, Expect::Revision(revision)).await
        })
    }

    fn delete<'a>(&'a self, served: &'a Arc<Served>, entry: &'a Entry) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if self.stuck.load(Ordering::Relaxed) {
                return Err(Status::internal("stuck"));
            }
            let key = served.stored().key(&entry.object.namespace, &entry.object.name);
            let expect = Expect::Revision(entry.revision);
            let deleted =
                self.store.write(Write { key: key.into(), expect, change: Change::Delete, guard: None }).await;
            deleted.map(drop).map_err(|error| Status::internal(error.to_string()))
        })
    }
}

async fn start(before: &[Value]) -> Arc<Server> {
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let kinds = [rkube_kinds::find(GROUP, VERSION, RESOURCE).unwrap().clone()];
    let catalog = Catalog::start(store.clone(), &kinds, Arc::new(Stopped)).await.unwrap();
    let server = Arc::new(Server { store, catalog: catalog.clone(), stuck: AtomicBool::new(false) });
    for definition in before {
        server.write(definition, Expect::Absent).await.unwrap();
    }
    let requests: Arc<dyn Requests> = server.clone();
    let definitions = Definitions::new(catalog, Arc::downgrade(&requests), Arc::new(Stopped)).unwrap();
    definitions.start(std::future::pending()).await;
    server
}

fn is_established(definition: Option<&Value>) -> bool {
    definition.is_some_and(|definition| condition(definition, "Established").0 == "True")
}

#[tokio::test(start_paused = true)]
async fn what_was_there_is_served_from_the_start() {
    let server = start(&[definition("foos", "Foo")]).await;
    assert!(server.catalog.find("example.com", "v1", "foos").is_some());
    server.until("foos", is_established).await;
}

#[tokio::test(start_paused = true)]
async fn names_that_become_free_go_to_who_waits() {
    let server = start(&[]).await;
    server.write(&definition("foos", "Foo"), Expect::Absent).await.unwrap();
    server.until("foos", is_established).await;
    server.write(&definition("bars", "Bar"), Expect::Absent).await.unwrap();
    server.until("bars", |found| found.is_some_and(|found| condition(found, "NamesAccepted").0 == "False")).await;
    assert!(server.catalog.find("example.com", "v1", "bars").is_none());

    let mut first = server.find("foos").unwrap();
    let revision = first.get("metadata").str("resourceVersion").parse().unwrap();
    first.object_mut("spec").object_mut("names").remove("shortNames");
    first.object_mut("metadata").set("generation", 2);
    server.write(&first, Expect::Revision(revision)).await.unwrap();
    server.until("bars", is_established).await;
    assert!(server.catalog.find("example.com", "v1", "bars").is_some());
}

#[tokio::test(start_paused = true)]
async fn objects_go_before_their_definition_and_none_comes_behind() {
    let server = start(&[definition("foos", "Foo")]).await;
    server.until("foos", is_established).await;
    server.make_object("foos", "a").await;
    server.stuck.store(true, Ordering::Relaxed);
    let mut going = server.find("foos").unwrap();
    let revision = going.get("metadata").str("resourceVersion").parse().unwrap();
    let metadata = going.object_mut("metadata");
    metadata.set("deletionTimestamp", "2023-11-14T22:13:20Z");
    metadata.set("finalizers", vec![Value::from("customresourcecleanup.apiextensions.k8s.io")]);
    server.write(&going, Expect::Revision(revision)).await.unwrap();
    server.until("foos", |found| condition(found.unwrap(), "Terminating").1 == "InstanceDeletionFailed").await;
    let served = server.catalog.find("example.com", "v1", "foos").unwrap();
    assert!(served.stored().gate.enter().await.is_none(), "nothing new may come");
    server.stuck.store(false, Ordering::Relaxed);
    server.until("foos", |found| found.is_none()).await;
    while server.catalog.find("example.com", "v1", "foos").is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(served.stored().count(), 0);
}
