//! Read your own writes: a reconcile never sees caches that are older than what an earlier reconcile of the same key
//! wrote.
//!
//! A layer below the client ([`crate::Caches::read_your_writes`]) looks at the answers to what a reconcile writes and
//! notes their resource versions. When the reconcile is over, [`crate::run`] waits until every cache of those resources
//! has seen them, and only then is the key done: nobody begins with it before. Nothing is to be done by hand, and no
//! expectations are to be kept.
//!
//! It costs a scan of the beginning of each answer, and a comparison where the caches are there already, as they mostly
//! are in the server's own process. What it does not cover: writes whose answers carry no resource version (bindings,
//! evictions, the deletion of collections), and those of tasks that a reconcile spawns, unless they are
//! [`carried`].

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Either, Full};
use kube::client::Body;
use kube::core::ApiResource;
use parking_lot::{Mutex, RwLock};
use rkube_machinery::Text;
use rkube_machinery::json::Scan;
use rkube_machinery::selector::labels::Selector;
use serde::Deserialize;
use tokio::sync::Notify;
use tower_layer::Layer;
use tower_service::Service;

use crate::source::uid_hash;

/// So long is waited for caches after a reconcile. A watch that has not brought a write by then will not bring it (the
/// object is none that the cache is of), or is interrupted for longer: then it is logged, and work goes on.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

tokio::task_local! {
    static WRITES: Writes;
}

/// What a reconcile wrote.
#[derive(Clone, Default)]
pub(crate) struct Writes(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    notes: Vec<Note>,
    progress: Option<Arc<Progress>>,
}

/// Runs a reconcile and waits until the caches have what it wrote.
pub(crate) async fn followed_by_caches<F: Future>(reconcile: F) -> F::Output {
    let writes = Writes::default();
    let output = WRITES.scope(writes.clone(), reconcile).await;
    writes.arrive().await;
    output
}

/// Makes the writes of a task that a reconcile spawns, and waits for, count as its own.
pub fn carried<F: Future>(task: F) -> impl Future<Output = F::Output> {
    let writes = WRITES.try_with(Writes::clone).unwrap_or_default();
    WRITES.scope(writes, task)
}

impl Writes {
    async fn arrive(&self) {
        let Noted { notes, progress } = std::mem::take(&mut *self.0.lock());
        let Some(progress) = progress else { return };
        let resources: Vec<Resource<'_>> = notes.iter().map(Note::resource).collect();
        let mut distinct = resources.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let arriving = async {
            for (resource, following) in progress.of(&distinct) {
                let ours = notes.iter().zip(&resources).filter(|(_, of)| **of == resource).map(|(note, _)| note);
                wait_for(&*following, ours).await;
            }
        };
        if tokio::time::timeout(CATCH_UP_MAX, arriving).await.is_err() {
            tracing::warn!(writes = notes.len(), "caches have not seen what was written; going on without");
        }
    }
}

async fn wait_for(following: &dyn Following, notes: impl Iterator<Item = &Note>) {
    for note in notes {
        loop {
            let mut moved = std::pin::pin!(following.moved().notified());
            moved.as_mut().enable();
            if following.has(note) {
                break;
            }
            moved.await;
        }
    }
}

/// A write that was answered.
pub(crate) struct Note {
    uri: Uri,
    /// Of a new object; the path has the others'.
    name: Option<Text>,
    /// Where caches select by labels: what the object has. Else empty.
    answer: Bytes,
    pub what: What,
}

/// How a cache knows that it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// It has seen this revision.
    At(u64),
    /// It no longer has the object of this uid.
    Gone(u64),
}

impl Note {
    fn resource(&self) -> Resource<'_> {
        parts(self.uri.path()).map_or(("", ""), |parts| (parts.group, parts.plural))
    }

    /// Whether the object was written with labels that a selector selects.
    pub fn has_labels(&self, selector: &str) -> bool {
        let Ok(selector) = Selector::parse(selector) else { return false };
        let written: Result<Labelled, _> = serde_json::from_slice(&self.answer);
        written.is_ok_and(|object| {
            let labels = object.metadata.labels.unwrap_or_default();
            selector.matches_pairs(|key| labels.get(key).map(String::as_str))
        })
    }

    /// Namespace and name.
    pub fn place(&self) -> (&str, &str) {
        let Some(parts) = parts(self.uri.path()) else { return ("", "") };
        (parts.namespace, self.name.as_deref().unwrap_or(parts.name))
    }
}

