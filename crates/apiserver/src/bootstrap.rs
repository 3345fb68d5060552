//! What every cluster has from the start: its first namespaces and the `kubernetes` service. Made through the same road
//! as everything else, by the server itself.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use rkube_machinery::{Status, Value, json, object};

use crate::request::{User, UserRef};
use crate::server::ApiServer;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

const PRIORITY_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub async fn run(server: &ApiServer) -> Result<(), Status> {
    let user: UserRef = Arc::new(User {
        name: "system:apiserver".into(),
        groups: vec!["system:authenticated".into(), "system:masters".into()],
        ..User::default()
    });
    let namespaces = NAMESPACES.iter().map(|name| {
        let namespace = object! { "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": *name } };
        create(server, &user, "/api/v1/namespaces", name, namespace)
    });
    try_join_all(namespaces).await?;
    if server.resources.find("scheduling.k8s.io", "v1", "priorityclasses").is_some() {
        let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
        let classes = PRIORITY_CLASSES.iter().map(|(name, value, description)| {
            let class = object! {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": object! { "name": *name },
                "value": *value,
                "description": *description,
            };
            create(server, &user, path, name, class)
        });
        try_join_all(classes).await?;
    }
    create(server, &user, "/api/v1/namespaces/default/services", "kubernetes", kubernetes_service(server)).await
}

fn kubernetes_service(server: &ApiServer) -> Value {
    let labels = object! { "component": "apiserver", "provider": "kubernetes" };
    let port = object! { "name": "https", "protocol": "TCP", "port": 443, "targetPort": i64::from(server.advertise.1) };
    let address = server.allocation.first_address();
    object! {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object! { "name": "kubernetes", "labels": labels },
        "spec": object! {
            "clusterIP": address.as_str(),
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ports": vec![port],
        },
    }
}

/// Makes the object unless it is there.
async fn create(server: &ApiServer, user: &UserRef, path: &str, name: &str, object: Value) -> Result<(), Status> {
    let found = ask(server, user, Method::GET, &format!("{path}/{name}"), Bytes::new()).await?;
    if found.0 == StatusCode::OK {
        return Ok(());
    }
    let (code, body) = ask(server, user, Method::POST, path, json::to_string(&object).into()).await?;
    match code {
        StatusCode::CREATED | StatusCode::CONFLICT => Ok(()),
        _ => Err(Status::internal(format!("{path}/{name}: {}", String::from_utf8_lossy(&body)))),
    }
}

async fn ask(
    server: &ApiServer,
    user: &UserRef,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), Status> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "kube-apiserver")
        .body(Full::new(body))
        .map_err(|error| Status::internal(error.to_string()))?;
    let answer = server.handle(request, Some(user)).await;
    let code = answer.status();
    let body = answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Ok((code, body))
}
