//! A new server has all of them, and a start restores what was taken from them.

use super::*;
use crate::server::ApiServer;
use crate::test_server::{self, ask};

async fn get(server: &ApiServer, path: &str) -> Value {
    let (code, body) = ask(server, Method::GET, path, "", Bytes::new()).await.unwrap();
    assert_eq!(code, StatusCode::OK, "{path}");
    json::parse(&body).unwrap()
}

async fn again(server: &ApiServer) -> Result<(), Status> {
    let registry = &server.road.registry;
    settle(&InternalClient::new(&server.road, registry.itself.clone()), registry).await
}

#[tokio::test]
async fn a_new_server_has_them() {
    let server = test_server::server().await;
    for (resource, count) in [("clusterroles", 69), ("clusterrolebindings", 50), ("roles", 7), ("rolebindings", 7)] {
        let list = get(&server, &format!("/apis/{GROUP}/v1/{resource}")).await;
        assert_eq!(list.list("items").len(), count, "{resource}");
    }
    let role = get(&server, &format!("/apis/{GROUP}/v1/clusterroles/admin")).await;
    // Nobody has summed it up yet.
    assert!(role.as_map().get("rules").is_some_and(Value::is_null));
    let role = get(&server, &format!("/apis/{GROUP}/v1/clusterroles/system:basic-user")).await;
    assert_eq!(role.get("metadata").list("managedFields")[0].str("manager"), "kube-apiserver");
}

#[tokio::test]
async fn what_was_taken_from_them_comes_back() {
    let server = test_server::server().await;
    let revision = server.road.registry.store.revision().await.unwrap();
    again(&server).await.unwrap();
    assert_eq!(server.road.registry.store.revision().await.unwrap(), revision, "there was nothing to do");

    let path = format!("/apis/{GROUP}/v1/clusterroles/system:discovery");
    let patch = Bytes::from_static(b"{\"rules\":[]}");
    let (code, _) = ask(&server, Method::PATCH, &path, "application/merge-patch+json", patch).await.unwrap();
    assert_eq!(code, StatusCode::OK);
    let binding = format!("/apis/{GROUP}/v1/clusterrolebindings/system:discovery");
    ask(&server, Method::DELETE, &binding, "", Bytes::new()).await.unwrap();
    let other = br#"{"metadata":{"name":"system:discovery"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}}"#;
    let all = format!("/apis/{GROUP}/v1/clusterrolebindings");
    let made = ask(&server, Method::POST, &all, "application/json", Bytes::from_static(other)).await.unwrap();
    assert_eq!(made.0, StatusCode::CREATED);
    let gone = format!("/apis/{GROUP}/v1/namespaces/kube-system/roles/system:controller:token-cleaner");
    ask(&server, Method::DELETE, &gone, "", Bytes::new()).await.unwrap();

    again(&server).await.unwrap();
    assert_eq!(get(&server, &path).await.list("rules").len(), 11);
    assert_eq!(get(&server, &binding).await.get("roleRef").str("name"), "system:discovery");
    get(&server, &gone).await;
}
