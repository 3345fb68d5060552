//! An API server that is a map: enough for a kubelet.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use rkube_machinery::patch::{merge_patch, strategic};
use rkube_machinery::schema::TypeRef;
use rkube_machinery::{Value, json, object};
use rkube_operator::kube::Client;
use rkube_operator::kube::client::Body;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Discovered, Event, Item, Selection, Source};
use tokio::sync::mpsc;

/// Resource, namespace, name.
type Place = (String, String, String);

#[derive(Default)]
pub struct FakeApi {
    objects: Mutex<BTreeMap<Place, Value>>,
    revision: Mutex<u64>,
    watchers: Mutex<Vec<(String, mpsc::UnboundedSender<Event>)>>,
    events: Mutex<Vec<Value>>,
    /// Requests that change something, as `PATCH pods/p/status`.
    pub writes: Mutex<Vec<String>>,
    /// Nobody answers.
    pub is_down: Mutex<bool>,
}

impl FakeApi {
    pub fn put(&self, resource: &str, mut object: Value) {
        let revision = {
            let mut revision = self.revision.lock();
            *revision += 1;
            *revision
        };
        object.object_mut("metadata").set("resourceVersion", revision.to_string());
        self.objects.lock().insert(place(resource, &object), object.clone());
        self.tell(resource, Event::Applied(item(&object, revision)));
    }

    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.objects.lock().get(&(resource.to_owned(), namespace.to_owned(), name.to_owned())).cloned()
    }

    pub fn remove(&self, resource: &str, namespace: &str, name: &str) -> bool {
        let gone = self.objects.lock().remove(&(resource.to_owned(), namespace.to_owned(), name.to_owned()));
        let Some(object) = gone else { return false };
        let revision = *self.revision.lock() + 1;
        self.tell(resource, Event::Deleted(item(&object, revision)));
        true
    }

    pub fn events(&self, name: &str) -> Vec<Value> {
        let all = self.events.lock();
        all.iter().filter(|event| event.get("involvedObject").str("name") == name).cloned().collect()
    }

    fn tell(&self, resource: &str, event: Event) {
        self.watchers.lock().retain(|(of, sender)| of != resource || sender.send(event.clone()).is_ok());
    }

    pub fn client(self: &Arc<Self>) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body = json::parse(&body).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        if *self.is_down.lock() {
            return reply(StatusCode::SERVICE_UNAVAILABLE, object! {});
        }
        let parts_of: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let rest = if parts_of[0] == "api" { &parts_of[2..] } else { &parts_of[3..] };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, name) = (rest[0], rest.get(1).copied().unwrap_or_default());
        if resource == "events" {
            self.events.lock().push(body);
            return reply(StatusCode::CREATED, object! {});
        }
        if parts.method != Method::GET {
            self.writes.lock().push(format!("{} {}", parts.method, rest.join("/")));
        }
        let known = self.get(resource, namespace, name);
        match (parts.method, known) {
            (Method::POST, _) if self.get(resource, namespace, body.get("metadata").str("name")).is_some() => {
                reply(StatusCode::CONFLICT, object! {})
            }
            (Method::POST, _) => {
                let mut object = body;
                if object.get("metadata").str("uid").is_empty() {
                    let uid = format!("api-{}", object.get("metadata").str("name"));
                    object.object_mut("metadata").set("uid", uid);
                }
                self.put(resource, object.clone());
                reply(StatusCode::CREATED, object)
            }
            (_, None) => reply(StatusCode::NOT_FOUND, object! {}),
            (Method::GET, Some(object)) => reply(StatusCode::OK, object),
            (Method::DELETE, Some(object)) => {
                self.remove(resource, namespace, name);
                reply(StatusCode::OK, object)
            }
            (_, Some(object)) => {
                let strategic = parts
                    .headers
                    .get("content-type")
                    .is_some_and(|kind| kind.to_str().unwrap_or_default().contains("strategic"));
                let patched = patch(resource, &object, &body, strategic);
                self.put(resource, patched);
                reply(StatusCode::OK, self.get(resource, namespace, name).unwrap())
            }
        }
    }
}

fn patch(resource: &str, object: &Value, patch: &Value, is_strategic: bool) -> Value {
    let mut object = object.clone();
    match is_strategic {
        true => strategic::apply(patch, &object, type_of(resource)).unwrap(),
        false => {
            merge_patch::apply(patch, &mut object).unwrap();
            object
        }
    }
}

fn type_of(resource: &str) -> &'static rkube_machinery::schema::Type {
    let name = if resource == "pods" { "io.k8s.api.core.v1.Pod" } else { "io.k8s.api.core.v1.Node" };
    TypeRef::find(name).unwrap().get()
}

fn item(object: &Value, revision: u64) -> Item {
    let metadata = object.get("metadata");
    Item {
        namespace: metadata.str("namespace").into(),
        name: metadata.str("name").into(),
        uid: metadata.str("uid").into(),
        revision,
        json: json::to_string(object).into_bytes().into(),
    }
}

fn place(resource: &str, object: &Value) -> Place {
    let metadata = object.get("metadata");
    (resource.to_owned(), metadata.str("namespace").to_owned(), metadata.str("name").to_owned())
}

fn reply(status: StatusCode, object: Value) -> Response<Full<Bytes>> {
    let body = Full::new(Bytes::from(json::to_string(&object)));
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

impl Source for FakeApi {
    fn follow(&self, resource: &ApiResource, _: &Selection) -> BoxStream<'static, Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let all = self.objects.lock();
        let of_resource = all.iter().filter(|((of, ..), _)| *of == resource.plural);
        let listed = of_resource.map(|(_, object)| item(object, super::super::kubelet::revision(object))).collect();
        sender.send(Event::Listed(listed)).unwrap();
        self.watchers.lock().push((resource.plural.clone(), sender));
        futures::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
            .boxed()
    }

    fn discover(&self) -> BoxStream<'static, Vec<Discovered>> {
        futures::stream::pending().boxed()
    }

    fn resources(&self) -> BoxFuture<'static, Result<Vec<Discovered>, String>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}
