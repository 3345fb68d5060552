//! What every cluster has from the start: its first namespaces, the range of service addresses and
//! the `kubernetes` service. Made through the same road as everything else, by the server itself.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, try_join, try_join_all};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use rkube_machinery::{Status, Value, json, object};

use crate::allocation::default_range::DefaultRange;
use crate::registry::AGENT;
use crate::server::ApiServer;
use crate::{default_roles, initial_config_maps};

/// How often to look whether something is missing.
const INTERVAL: Duration = Duration::from_secs(10);

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

pub async fn run(server: &ApiServer, range: &mut DefaultRange) -> Result<(), Status> {
    let namespaces = NAMESPACES.iter().map(|name| {
        let namespace = object! { "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": *name } };
        create(server, "/api/v1/namespaces", name, namespace)
    });
    try_join(try_join_all(namespaces), try_join(priority_classes(server), range.settle(server))).await?;
    if server.catalog.find("networking.k8s.io", "v1", "ipaddresses").is_none() {
        tracing::warn!("no service can have an address: networking.k8s.io/v1 is not served");
        return settle_defaults(server).await;
    }
    let (service, defaults) = join(create_kubernetes_service(server), settle_defaults(server)).await;
    defaults?;
    match service {
        // Its address is of the flags, which differ from what is stored: people have been told.
        Err(status) if range.differs() => {
            tracing::warn!(why = status.message, "there is no service `kubernetes`");
            Ok(())
        }
        made => made,
    }
}

/// What needs no address.
async fn settle_defaults(server: &ApiServer) -> Result<(), Status> {
    try_join(default_roles::settle(server), initial_config_maps::settle(server)).await.map(drop)
}

/// Makes the range of service addresses and the `kubernetes` service again should somebody remove them, until the server
/// is gone.
pub async fn keep(server: Weak<ApiServer>, mut range: DefaultRange) {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + INTERVAL, INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(server) = server.upgrade() else { return };
        let mut kept = range.settle(&server).await;
        if kept.is_ok() && server.catalog.find("networking.k8s.io", "v1", "ipaddresses").is_some() {
            kept = create_kubernetes_service(&server).await;
        }
        let kept = kept.and(initial_config_maps::settle(&server).await);
        if let Err(status) = kept {
            tracing::warn!(why = status.message, "something that every cluster has is missing");
        }
    }
}

async fn create_kubernetes_service(server: &ApiServer) -> Result<(), Status> {
    create(server, "/api/v1/namespaces/default/services", "kubernetes", kubernetes_service(server)).await
}

async fn priority_classes(server: &ApiServer) -> Result<(), Status> {
    if server.catalog.find("scheduling.k8s.io", "v1", "priorityclasses").is_none() {
        return Ok(());
    }
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let classes = PRIORITY_CLASSES.iter().map(|(name, value, description)| {
        let class = object! {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": object! { "name": *name },
            "value": *value,
            "description": *description,
        };
        create(server, path, name, class)
    });
    try_join_all(classes).await.map(drop)
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
            "ipFamilyPolicy": "SingleStack",
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ports": vec![port],
        },
    }
}

/// Makes the object unless it is there.
async fn create(server: &ApiServer, path: &str, name: &str, object: Value) -> Result<(), Status> {
    let found = ask(server, Method::GET, &format!("{path}/{name}"), "", Bytes::new()).await?;
    if found.0 == StatusCode::OK {
        return Ok(());
    }
    let (code, body) = ask(server, Method::POST, path, "application/json", json::to_string(&object).into()).await?;
    match code {
        StatusCode::CREATED | StatusCode::CONFLICT => Ok(()),
        _ => Err(failed(&format!("{path}/{name}"), &body)),
    }
}

/// An answer that should not be.
pub fn failed(path: &str, body: &[u8]) -> Status {
    let answer = json::parse(body).unwrap_or_default();
    let why = match answer.str("message") {
        "" => String::from_utf8_lossy(body),
        message => message.into(),
    };
    Status::internal(format!("{path}: {why}"))
}

/// Sends a request of the server's own.
pub async fn ask(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), Status> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::USER_AGENT, AGENT)
        .body(Full::new(body))
        .map_err(|error| Status::internal(error.to_string()))?;
    let answer = server.handle(request, Some(&server.itself)).await;
    let code = answer.status();
    let body = answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Ok((code, body))
}
