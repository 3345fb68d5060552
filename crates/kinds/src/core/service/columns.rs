//! What a table says of a service.

use rkube_machinery::Value;

use crate::columns::{NONE, UNKNOWN, labels, or};
use crate::fields::texts;

pub fn cluster_ip(service: &Value, _now: i64) -> Value {
    texts(service.get("spec"), "clusterIPs").next().unwrap_or(NONE).into()
}

pub fn external_ip(service: &Value, _now: i64) -> Value {
    let spec = service.get("spec");
    let external = texts(spec, "externalIPs");
    match spec.str("type") {
        "ClusterIP" | "NodePort" => or(&join(external), NONE).into(),
        "LoadBalancer" => or(&join(balancer(service).into_iter().chain(external)), "<pending>").into(),
        "ExternalName" => spec.str("externalName").into(),
        _ => UNKNOWN.into(),
    }
}

pub fn ports(service: &Value, _now: i64) -> Value {
    let ports = service.get("spec").list("ports").iter().map(|port| {
        let (number, protocol) = (port.int("port"), port.str("protocol"));
        match port.int("nodePort") {
            ..=0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    });
    or(&ports.collect::<Vec<_>>().join(","), NONE).into()
}

pub fn selector(service: &Value, _now: i64) -> Value {
    labels(service.get("spec").map("selector")).into()
}

/// Where the load balancer listens, in order.
fn balancer(service: &Value) -> Vec<&str> {
    let ingress = service.at(&["status", "loadBalancer"]).list("ingress").iter();
    let mut places: Vec<&str> = ingress
        .map(|ingress| or(ingress.str("ip"), ingress.str("hostname")))
        .filter(|place| !place.is_empty())
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}
