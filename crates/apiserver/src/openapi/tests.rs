//! Documents while definitions come, change and go, on a whole server.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};

use super::*;
use crate::server::ApiServer;
use crate::test_server::{ask, server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of `<plural>.<group>` with these versions, described so.
fn definition(group: &str, plural: &str, versions: &[&str], description: &str) -> Value {
    let version = |(place, name): (usize, &&str)| {
        format!(
            r#"{{"name":"{name}","served":true,"storage":{},"schema":{{"openAPIV3Schema":{{"type":"object",
                "properties":{{"spec":{{"type":"object","description":"{description} {name}"}}}}}}}}}}"#,
            place == 0
        )
    };
    let versions: Vec<String> = versions.iter().enumerate().map(version).collect();
    let text = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
            "metadata":{{"name":"{plural}.{group}"}},
            "spec":{{"group":"{group}","scope":"Namespaced",
                "names":{{"plural":"{plural}","singular":"{plural}","kind":"Kind{plural}","listKind":"Kind{plural}List"}},
                "versions":[{}]}}}}"#,
        versions.join(",")
    );
    json::parse(text.as_bytes()).unwrap()
}

/// Creates or replaces the definition, and waits until it is served.
async fn define(server: &ApiServer, definition: &Value) {
    let name = definition.get("metadata").str("name");
    let path = format!("{DEFINITIONS}/{name}");
    let mut definition = definition.clone();
    let before = served(server, name);
    let (method, at, code) = match &before {
        Some(_) => {
            let live = get(server, &path).await;
            let version = live.get("metadata").get("resourceVersion").clone();
            definition.object_mut("metadata").set("resourceVersion", version);
            (Method::PUT, path.as_str(), StatusCode::OK)
        }
        None => (Method::POST, DEFINITIONS, StatusCode::CREATED),
    };
    let body = json::to_string(&definition).into();
    let answer = ask(server, method, at, "application/json", body).await.unwrap();
    assert_eq!(answer.0, code, "{:?}", answer.1);
    until(async || {
        let conditions = get(server, &path).await.get("status").list("conditions").to_vec();
        let established = conditions.iter().any(|one| one.str("type") == "Established" && one.str("status") == "True");
        let now = served(server, name);
        established && now.is_some_and(|now| before.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &now)))
    })
    .await;
}

/// Deletes the definition and waits until nothing of it is served.
async fn undefine(server: &ApiServer, name: &str) {
    let path = format!("{DEFINITIONS}/{name}");
    let answer = ask(server, Method::DELETE, &path, "", Bytes::new()).await.unwrap();
    assert_eq!(answer.0, StatusCode::OK, "{:?}", answer.1);
    until(async || served(server, name).is_none()).await;
}

/// A kind that is served of the definition of this name.
fn served(server: &ApiServer, name: &str) -> Option<Arc<Kind>> {
    let (plural, group) = name.split_once('.').unwrap();
    let catalog = server.road.catalog.snapshot();
    catalog.all().iter().find(|served| served.kind.is(group, plural)).map(|served| served.kind.clone())
}

async fn until(condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("the server does what definitions ask for");
}

async fn fetch(server: &ApiServer, path: &str, accept: &str, etag: &str) -> (StatusCode, String, Bytes) {
    let request = Request::builder().uri(path).header(header::ACCEPT, accept).header(header::IF_NONE_MATCH, etag);
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let answer = server.handle(request, Some(&server.road.registry.itself)).await;
    let code = answer.status();
    let etag = answer.headers().get(header::ETAG).map(|etag| etag.to_str().unwrap().to_owned()).unwrap_or_default();
    (code, etag, answer.into_body().collect().await.unwrap().to_bytes())
}

async fn get(server: &ApiServer, path: &str) -> Value {
    let (code, _, body) = fetch(server, path, "application/json", "").await;
    assert_eq!(code, StatusCode::OK, "{path}: {body:?}");
    json::parse(&body).unwrap()
}

