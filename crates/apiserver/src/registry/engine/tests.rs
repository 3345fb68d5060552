//! The loop, with writes that do as they are told; and a write that is overtaken between admission and the store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use rkube_access::{MASTERS, User};
use rkube_admission::{Attributes, Operation, Plugin, Step};
use rkube_catalog::{Entry, Object, Resource};
use rkube_machinery::{Status, Value, json, object};
use rkube_store::{Change, Expect, Memory, Store as _, Write};

use super::{CompareAndSwap, Engine, Place, Seen, Verdict, run};
use crate::server::{ApiServer, Config};
use crate::test_server::{ask, config, server, server_with};

const ATTEMPTS_MAX: usize = 3;

/// Ends each attempt as it was told, and notes what it was shown.
struct Script<'a> {
    place: Place<'a>,
    verdicts: VecDeque<Result<Verdict<&'static str>, &'static str>>,
    seen: Vec<String>,
    retries: usize,
}

impl CompareAndSwap for Script<'_> {
    type Done = &'static str;

    fn place(&self) -> &Place<'_> {
        &self.place
    }

    fn attempts_max(&self) -> usize {
        ATTEMPTS_MAX
    }

    async fn attempt(&mut self, current: Option<&Entry>) -> Result<Verdict<&'static str>, Status> {
        self.seen.push(shown(current));
        self.verdicts.pop_front().unwrap_or(Ok(Verdict::Overtaken)).map_err(Status::bad_request)
    }

    fn again(&mut self) -> Result<(), Status> {
        self.retries += 1;
        Ok(())
    }

    fn exhausted(&self, current: Option<&Entry>) -> Status {
        Status::internal(shown(current))
    }
}

fn shown(entry: Option<&Entry>) -> String {
    entry.map_or("absent".to_owned(), |entry| entry.object.value(entry.revision).get("data").str("from").to_owned())
}

fn config_map(from: &str) -> Value {
    let metadata = object! { "name": "a", "namespace": "default" };
    object! { "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": object! { "from": from } }
}

async fn put(engine: &Engine, resource: &Resource, from: &str) {
    let place = Place::new(engine, resource, resource.key("default", "a"), false);
    let put = place.put(config_map(from), Expect::Absent).await.unwrap();
    assert!(matches!(put, Verdict::Committed(_)));
}

/// The verdicts, what each attempt is to be shown, and how the write ends.
type Row =
    (Vec<Result<Verdict<&'static str>, &'static str>>, &'static [&'static str], Result<&'static str, &'static str>);

/// Runs each row on a cache that has one object and a store that has another.
async fn check(cache_may_lag: bool, rows: Vec<Row>) {
    let server = server().await;
    let resource = server.road.catalog.resource("", "v1", "configmaps").unwrap();
    put(&server.road.registry.engine, &resource, "cache").await;
    let engine = Engine::new(Arc::new(Memory::new()), server.road.clock.clone(), cache_may_lag);
    put(&engine, &resource, "store").await;
    for (verdicts, seen, end) in rows {
        let place = Place::new(&engine, &resource, resource.key("default", "a"), false);
        let start = place.cached();
        let mut script = Script { place, verdicts: verdicts.into(), seen: Vec::new(), retries: 0 };
        let ended = run(&mut script, start).await.map_err(|status| status.message);
        assert_eq!(
            ended.as_ref().map_err(|message| message.trim_start_matches("Internal error occurred: ")),
            end.as_ref().map_err(|end| *end)
        );
        assert_eq!(script.seen, seen);
        assert_eq!(script.retries, seen.len() - 1);
    }
}

#[tokio::test]
async fn what_is_overtaken_is_tried_again_on_what_the_store_has() {
    use Verdict::{Committed, Decided, Overtaken};
    let rows: Vec<Row> = vec![
        (vec![Ok(Committed("a"))], &["cache"], Ok("a")),
        (vec![Ok(Decided("a"))], &["cache"], Ok("a")),
        (vec![Err("a")], &["cache"], Err("a")),
        (vec![Ok(Overtaken), Ok(Committed("a"))], &["cache", "store"], Ok("a")),
        (vec![Ok(Overtaken), Err("a")], &["cache", "store"], Err("a")),
        (vec![], &["cache", "store", "store"], Err("store")),
    ];
    check(false, rows).await;
}

