//! What reviews of access say of nodes.

use bytes::Bytes;
use http::Method;
use rkube_machinery::{Value, json, object};

use crate::server::ApiServer;
use crate::test_server::{ask, server};

async fn make(server: &ApiServer, path: &str, object: &Value) -> Value {
    let body = Bytes::from(json::to_string(object));
    let (code, body) = ask(server, Method::POST, path, "application/json", body).await.unwrap();
    assert!(code.is_success(), "{path}: {}", String::from_utf8_lossy(&body));
    json::parse(&body).unwrap()
}

/// Whether the node may, and why not.
async fn review(server: &ApiServer, node: &str, attributes: Value) -> (bool, String) {
    let spec = object! {
        "user": format!("system:node:{node}"),
        "groups": vec![Value::from("system:nodes"), Value::from("system:authenticated")],
        "resourceAttributes": attributes,
    };
    let made = make(server, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &object! { "spec": spec }).await;
    let status = made.get("status");
    (status.bool("allowed"), status.str("reason").to_owned())
}

#[tokio::test]
async fn a_node_may_read_what_a_pod_needs_once_it_is_bound() {
    let server = server().await;
    let named = |name: &str| object! { "name": name };
    make(&server, "/api/v1/namespaces/default/serviceaccounts", &object! { "metadata": named("default") }).await;
    let volume = object! { "name": "s", "secret": object! { "secretName": "password" } };
    let container = object! { "name": "c", "image": "i" };
    let spec = object! { "containers": vec![container], "volumes": vec![volume] };
    make(&server, "/api/v1/namespaces/default/pods", &object! { "metadata": named("p"), "spec": spec }).await;
    let secret = || object! { "verb": "get", "resource": "secrets", "namespace": "default", "name": "password" };
    let unrelated = (false, "no relationship found between node 'n' and this object".to_owned());
    assert_eq!(review(&server, "n", secret()).await, unrelated);
    let binding = object! { "metadata": named("p"), "target": object! { "kind": "Node", "name": "n" } };
    make(&server, "/api/v1/namespaces/default/pods/p/binding", &binding).await;
    assert!(review(&server, "n", secret()).await.0);
    assert!(!review(&server, "m", secret()).await.0);
    let pods = |field_selector: &str| {
        let selector = object! { "rawSelector": field_selector };
        object! { "verb": "list", "resource": "pods", "fieldSelector": selector }
    };
    assert!(review(&server, "n", pods("spec.nodeName=n")).await.0);
    let all = (false, "can only list/watch pods with spec.nodeName field selector".to_owned());
    assert_eq!(review(&server, "n", pods("spec.nodeName=m")).await, all);
}