#[derive(Deserialize)]
struct Labelled {
    metadata: LabelledMetadata,
}

#[derive(Deserialize)]
struct LabelledMetadata {
    labels: Option<BTreeMap<String, String>>,
}

/// What a path is about.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    group: &'a str,
    namespace: &'a str,
    plural: &'a str,
    name: &'a str,
}

fn parts(path: &str) -> Option<Parts<'_>> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let group = match segments.next()? {
        "api" => "",
        "apis" => segments.next()?,
        _ => return None,
    };
    let _version = segments.next()?;
    let first = segments.next()?;
    let second = segments.next().unwrap_or_default();
    match (first, segments.next()) {
        // A namespace itself, and its subresources.
        ("namespaces", None | Some("status" | "finalize")) => {
            Some(Parts { group, namespace: "", plural: first, name: second })
        }
        ("namespaces", Some(plural)) => {
            Some(Parts { group, namespace: second, plural, name: segments.next().unwrap_or_default() })
        }
        _ => Some(Parts { group, namespace: "", plural: first, name: second }),
    }
}

/// Somebody who follows a resource.
pub(crate) trait Following: Send + Sync {
    fn has(&self, note: &Note) -> bool;
    /// Whether it selects by labels.
    fn selects_labels(&self) -> bool;
    /// Notified whenever something was seen.
    fn moved(&self) -> &Notify;
}

/// All who follow resources for one set of caches.
#[derive(Default)]
pub(crate) struct Progress {
    /// By plural: of the same in another group there is hardly ever one.
    all: RwLock<BTreeMap<Text, Vec<Followed>>>,
    /// How many there were.
    added: AtomicU64,
    /// Whether there ever was one that selects by labels.
    any_labels: AtomicBool,
}

/// Group and plural.
type Resource<'a> = (&'a str, &'a str);

struct Followed {
    group: Text,
    /// They are waited for in the order of these.
    number: u64,
    following: Weak<dyn Following>,
}

impl Progress {
    pub fn add<F: Following + 'static>(&self, resource: &ApiResource, following: &Arc<F>) {
        let following: Arc<dyn Following> = following.clone();
        self.any_labels.fetch_or(following.selects_labels(), Ordering::Relaxed);
        let mut all = self.all.write();
        all.retain(|_, followed| {
            followed.retain(|it| it.following.strong_count() > 0);
            !followed.is_empty()
        });
        let (group, following) = (resource.group.as_str().into(), Arc::downgrade(&following));
        let number = self.added.fetch_add(1, Ordering::Relaxed);
        all.entry(resource.plural.as_str().into()).or_default().push(Followed { group, number, following });
    }

    /// Those who follow one of these resources, in the order in which they came.
    fn of<'a>(&self, resources: &[Resource<'a>]) -> Vec<(Resource<'a>, Arc<dyn Following>)> {
        let all = self.all.read();
        let mut found = Vec::new();
        for resource in resources {
            let (group, plural) = *resource;
            let ours = all.get(plural).into_iter().flatten().filter(|followed| followed.group == group);
            found.extend(ours.filter_map(|it| Some((it.number, *resource, it.following.upgrade()?))));
        }
        found.sort_unstable_by_key(|(number, ..)| *number);
        found.into_iter().map(|(_, resource, following)| (resource, following)).collect()
    }
}

/// A layer for clients: notes what reconciles write.
#[derive(Clone)]
pub struct ReadYourWrites {
    progress: Arc<Progress>,
}

impl ReadYourWrites {
    pub(crate) fn new(progress: Arc<Progress>) -> ReadYourWrites {
        ReadYourWrites { progress }
    }
}

impl<S> Layer<S> for ReadYourWrites {
    type Service = Noting<S>;

    fn layer(&self, inner: S) -> Noting<S> {
        Noting { inner, progress: self.progress.clone() }
    }
}

/// A service whose answers to writes are looked at.
#[derive(Clone)]
pub struct Noting<S> {
    inner: S,
    progress: Arc<Progress>,
}

