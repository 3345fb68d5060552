//! What every cluster has from the start: its first namespaces, the range of service addresses and
//! the `kubernetes` service. Made through the same road as everything else, by the server itself.

use bytes::Bytes;
use futures::future::{try_join, try_join_all};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use rkube_machinery::{Status, Value, json, object, time};

use crate::allocation::DEFAULT_RANGE;
use crate::registry::AGENT;
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

const SERVICE_CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const SERVICE_CIDR_CONTROLLER: &str = "kubernetes-service-cidr-controller";

pub async fn run(server: &ApiServer) -> Result<(), Status> {
    let namespaces = NAMESPACES.iter().map(|name| {
        let namespace = object! { "apiVersion": "v1", "kind": "Namespace", "metadata": object! { "name": *name } };
        create(server, "/api/v1/namespaces", name, namespace)
    });
    try_join(try_join_all(namespaces), try_join(priority_classes(server), service_addresses(server))).await?;
    if server.resources.find("networking.k8s.io", "v1", "ipaddresses").is_none() {
        tracing::warn!("no service can have an address: networking.k8s.io/v1 is not served");
        return Ok(());
    }
    create(server, "/api/v1/namespaces/default/services", "kubernetes", kubernetes_service(server)).await
}

async fn priority_classes(server: &ApiServer) -> Result<(), Status> {
    if server.resources.find("scheduling.k8s.io", "v1", "priorityclasses").is_none() {
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

/// The range of service addresses that flags ask for, ready to be taken from.
async fn service_addresses(server: &ApiServer) -> Result<(), Status> {
    if server.resources.find("networking.k8s.io", "v1", "servicecidrs").is_none() {
        return Ok(());
    }
    let cidr = server.allocation.default_cidr();
    let range = object! {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": object! { "name": DEFAULT_RANGE },
        "spec": object! { "cidrs": vec![Value::from(cidr)] },
    };
    create(server, SERVICE_CIDRS, DEFAULT_RANGE, range).await?;
    let path = format!("{SERVICE_CIDRS}/{DEFAULT_RANGE}");
    let (_, body) = ask(server, Method::GET, &path, "", Bytes::new()).await?;
    let found = json::parse(&body).unwrap_or_default();
    let cidrs = found.get("spec").list("cidrs");
    if !matches!(cidrs, [only] if only.as_str() == cidr) {
        tracing::warn!(flag = cidr, stored = json::to_string(found.get("spec")), "the default ServiceCIDR differs");
        return Ok(());
    }
    let is_known = found.get("status").list("conditions").iter().any(|one| one.str("type") == "Ready");
    if is_known || found.get("metadata").has("deletionTimestamp") {
        return Ok(());
    }
    let condition = object! {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": time::format_seconds(server.clock.now_seconds()),
        "message": "Kubernetes default Service CIDR is ready",
    };
    let status = object! {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": object! { "name": DEFAULT_RANGE },
        "status": object! { "conditions": vec![condition] },
    };
    let path = format!("{path}/status?fieldManager={SERVICE_CIDR_CONTROLLER}&force=true");
    let apply = "application/apply-patch+yaml";
    let (code, body) = ask(server, Method::PATCH, &path, apply, json::to_string(&status).into()).await?;
    if code.is_success() { Ok(()) } else { Err(failed(&path, &body)) }
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

fn failed(path: &str, body: &[u8]) -> Status {
    Status::internal(format!("{path}: {}", String::from_utf8_lossy(body)))
}

async fn ask(
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
