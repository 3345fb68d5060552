//! What metrics say of a request.

use http::StatusCode;
use rkube_catalog::Served;

use super::incoming::Incoming;
use crate::metrics::{Key, Metrics};
use crate::request::{RequestInfo, Target};

pub fn run(metrics: &Metrics, incoming: &Incoming<'_>, code: StatusCode, micros: u64) {
    let Incoming { catalog, info, .. } = *incoming;
    let served = catalog.find(&info.group, &info.version, &info.resource);
    let Some(served) = served.filter(|_| info.target == Target::Resource) else { return };
    metrics.observe(key_of(served, info, code), micros);
}

fn key_of(served: &Served, info: &RequestInfo, code: StatusCode) -> Key {
    let kind = &served.kind;
    let subresource = kind.subresources.iter().find(|part| part.name == info.subresource).map_or("", |part| part.name);
    let verb = match info.verb.as_ref() {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "list" => "LIST",
        "watch" => "WATCH",
        _ => "GET",
    };
    let scope = match (info.name.is_empty(), info.namespace.is_empty()) {
        (false, _) => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    };
    Key {
        verb,
        group: kind.group.clone(),
        version: kind.version.clone(),
        resource: kind.resource.clone(),
        subresource,
        scope,
        code: code.as_u16(),
    }
}