impl<S, B> Service<Request<Body>> for Noting<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !is_to_be_noted(&request) {
            return self.inner.call(request).map_ok(|response| response.map(Either::Left)).map_err(Into::into).boxed();
        }
        let (uri, progress) = (request.uri().clone(), self.progress.clone());
        let answered = self.inner.call(request);
        async move {
            let response = answered.await.map_err(Into::into)?;
            // Whoever asked polls this: the client's own worker only begins the call.
            let Ok(writes) = WRITES.try_with(Writes::clone) else { return Ok(response.map(Either::Left)) };
            if !response.status().is_success() {
                return Ok(response.map(Either::Left));
            }
            let (head, body) = response.into_parts();
            let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
            if let Some(answer) = Answer::read(&bytes) {
                let mut noted = writes.0.lock();
                let kept = progress.any_labels.load(Ordering::Relaxed);
                let kept = if kept { bytes.clone() } else { Bytes::new() };
                noted.notes.push(Note { uri, name: answer.name, answer: kept, what: answer.what });
                noted.progress = Some(progress);
            }
            Ok(Response::from_parts(head, Either::Right(Full::new(bytes))))
        }
        .boxed()
    }
}

/// Whether the answer to a request says what a cache will see. That of the deletion of a collection has a list's version,
/// which no event need have; and what is only tried out, nobody sees.
fn is_to_be_noted<B>(request: &Request<B>) -> bool {
    let uri = request.uri();
    let is_write = match *request.method() {
        Method::POST | Method::PUT | Method::PATCH => true,
        Method::DELETE => parts(uri.path()).is_some_and(|parts| !parts.name.is_empty()),
        _ => false,
    };
    is_write && !uri.query().is_some_and(|query| query.contains("dryRun"))
}

/// What there is to know of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    name: Option<Text>,
    what: What,
}

