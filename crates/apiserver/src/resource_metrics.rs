//! `metrics.k8s.io`: what nodes and pods use of CPU and memory, as whoever has the nodes says when asked. It is served, and
//! in discovery, only when there is somebody; nothing of it is stored or watched.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use rkube_catalog::{Entry, LabelMarks, Object, Resource, Snapshot};
use rkube_machinery::selector::{fields, labels};
use rkube_machinery::{GroupResource, Status, Value, object};

use crate::content::{Answer, Offer, Subject, accept, value_answer};
use crate::node_metrics::NodeMetrics;
use crate::nodes::Nodes;
use crate::request::{Query, RequestInfo};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
const VERBS: [&str; 2] = ["get", "list"];
/// Resource, kind, and whether it is in namespaces.
const RESOURCES: [(&str, &str, bool); 2] = [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)];

/// Whether a request is for this group, and the catalog has none of that name.
pub fn is_here(catalog: &Snapshot, group: &str, version: &str) -> bool {
    group == GROUP && version == VERSION && !catalog.has_group_version(GROUP, VERSION)
}

/// Who knows what nodes use: somebody in this process, the nodes themselves, or both.
#[derive(Default)]
pub struct Sources {
    pub nodes: Arc<Nodes>,
    /// Once somebody wants them to be asked.
    pub asked: OnceLock<Arc<NodeMetrics>>,
}

impl Sources {
    pub fn is_any(&self) -> bool {
        self.nodes.provider().is_some() || self.asked.get().is_some()
    }

    fn of_node(&self, node: &Object) -> Option<Value> {
        let provided = self.nodes.provider().and_then(|provider| provider.node_metrics(&node.name));
        provided.or_else(|| self.asked.get()?.node(node))
    }

    fn of_pod(&self, node: &str, pod: &Object) -> Option<Value> {
        let provided = self.nodes.provider().and_then(|provider| provider.pod_metrics(&pod.namespace, &pod.name));
        provided.or_else(|| self.asked.get()?.pod(node, pod))
    }

    /// What these use, of whom something is known.
    fn of_all(&self, resource: &Resource, wanted: &[Entry]) -> Vec<Value> {
        let is_node_name = |field: &str| field == "spec.nodeName";
        let place = resource.kind.selectable.labels().position(is_node_name);
        let found = wanted.iter().filter_map(|Entry { object, .. }| match place {
            Some(place) => self.of_pod(object.fields.get(place)?, object),
            None => self.of_node(object),
        });
        found.collect()
    }
}

pub fn answer(
    sources: &Sources,
    catalog: &Snapshot,
    info: &RequestInfo,
    query: &Query,
    accepts: &str,
) -> Result<Answer, Status> {
    let found = RESOURCES.iter().find(|(resource, _, namespaced)| {
        info.resource == *resource && info.subresource.is_empty() && (*namespaced || info.namespace.is_empty())
    });
    let (resource, kind, _) = found.ok_or_else(Status::no_such_page)?;
    if !VERBS.contains(&info.verb.as_ref()) {
        return Err(Status::method_not_allowed());
    }
    // The types have no form in protobuf here.
    let subject = if info.verb == "list" { Subject::List } else { Subject::Object };
    let accepted = accept(accepts, subject, Offer { tables: false, is_custom: true })?;
    // To find out what somebody uses costs much more than to see who is meant.
    let Some(objects) = catalog.resource("", "v1", resource) else { return Err(Status::no_such_page()) };
    let api_version = format!("{GROUP}/{VERSION}");
    let value = if info.verb == "get" {
        let missing = || {
            let name = match info.namespace.as_str() {
                "" => info.name.to_string(),
                namespace => format!("{namespace}/{}", info.name),
            };
            Status::not_found(&GroupResource::new(GROUP, kind.to_lowercase()), &name)
        };
        let object = objects.find(&info.namespace, &info.name);
        let found = sources.of_all(&objects, object.as_slice()).pop();
        let mut value = object! { "kind": *kind, "apiVersion": api_version };
        for (field, part) in found.ok_or_else(missing)?.as_map().iter() {
            value.set(field, part.clone());
        }
        value
    } else {
        let mut items = sources.of_all(&objects, &selected(&objects, &info.namespace, query)?);
        items.sort_by(|one, other| name_of(one).cmp(&name_of(other)));
        object! {
            "kind": format!("{kind}List"), "apiVersion": api_version, "metadata": Value::object(), "items": items,
        }
    };
    Ok(value_answer(StatusCode::OK, accepted, &value, None))
}

fn name_of(metrics: &Value) -> (&str, &str) {
    let metadata = metrics.get("metadata");
    (metadata.str("namespace"), metadata.str("name"))
}

/// The objects of a namespace, or of all, that are asked for.
fn selected(objects: &Resource, namespace: &str, query: &Query) -> Result<Vec<Entry>, Status> {
    let labels =
        labels::Selector::parse(&query.label_selector).map_err(|error| Status::bad_request(error.to_string()))?;
    let fields =
        fields::Selector::parse(&query.field_selector).map_err(|error| Status::bad_request(error.to_string()))?;
    let fits = |object: &Object| {
        let field = |name: &str| match name {
            "metadata.name" => Some(object.name.as_str()),
            "metadata.namespace" => Some(object.namespace.as_str()),
            _ => None,
        };
        labels.matches_pairs(|key| object.label(key)) && fields.matches(field)
    };
    Ok(objects.select_within(namespace, LabelMarks::wanted(&labels), fits))
}

/// `/apis/metrics.k8s.io`.
pub fn group_page(name: &str) -> Option<Value> {
    (name == GROUP).then(|| {
        let mut page = object! { "kind": "APIGroup", "apiVersion": "v1" };
        for (field, part) in group().as_map().iter() {
            page.set(field, part.clone());
        }
        page
    })
}

/// Adds the group to `/apis`.
pub fn add_group(list: &mut Value) {
    list.array_mut("groups").push(group());
}

fn group() -> Value {
    let version = object! { "groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION };
    object! { "name": GROUP, "versions": vec![version.clone()], "preferredVersion": version }
}

/// `/apis/metrics.k8s.io/v1beta1`.
pub fn resource_list() -> Value {
    let resources = RESOURCES.map(|(resource, kind, namespaced)| {
        object! {
            "name": resource, "singularName": "", "namespaced": namespaced, "kind": kind,
            "verbs": VERBS.map(Value::from).to_vec(),
        }
    });
    object! {
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": resources.to_vec(),
    }
}

/// Adds the group to the aggregated document of `/apis`.
pub fn add_aggregated(document: &mut Value) {
    let resources = RESOURCES.map(|(resource, kind, namespaced)| {
        object! {
            "resource": resource,
            "responseKind": object! { "group": GROUP, "version": VERSION, "kind": kind },
            "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": "",
            "verbs": VERBS.map(Value::from).to_vec(),
        }
    });
    let version = object! { "version": VERSION, "resources": resources.to_vec(), "freshness": "Current" };
    document.array_mut("items").push(object! { "metadata": object! { "name": GROUP }, "versions": vec![version] });
}