#[tokio::test]
async fn a_cache_that_may_lag_decides_nothing() {
    use Verdict::{Committed, Decided};
    let rows: Vec<Row> = vec![
        // The store took it: nothing was out of date.
        (vec![Ok(Committed("a"))], &["cache"], Ok("a")),
        (vec![Ok(Decided("a")), Ok(Decided("b"))], &["cache", "store"], Ok("b")),
        (vec![Err("a"), Ok(Committed("b"))], &["cache", "store"], Ok("b")),
        (vec![Err("a"), Err("b")], &["cache", "store"], Err("b")),
    ];
    check(true, rows).await;
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_knows_what_the_store_has() {
    let server = server().await;
    let resource = server.road.catalog.resource("", "v1", "configmaps").unwrap();
    let engine = Engine::new(Arc::new(Memory::new()), server.road.clock.clone(), true);
    let place = Place::new(&engine, &resource, resource.key("default", "a"), true);
    let tried = place.put(config_map("dry"), Expect::Absent).await.unwrap();
    assert!(matches!(tried, Verdict::Decided(Entry { revision: 0, .. })));
    assert!(place.read().await.unwrap().is_none());
    // The cache does not know of it.
    put(&engine, &resource, "store").await;
    assert!(matches!(place.put(config_map("dry"), Expect::Absent).await.unwrap(), Verdict::Overtaken));
    assert_eq!(place.remove(7).await.unwrap(), Verdict::Decided(7));
    assert_eq!(shown(place.find().await.unwrap().as_ref()), "store");
    assert!(matches!(place.cached(), Seen { entry: None, is_current: false }));
}

/// Makes the object that a request is about to make, when that is admitted already.
#[derive(Default)]
struct Rival {
    server: Arc<OnceLock<Weak<ApiServer>>>,
    came: AtomicBool,
}

impl Plugin for Rival {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == Operation::Create && attributes.served.kind.resource == "configmaps"
    }

    fn validate<'a>(&'a self, attributes: &'a mut Attributes<'_>, _object: &'a Value) -> Step<'a> {
        if attributes.name != "raced" || self.came.swap(true, Ordering::Relaxed) {
            return Step::Now(Ok(()));
        }
        Step::Later(Box::pin(async {
            let server = self.server.get().and_then(Weak::upgrade).unwrap();
            let (code, _) = apply(&server, "rival").await;
            assert_eq!(code, 201);
            Ok(())
        }))
    }
}

#[tokio::test]
async fn an_apply_whose_object_another_makes_first_changes_that() {
    let rival = Rival::default();
    let place = rival.server.clone();
    let server = server_with(Box::new(rival)).await;
    place.set(Arc::downgrade(&server)).unwrap();
    let (code, body) = apply(&server, "late").await;
    assert_eq!(code, 200);
    assert_eq!(body.get("data"), &object! { "late": "1", "rival": "1" });
}

/// Deletes or labels the namespace of the object that a request is about to make, when that is admitted already.
struct Meanwhile {
    server: Arc<OnceLock<Weak<ApiServer>>>,
    method: Method,
}

impl Plugin for Meanwhile {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == Operation::Create && attributes.name == "late"
    }

    fn validate<'a>(&'a self, _attributes: &'a mut Attributes<'_>, _object: &'a Value) -> Step<'a> {
        Step::Later(Box::pin(async {
            let server = self.server.get().and_then(Weak::upgrade).unwrap();
            let body = r#"{"metadata": {"labels": {"a": "b"}}}"#;
            let body = if self.method == Method::PATCH { body } else { "" };
            let form = "application/merge-patch+json";
            let done = ask(&server, self.method.clone(), "/api/v1/namespaces/n", form, body.into()).await;
            assert_eq!(done.map(|(code, _)| code.as_u16()), Ok(200));
            Ok(())
        }))
    }
}