impl Answer {
    /// Reads no more than has to be: objects mostly begin with their metadata.
    fn read(json: &[u8]) -> Option<Answer> {
        let mut scan = Scan::new(json);
        let (mut is_status, mut name) = (false, None);
        scan.open(b'{')?;
        while let Some(field) = scan.field()? {
            match field {
                b"kind" => is_status = scan.text()? == b"Status",
                b"metadata" if !is_status => {
                    scan.open(b'{')?;
                    while let Some(field) = scan.field()? {
                        match field {
                            b"name" => name = str::from_utf8(scan.text()?).ok().map(Text::from),
                            b"resourceVersion" => {
                                let revision = str::from_utf8(scan.text()?).ok()?.parse().ok()?;
                                return Some(Answer { name, what: What::At(revision) });
                            }
                            _ => scan.skip()?,
                        }
                    }
                    return None;
                }
                b"details" if is_status => {
                    scan.open(b'{')?;
                    while let Some(field) = scan.field()? {
                        match field {
                            b"uid" => {
                                let uid = uid_hash(str::from_utf8(scan.text()?).ok()?);
                                return Some(Answer { name: None, what: What::Gone(uid) });
                            }
                            _ => scan.skip()?,
                        }
                    }
                    return None;
                }
                _ => scan.skip()?,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::api::{Api, DeleteParams, PostParams};

    use super::*;
    use crate::testing::Script;
    use crate::{Caches, Event, Item, Outcome, Queue};

    #[test]
    fn a_path_says_what_it_is_about() {
        let of = |path| parts(path).map(|it| (it.group, it.namespace, it.plural, it.name));
        assert_eq!(of("/api/v1/nodes/n"), Some(("", "", "nodes", "n")));
        assert_eq!(of("/api/v1/namespaces/n/pods"), Some(("", "n", "pods", "")));
        assert_eq!(of("/api/v1/namespaces/n/pods/p/status"), Some(("", "n", "pods", "p")));
        assert_eq!(of("/api/v1/namespaces/n/finalize"), Some(("", "", "namespaces", "n")));
        assert_eq!(of("/api/v1/namespaces"), Some(("", "", "namespaces", "")));
        assert_eq!(of("/apis/apps/v1/namespaces/n/deployments/d"), Some(("apps", "n", "deployments", "d")));
        assert_eq!(of("/version"), None);
    }

    #[test]
    fn only_what_caches_will_see_is_noted() {
        let noted =
            |method: &str, path: &str| is_to_be_noted(&Request::builder().method(method).uri(path).body(()).unwrap());
        assert!(noted("POST", "/api/v1/namespaces/n/pods?fieldManager=x") && noted("DELETE", "/api/v1/nodes/n"));
        assert!(!noted("GET", "/api/v1/nodes/n") && !noted("DELETE", "/api/v1/namespaces/n/pods?limit=1"));
        assert!(!noted("DELETE", "/api/v1/nodes/n?dryRun=All"));
    }

    #[test]
    fn an_answer_is_read_whatever_is_before_what_is_looked_for() {
        let at = |name: &str, revision| Some(Answer { name: Some(name.into()), what: What::At(revision) });
        let of = |text: &str| Answer::read(text.as_bytes());
        assert_eq!(of(r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"12"},"x":1}"#), at("a", 12));
        let odd = r#"{ "data": {"resourceVersion":"1", "a":[{"b":"}\\\"]"}, null, 1.5e3, true]}, "metadata" : {
            "annotations": {"resourceVersion":"2", "x":"{\"resourceVersion\":\"3\"}"}, "name": "b",
            "ownerReferences":[{"uid":"x"}], "resourceVersion":"13" } }"#;
        assert_eq!(of(odd), at("b", 13));
        let gone = r#"{"kind":"Status","metadata":{},"status":"Success","details":{"name":"a","uid":"u"}}"#;
        assert_eq!(of(gone), Some(Answer { name: None, what: What::Gone(uid_hash("u")) }));
        for nothing in
            [r#"{"kind":"Status","metadata":{},"status":"Success"}"#, "", "{", r#"{"metadata":{"#, "[1]", "{]"]
        {
            assert_eq!(of(nothing), None, "{nothing}");
        }
    }

    /// A server that says that everything was done.
    fn client(caches: &Caches, answer: &'static str) -> Client {
        let server = tower::service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(answer.as_bytes()))))
        });
        caches.client(server, "a")
    }

    fn map(revision: u64) -> Item {
        let json = r#"{"metadata":{"namespace":"a","name":"x"}}"#;
        Item { namespace: "a".into(), name: "x".into(), uid: "u".into(), revision, json: json.into() }
    }

    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    /// A reconcile writes, its key is added again, and no event has come yet: it has to wait.
    async fn begins_again_after(
        answer: &'static str,
        write: fn(Api<ConfigMap>) -> BoxFuture<'static, ()>,
        event: Event,
    ) {
        let source = Arc::new(Script::default());
        let caches = Caches::new(source.clone());
        let informer = caches.objects::<ConfigMap>();
        settle().await;
        source.tell("configmaps", Event::Listed(vec![map(5)]));
        informer.synced().await;
        let api: Api<ConfigMap> = Api::namespaced(client(&caches, answer), "a");
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let queue = Queue::new();
        queue.add("x");
        let running = tokio::spawn(crate::run("test", queue.clone(), 2, move |_| {
            let (api, said) = (api.clone(), said.clone());
            async move {
                said.send(()).map_err(|error| error.to_string())?;
                write(api).await;
                Ok::<_, String>(Outcome::Wrote)
            }
        }));
        heard.recv().await;
        queue.add("x");
        settle().await;
        source.tell("configmaps", Event::Applied(map(6)));
        settle().await;
        assert!(heard.try_recv().is_err(), "the caches do not have it yet");
        source.tell("configmaps", event);
        settle().await;
        assert!(heard.try_recv().is_ok());
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_done_when_the_caches_have_what_it_wrote() {
        let answer = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"8"}}"#;
        let create = |api: Api<ConfigMap>| {
            async move { drop(api.create(&PostParams::default(), &ConfigMap::default()).await.unwrap()) }.boxed()
        };
        begins_again_after(answer, create, Event::Applied(map(8))).await;
        begins_again_after(answer, create, Event::Progress(9)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_done_when_the_caches_no_longer_have_what_it_deleted() {
        let answer = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"uid":"u"}}"#;
        let delete =
            |api: Api<ConfigMap>| async move { drop(api.delete("x", &DeleteParams::default()).await.unwrap()) }.boxed();
        begins_again_after(answer, delete, Event::Deleted(map(7))).await;
        begins_again_after(answer, delete, Event::Applied(Item { uid: "another".into(), ..map(9) })).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_never_sees_it_holds_nothing_up_for_good() {
        let source = Arc::new(Script::default());
        let caches = Caches::new(source.clone());
        let informer = caches.objects::<ConfigMap>();
        settle().await;
        source.tell("configmaps", Event::Listed(vec![]));
        informer.synced().await;
        let answer = r#"{"metadata":{"name":"x","resourceVersion":"8"}}"#;
        let api: Api<ConfigMap> = Api::namespaced(client(&caches, answer), "a");
        followed_by_caches(async { drop(api.create(&PostParams::default(), &ConfigMap::default()).await) }).await;
    }
}
