//! What nobody should send: each is answered with the code and the reason that Kubernetes answers with, and the server
//! goes on.

use http::{Request, header};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use crate::start;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const KEPT: &str = "/api/v1/namespaces/default/configmaps/kept";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Method, path, content type, body; code and reason of the answer.
type Case = (&'static str, &'static str, &'static str, &'static str, u16, &'static str);

#[tokio::test]
async fn bodies() {
    let cases: &[Case] = &[
        ("POST", MAPS, JSON, r#"{"a":"#, 400, "BadRequest"),
        ("POST", MAPS, JSON, "[1]", 400, "BadRequest"),
        ("POST", MAPS, JSON, "", 400, "BadRequest"),
        ("POST", MAPS, YAML, "a: [b", 400, "BadRequest"),
        ("POST", MAPS, PROTOBUF, "garbage", 400, "BadRequest"),
        ("POST", MAPS, PROTOBUF, "k8s\0garbage", 400, "BadRequest"),
        ("POST", MAPS, "text/plain", "{}", 415, "UnsupportedMediaType"),
        ("POST", MAPS, JSON, r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#, 400, "BadRequest"),
        ("POST", MAPS, JSON, r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}"#, 400, "BadRequest"),
        ("POST", MAPS, JSON, r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"A_b"}}"#, 422, "Invalid"),
        ("POST", MAPS, JSON, r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#, 422, "Invalid"),
        ("POST", MAPS, JSON, r#"{"metadata":{"name":"a","namespace":"other"}}"#, 400, "BadRequest"),
        ("POST", MAPS, JSON, r#"{"metadata":{"name":"a"},"data":{"a":1}}"#, 400, "BadRequest"),
        ("PUT", KEPT, JSON, r#"{"metadata":{"name":"other"}}"#, 400, "BadRequest"),
        ("PUT", KEPT, JSON, r#"{"metadata":{"name":"kept","resourceVersion":"1"}}"#, 409, "Conflict"),
        ("PUT", KEPT, JSON, r#"{"metadata":{"name":"kept","uid":"other"}}"#, 409, "Conflict"),
        ("DELETE", KEPT, JSON, "{", 400, "BadRequest"),
        ("DELETE", KEPT, JSON, r#"{"preconditions":{"uid":"other"}}"#, 409, "Conflict"),
    ];
    ask_all(cases).await;
}

#[tokio::test]
async fn patches() {
    let cases: &[Case] = &[
        ("PATCH", KEPT, JSON, "{}", 415, "UnsupportedMediaType"),
        ("PATCH", KEPT, JSON_PATCH, "{}", 400, "BadRequest"),
        ("PATCH", KEPT, JSON_PATCH, r#"[{"op":"replace","path":"/data/q","value":"1"}]"#, 422, "Invalid"),
        ("PATCH", KEPT, JSON_PATCH, r#"[{"op":"test","path":"/metadata/name","value":"1"}]"#, 422, "Invalid"),
        ("PATCH", KEPT, MERGE_PATCH, "{", 400, "BadRequest"),
        ("PATCH", KEPT, MERGE_PATCH, r#"{"data":{"a":1}}"#, 422, "Invalid"),
        ("PATCH", KEPT, APPLY_PATCH, "apiVersion: v1\nkind: ConfigMap\n", 422, "Invalid"),
        ("PATCH", MANAGED, APPLY_PATCH, "a: [b", 400, "BadRequest"),
        ("PATCH", "/api/v1/namespaces/default/configmaps/absent", MERGE_PATCH, "{}", 404, "NotFound"),
    ];
    ask_all(cases).await;
}

const MANAGED: &str = "/api/v1/namespaces/default/configmaps/kept?fieldManager=m";

#[tokio::test]
async fn paths_and_parameters() {
    let list = |query: &'static str, code, reason| ("GET", query, "", "", code, reason);
    let cases: &[Case] = &[
        list("/api/v1/nopes", 404, "NotFound"),
        list("/api/v1/namespaces/default/configmaps/kept/scale", 404, "NotFound"),
        list("/api/v1/configmaps?labelSelector=a%20in%20(", 400, "BadRequest"),
        list("/api/v1/configmaps?labelSelector=-a%3Db", 400, "BadRequest"),
        list("/api/v1/configmaps?fieldSelector=data.x%3D1", 400, "BadRequest"),
        list("/api/v1/configmaps?fieldSelector=abc", 400, "BadRequest"),
        list("/api/v1/configmaps?continue=garbage", 400, "BadRequest"),
        list("/api/v1/configmaps?resourceVersionMatch=Exact", 422, "Invalid"),
        list("/api/v1/configmaps?resourceVersion=99999999", 504, "Timeout"),
        list("/api/v1/configmaps?sendInitialEvents=true", 422, "Invalid"),
        ("POST", MAPS, JSON, r#"{"metadata":{"name":"kept"}}"#, 409, "AlreadyExists"),
        ("POST", "/api/v1/namespaces/nope/configmaps", JSON, r#"{"metadata":{"name":"a"}}"#, 404, "NotFound"),
        ("DELETE", "/api/v1/namespaces/default", "", "", 403, "Forbidden"),
        ("DELETE", "/api/v1/namespaces/default/configmaps/kept?propagationPolicy=Foo", "", "", 422, "Invalid"),
    ];
    ask_all(cases).await;
}

#[tokio::test]
async fn sizes_and_depths() {
    let rkube = start();
    let client = connect(rkube.kubeconfig()).await;
    let map = |rest: &str| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},{rest}}}"#);
    let large = map(&format!(r#""data":{{"a":"{}"}}"#, "x".repeat(3 << 20)));
    assert_eq!(ask(&client, "POST", MAPS, JSON, large).await.0, 413);
    let over = map(&format!(r#""data":{{"a":"{}"}}"#, "x".repeat(3 << 19)));
    assert_eq!(ask(&client, "POST", MAPS, JSON, over).await, (422, "Invalid".to_owned()));
    let deep = map(&format!(r#""data":{}1{}"#, r#"{"a":"#.repeat(20_000), "}".repeat(20_000)));
    assert_eq!(ask(&client, "POST", MAPS, JSON, deep).await, (400, "BadRequest".to_owned()));
    assert_eq!(ask(&client, "GET", "/readyz", "", String::new()).await.0, 200);
}

async fn ask_all(cases: &[Case]) {
    let rkube = start();
    let client = connect(rkube.kubeconfig()).await;
    let kept = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept"}}"#;
    assert_eq!(ask(&client, "POST", MAPS, JSON, kept.to_owned()).await.0, 201);
    let before = text(&client, KEPT).await;
    let mut wrong = Vec::new();
    for (method, path, content_type, body, code, reason) in cases {
        let (found_code, found_reason) = ask(&client, method, path, content_type, (*body).to_owned()).await;
        if (found_code, found_reason.as_str()) != (*code, *reason) {
            wrong.push(format!("{method} {path} {body}: {found_code} {found_reason}, expected {code} {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(text(&client, KEPT).await, before, "nothing was half applied");
}

/// The code, and the reason of the `Status`.
async fn ask(client: &Client, method: &str, path: &str, content_type: &str, body: String) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path);
    if !content_type.is_empty() {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    let response = client.send(request.body(Body::from(body.into_bytes())).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    (code, status["reason"].as_str().unwrap_or_default().to_owned())
}

async fn text(client: &Client, path: &str) -> String {
    client.request_text(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

async fn connect(kubeconfig: &std::path::Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // What the server says is wanted, the first time.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}