/// Makes a namespace, and a ConfigMap in it: the answer's code, and what it says if it is a refusal.
async fn make_late(server: &ApiServer) -> (u16, String) {
    let mut answer = (StatusCode::OK, Bytes::new());
    for (path, body) in [("", r#"{"metadata": {"name": "n"}}"#), ("/n/configmaps", r#"{"metadata": {"name": "late"}}"#)]
    {
        let path = format!("/api/v1/namespaces{path}");
        answer = ask(server, Method::POST, &path, "application/json", body.into()).await.unwrap();
    }
    (answer.0.as_u16(), json::parse(&answer.1).unwrap().str("message").to_owned())
}

#[tokio::test]
async fn what_was_admitted_before_its_namespace_went_is_not_stored() {
    let refused =
        "configmaps \"late\" is forbidden: unable to create new content in namespace n because it is being terminated";
    for (method, expected) in [(Method::PATCH, (201, "")), (Method::DELETE, (403, refused))] {
        let meanwhile = Meanwhile { server: Arc::default(), method };
        let place = meanwhile.server.clone();
        let server = server_with(Box::new(meanwhile)).await;
        place.set(Arc::downgrade(&server)).unwrap();
        let (code, message) = make_late(&server).await;
        assert_eq!((code, message.as_str()), expected);
        let kept = server.road.catalog.resource("", "v1", "configmaps").unwrap().find("n", "late");
        assert_eq!(kept.is_some(), code == 201);
    }
}

/// Writes the namespace behind the server's back, so many times, when that was looked at and before the object is stored;
/// the last time it is on its way out, or not.
struct Elsewhere {
    store: Arc<Memory>,
    times: usize,
    deletes: bool,
    asked: Arc<AtomicUsize>,
}

impl Plugin for Elsewhere {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == Operation::Create && attributes.name == "late"
    }

    fn check_guardian(&self, _attributes: &Attributes<'_>, guardian: Option<&Object>) -> Result<(), Status> {
        let namespace = guardian.unwrap();
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if asked <= self.times {
            let mut value = namespace.value(0);
            if self.deletes && asked == self.times {
                value.object_mut("metadata").set("deletionTimestamp", "2026-01-01T00:00:00Z");
            }
            let namespace = Object::new(&value, rkube_kinds::find("", "v1", "namespaces").unwrap());
            let change = Change::Put { value: namespace.stored(), lease: None, note: None };
            let key = "/registry/namespaces/n".into();
            let write = self.store.write(Write { key, expect: Expect::Anything, change, guard: None });
            write.now_or_never().unwrap().unwrap();
        }
        Ok(())
    }
}

#[tokio::test]
async fn what_a_new_object_rests_upon_is_looked_at_again_when_it_was_written() {
    let refused =
        "configmaps \"late\" is forbidden: unable to create new content in namespace n because it is being terminated";
    // How often the namespace is written, whether it goes in the end, how often it is looked at, and the answer.
    for (times, deletes, asked_times, expected) in [
        (0, false, 1, (201, "")),
        (3, false, 4, (201, "")),
        (usize::MAX, false, 6, (201, "")),
        (1, true, 1, (403, refused)),
        (4, true, 4, (403, refused)),
        (5, true, 5, (403, refused)),
        (6, true, 6, (201, "")),
    ] {
        let (store, asked) = (Arc::new(Memory::new()), Arc::<AtomicUsize>::default());
        let config = Config { store: store.clone(), ..config() };
        let elsewhere = Elsewhere { store: store.clone(), times, deletes, asked: asked.clone() };
        let server = ApiServer::start_with(config, vec![Box::new(elsewhere)]).await.unwrap();
        let (code, message) = make_late(&server).await;
        assert_eq!((code, message.as_str()), expected, "{times}");
        assert_eq!(asked.load(Ordering::Relaxed), asked_times, "{times}");
        let (kept, _) = store.get("/registry/configmaps/n/late").await.unwrap();
        assert_eq!(kept.is_some(), code == 201, "{times}");
    }
}

/// Applies a ConfigMap with the manager's own key; the code and the object.
async fn apply(server: &ApiServer, manager: &str) -> (u16, Value) {
    let body = format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "raced"}}, "data": {{"{manager}": "1"}}}}"#
    );
    let request = Request::builder()
        .method("PATCH")
        .uri(format!("/api/v1/namespaces/default/configmaps/raced?fieldManager={manager}"))
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let user = Arc::new(User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() });
    let answer = server.handle(request, Some(&user)).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, json::parse(&body).unwrap())
}