/// The URL in the index of every document.
async fn index(server: &ApiServer) -> BTreeMap<String, String> {
    let index = get(server, "/openapi/v3").await;
    let entry =
        |(path, entry): (&rkube_machinery::Text, &Value)| (path.to_string(), entry.str("serverRelativeURL").to_owned());
    index.map("paths").iter().map(entry).collect()
}

#[tokio::test]
async fn documents_follow_the_definitions() {
    let server = server().await;
    let before = index(&server).await;
    assert!(before.contains_key("api/v1") && before.contains_key("apis/apps"));
    define(&server, &definition("example.com", "as", &["v1"], "first")).await;
    define(&server, &definition("example.com", "bs", &["v1", "v2"], "other")).await;

    let with = index(&server).await;
    let came: Vec<&str> = with.keys().filter(|path| !before.contains_key(*path)).map(String::as_str).collect();
    assert_eq!(came, ["apis/example.com/v1", "apis/example.com/v2"]);
    assert!(before.iter().all(|(path, url)| with[path] == *url));
    let document = get(&server, &with["apis/example.com/v1"]).await;
    assert!(document.get("paths").has("/apis/example.com/v1/namespaces/{namespace}/as/{name}"));
    let schemas = document.at(&["components", "schemas"]);
    for name in ["com.example.v1.Kindas", "com.example.v1.KindasList", "com.example.v1.Kindbs"] {
        assert!(schemas.has(name), "{name}");
    }
    for name in ["ObjectMeta", "ListMeta", "DeleteOptions", "Patch", "Status", "ManagedFieldsEntry"] {
        assert!(schemas.has(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")), "{name}");
    }
    assert!(!schemas.has("io.k8s.api.autoscaling.v1.Scale"));

    // A description alone is a change, of one document.
    define(&server, &definition("example.com", "as", &["v1"], "second")).await;
    let changed = index(&server).await;
    assert_ne!(changed["apis/example.com/v1"], with["apis/example.com/v1"]);
    assert_eq!(changed["apis/example.com/v2"], with["apis/example.com/v2"]);
    let document = get(&server, "/openapi/v3/apis/example.com/v1").await;
    let spec = document.at(&["components", "schemas", "com.example.v1.Kindas", "properties", "spec"]);
    assert_eq!(spec.str("description"), "second v1");

    undefine(&server, "bs.example.com").await;
    undefine(&server, "as.example.com").await;
    assert_eq!(index(&server).await, before);
    let (code, ..) = fetch(&server, "/openapi/v3/apis/example.com/v1", "", "").await;
    assert_eq!(code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn swagger_has_what_is_served() {
    const PATH: &str = "/apis/example.com/v1/namespaces/{namespace}/as";
    let server = server().await;
    let protobuf = documents::V2_PROTOBUF_ACCEPTED[0];
    let before = get(&server, "/openapi/v2").await;
    assert!(before.get("paths").has("/api/v1/pods") && !before.get("paths").has(PATH));
    let (_, _, binary_before) = fetch(&server, "/openapi/v2", protobuf, "").await;

    define(&server, &definition("example.com", "as", &["v1"], "first")).await;
    define(&server, &definition("example.com", "bs", &["v1", "v2"], "other")).await;
    let document = get(&server, "/openapi/v2").await;
    assert_eq!(document.map("definitions").len(), before.map("definitions").len() + 6);
    assert!(document.get("paths").has(PATH));
    let (_, etag, binary) = fetch(&server, "/openapi/v2", protobuf, "").await;
    assert!(binary.len() > binary_before.len());
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has(&binary, "com.example.v1.KindasList") && !has(&binary_before, "com.example.v1.KindasList"));

    // Until something changes there is nothing new.
    let (code, again, body) = fetch(&server, "/openapi/v2", protobuf, &etag).await;
    assert_eq!((code, again.as_str(), body.len()), (StatusCode::NOT_MODIFIED, etag.as_str(), 0));
    define(&server, &definition("example.com", "as", &["v1"], "second")).await;
    let (code, changed, _) = fetch(&server, "/openapi/v2", protobuf, &etag).await;
    assert_eq!((code, changed == etag), (StatusCode::OK, false));
    undefine(&server, "as.example.com").await;
    undefine(&server, "bs.example.com").await;
    assert_eq!(get(&server, "/openapi/v2").await, before);
}

/// What was made is not made again: built-in parts never, custom ones only where the definition changed.
#[tokio::test]
async fn a_change_costs_its_own_part() {
    let server = server().await;
    define(&server, &definition("example.com", "as", &["v1"], "first")).await;
    define(&server, &definition("example.com", "bs", &["v1"], "other")).await;
    let parts = |form: Form| {
        let (server, catalog) = (&server, server.road.catalog.snapshot());
        let wanted = match form {
            Form::V3 => server.road.pages.openapi.v3(&catalog, "apis/example.com/v1").unwrap(),
            _ => server.road.pages.openapi.v2(&catalog, form),
        };
        async move { server.road.pages.openapi.make(&wanted).await.unwrap() }
    };
    for form in [Form::V3, Form::V2Json, Form::V2Protobuf] {
        let first = parts(form).await;
        let wanted = |catalog: &Snapshot| match form {
            Form::V3 => server.road.pages.openapi.v3(catalog, "apis/example.com/v1").unwrap(),
            _ => server.road.pages.openapi.v2(catalog, form),
        };
        assert!(server.road.pages.openapi.find(&wanted(&server.road.catalog.snapshot())).is_some());
        define(&server, &definition("example.com", "as", &["v1"], &format!("{form:?}"))).await;
        assert!(server.road.pages.openapi.find(&wanted(&server.road.catalog.snapshot())).is_none());
        let second = parts(form).await;
        let same: Vec<bool> = first.iter().zip(&second).map(|(first, second)| Arc::ptr_eq(first, second)).collect();
        assert_eq!(same, [true, false, true], "{form:?}");
    }
}

/// Custom kinds in a group version of built-in ones stand beside them.
#[tokio::test]
async fn a_group_version_may_have_kinds_of_both_sorts() {
    let server = server().await;
    let path = "apis/networking.k8s.io/v1";
    let before = index(&server).await;
    let mut definition = definition("networking.k8s.io", "as", &["v1"], "first");
    let annotations = rkube_machinery::object! { "api-approved.kubernetes.io": "unapproved, a test" };
    definition.object_mut("metadata").set("annotations", annotations);
    define(&server, &definition).await;
    let with = index(&server).await;
    assert_ne!(with[path], before[path]);
    assert_eq!(with.len(), before.len());
    let document = get(&server, &with[path]).await;
    assert!(document.get("paths").has("/apis/networking.k8s.io/v1/ingresses"));
    assert!(document.get("paths").has("/apis/networking.k8s.io/v1/as"));
    assert!(document.at(&["components", "schemas"]).has("io.k8s.api.autoscaling.v1.Scale"));
}

/// Many who ask at once are all answered, with documents that are whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ask_while_definitions_change() {
    let server = server().await;
    let asking: Vec<_> = (0..20)
        .map(|number| {
            let server = server.clone();
            tokio::spawn(async move {
                for _ in 0..3 {
                    match number % 2 {
                        0 => drop(get(&server, "/openapi/v2").await),
                        _ => drop(get(&server, "/openapi/v3").await),
                    }
                }
            })
        })
        .collect();
    for round in 0..10 {
        let versions: Vec<String> = (1..=10).map(|number| format!("v{number}")).collect();
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        define(&server, &definition("example.com", "as", &versions, &round.to_string())).await;
        let document = get(&server, "/openapi/v3/apis/example.com/v7").await;
        let spec = document.at(&["components", "schemas", "com.example.v7.Kindas", "properties", "spec"]);
        assert_eq!(spec.str("description"), format!("{round} v7"));
    }
    for asking in asking {
        asking.await.unwrap();
    }
}
