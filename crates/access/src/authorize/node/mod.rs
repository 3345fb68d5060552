//! The node authorizer: a node may do what it needs for itself and for the pods that are bound to it, and no more.
//!
//! What a node may read follows from its pods: their ConfigMaps, Secrets, claims, the volumes behind these, and their service
//! accounts, of which it may have tokens. What it may write of its own objects is looked at by the admission plugin
//! NodeRestriction, which sees them. Nothing is ever refused by this member, only not allowed: roles may say more.

mod index;
pub mod references;
mod rules;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rkube_catalog::{Resource, Snapshot};
use rkube_machinery::Value;
use rkube_machinery::field::quote;
use rkube_machinery::selector::fields::{Operator, Selector};

use super::{Attributes, Authorizer, Decision, ResourceAttributes, Rules};
use crate::User;
use index::Pods;
use references::Kind;

const NODE_LEASES: &str = "kube-node-lease";

pub struct NodeAuthorizer {
    pods: Option<Pods>,
    claims: Option<Arc<Resource>>,
    volumes: Option<Arc<Resource>>,
    attachments: Option<Arc<Resource>>,
    slices: Option<Arc<Resource>>,
    /// Where they are served.
    certificate_requests: Option<Arc<Resource>>,
}

/// Why something is not allowed.
enum Why {
    /// Nothing is said.
    Silent,
    Words(&'static str),
    NoRelation,
    UnknownNode,
    OtherNode,
    AllNodes,
    OtherNamespace,
    CertificateRequest,
}

impl NodeAuthorizer {
    pub fn new(catalog: &Snapshot) -> NodeAuthorizer {
        let of = |group: &str, version: &str, resource: &str| catalog.resource(group, version, resource);
        NodeAuthorizer {
            pods: of("", "v1", "pods").and_then(Pods::new),
            claims: of("", "v1", "persistentvolumeclaims"),
            volumes: of("", "v1", "persistentvolumes"),
            attachments: of("storage.k8s.io", "v1", "volumeattachments"),
            slices: of("resource.k8s.io", "v1", "resourceslices"),
            certificate_requests: of("certificates.k8s.io", "v1beta1", "podcertificaterequests"),
        }
    }

    fn judge(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), Why> {
        let Some(node) = user.node() else { return Err(Why::Silent) };
        if node.is_empty() {
            return Err(Why::UnknownNode);
        }
        let Attributes::Resource(asked) = attributes else { return Err(Why::Silent) };
        match (asked.group, asked.resource) {
            ("", "secrets") => self.reads(node, Kind::Secret, asked),
            ("", "configmaps") => self.reads(node, Kind::ConfigMap, asked),
            ("", "persistentvolumeclaims") if asked.subresource == "status" => match asked.verb {
                "update" | "patch" => relates(asked, || self.refers(node, Kind::Claim, asked)),
                _ => Err(Why::Words("can only get/update/patch this type")),
            },
            ("", "persistentvolumeclaims") => gets(asked, || self.refers(node, Kind::Claim, asked)),
            ("", "persistentvolumes") => gets(asked, || self.has_volume(node, asked.name)),
            ("resource.k8s.io", "resourceclaims") => gets(asked, || self.refers(node, Kind::ResourceClaim, asked)),
            ("storage.k8s.io", "volumeattachments") => gets(asked, || is_of(node, self.attachments.as_ref(), asked)),
            ("", "serviceaccounts") => self.account(node, asked),
            ("coordination.k8s.io", "leases") => lease(node, asked),
            ("storage.k8s.io", "csinodes") => csi_node(node, asked),
            ("resource.k8s.io", "resourceslices") => self.slice(node, asked),
            ("", "nodes") => node_object(node, asked),
            ("", "pods") => self.pod(node, asked),
            ("certificates.k8s.io", "podcertificaterequests") => self.certificate_request(node, asked),
            _ if rules::allow(attributes) => Ok(()),
            _ => Err(Why::Silent),
        }
    }

    /// `get`, or a list or a watch of one object.
    fn reads(&self, node: &str, kind: Kind, asked: &ResourceAttributes<'_>) -> Result<(), Why> {
        if !matches!(asked.verb, "get" | "list" | "watch") {
            return Err(Why::Words("can only read resources of this type"));
        }
        if !asked.subresource.is_empty() {
            return Err(Why::Words("cannot read subresource"));
        }
        if asked.namespace.is_empty() {
            return Err(Why::Words("can only read namespaced object of this type"));
        }
        relates(asked, || {
            self.refers(node, kind, asked) || (kind == Kind::Secret && self.volumes_have_secret(node, asked))
        })
    }

    fn account(&self, node: &str, asked: &ResourceAttributes<'_>) -> Result<(), Why> {
        if asked.verb == "get" && asked.subresource.is_empty() {
            return self.reads(node, Kind::ServiceAccount, asked);
        }
        if asked.verb != "create" || asked.name.is_empty() {
            return Err(Why::Words("can only create tokens for individual service accounts"));
        }
        if asked.subresource != "token" {
            return Err(Why::Words("can only create token subresource of serviceaccount"));
        }
        relates(asked, || self.refers(node, Kind::ServiceAccount, asked))
    }

    fn pod(&self, node: &str, asked: &ResourceAttributes<'_>) -> Result<(), Why> {
        let is_on_it = || self.pods.as_ref().is_some_and(|pods| pods.has(node, asked.namespace, asked.name));
        match (asked.subresource, asked.verb) {
            ("", "get") => relates(asked, is_on_it),
            ("", "list" | "watch") if selects(asked, "spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if !asked.name.is_empty() => relates(asked, is_on_it),
            ("", "list" | "watch") => Err(Why::Words("can only list/watch pods with spec.nodeName field selector")),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(Why::Silent),
        }
    }

    fn slice(&self, node: &str, asked: &ResourceAttributes<'_>) -> Result<(), Why> {
        if !asked.subresource.is_empty() {
            return Err(Why::Words("cannot authorize ResourceSlice subresources"));
        }
        match asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => relates(asked, || is_of(node, self.slices.as_ref(), asked)),
            "watch" | "list" | "deletecollection" if selects(asked, "spec.nodeName", node) => Ok(()),
            "watch" | "list" | "deletecollection" => {
                Err(Why::Words("can only list/watch/deletecollection resourceslices with nodeName field selector"))
            }
            _ => Err(Why::Words(
                "only the following verbs are allowed for a ResourceSlice: \
                 get, watch, list, create, update, patch, delete, deletecollection",
            )),
        }
    }

    fn certificate_request(&self, node: &str, asked: &ResourceAttributes<'_>) -> Result<(), Why> {
        let Some(requests) = &self.certificate_requests else { return Err(Why::Silent) };
        if !asked.subresource.is_empty() {
            return Err(Why::Words("nodes may not access the status subresource of PodCertificateRequests"));
        }
        match asked.verb {
            "create" => Ok(()),
            "get" => relates(asked, || is_of(node, Some(requests), asked)),
            "list" | "watch" if selects(asked, "spec.nodeName", node) => Ok(()),
            "list" | "watch" => {
                Err(Why::Words("can only list/watch podcertificaterequests with nodeName field selector"))
            }
            _ => Err(Why::CertificateRequest),
        }
    }

    /// Whether a pod on the node refers to the object.
    fn refers(&self, node: &str, kind: Kind, asked: &ResourceAttributes<'_>) -> bool {
        let reference = (kind, asked.name.into());
        self.pods.as_ref().is_some_and(|pods| pods.refer(node, asked.namespace, &reference))
    }

    /// Whether the volume is bound to a claim that a pod on the node refers to.
    fn has_volume(&self, node: &str, name: &str) -> bool {
        let Some((pods, volumes)) = self.pods.as_ref().zip(self.volumes.as_ref()) else { return false };
        let Some(volume) = volumes.find("", name) else { return false };
        let claim = volume.object.tree().at(&["spec", "claimRef"]);
        let reference = (Kind::Claim, claim.str("name").into());
        !claim.is_null() && pods.refer(node, claim.str("namespace"), &reference)
    }

    /// Whether one of the volumes of the node's pods needs the secret.
    fn volumes_have_secret(&self, node: &str, asked: &ResourceAttributes<'_>) -> bool {
        let (Some(pods), Some(claims), Some(volumes)) = (&self.pods, &self.claims, &self.volumes) else { return false };
        pods.referred(node, Kind::Claim).iter().any(|(namespace, name)| {
            let Some(claim) = claims.find(namespace, name) else { return false };
            let claim = claim.object.tree();
            let Some(volume) = volumes.find("", claim.get("spec").str("volumeName")) else { return false };
            let volume = volume.object.tree();
            let bound = volume.at(&["spec", "claimRef"]);
            bound.str("namespace") == namespace
                && bound.str("name") == name
                && references::volume_has_secret(volume, asked.namespace, asked.name)
        })
    }
}

impl Authorizer for NodeAuthorizer {
    fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        match self.judge(user, attributes) {
            Ok(()) => Decision::Allow,
            Err(_) => Decision::NoOpinion,
        }
    }

    fn reason(&self, user: &User, attributes: &Attributes<'_>, _decision: Decision) -> String {
        let Err(why) = self.judge(user, attributes) else { return String::new() };
        let node = user.node().unwrap_or_default();
        let (name, verb) = match attributes {
            Attributes::Resource(asked) => (asked.name, asked.verb),
            Attributes::Path { .. } => ("", ""),
        };
        match why {
            Why::Silent => String::new(),
            Why::Words(words) => words.to_owned(),
            Why::NoRelation => format!("no relationship found between node '{node}' and this object"),
            Why::UnknownNode => format!("unknown node for user {}", quote(&user.name)),
            Why::OtherNode => format!("node '{node}' cannot read '{name}', only its own Node object"),
            Why::AllNodes => format!("node '{node}' cannot read all nodes, only its own Node object"),
            Why::OtherNamespace => format!("can only access leases in the {} system namespace", quote(NODE_LEASES)),
            Why::CertificateRequest => format!("nodes may not {verb} podcertificaterequests"),
        }
    }

    fn rules(&self, user: &User, _namespace: &str) -> Rules {
        if user.node().is_none() {
            return Rules::default();
        }
        let error = "node authorizer does not support user rule resolution".to_owned();
        Rules { is_incomplete: true, error, ..Rules::default() }
    }
}

/// One object that the node has to do with.
fn relates(asked: &ResourceAttributes<'_>, is_related: impl FnOnce() -> bool) -> Result<(), Why> {
    match asked.name {
        "" => Err(Why::Words("No Object name found")),
        _ if is_related() => Ok(()),
        _ => Err(Why::NoRelation),
    }
}

fn gets(asked: &ResourceAttributes<'_>, is_related: impl FnOnce() -> bool) -> Result<(), Why> {
    if asked.verb != "get" {
        return Err(Why::Words("can only get individual resources of this type"));
    }
    if !asked.subresource.is_empty() {
        return Err(Why::Words("cannot get subresource"));
    }
    relates(asked, is_related)
}

fn lease(node: &str, asked: &ResourceAttributes<'_>) -> Result<(), Why> {
    if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Err(Why::Words("can only get, create, update, patch, or delete a node lease"));
    }
    if asked.namespace != NODE_LEASES {
        return Err(Why::OtherNamespace);
    }
    // The name of what is created is not known here.
    if asked.verb != "create" && asked.name != node {
        return Err(Why::Words("can only access node lease with the same name as the requesting node"));
    }
    Ok(())
}

fn csi_node(node: &str, asked: &ResourceAttributes<'_>) -> Result<(), Why> {
    if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Err(Why::Words("can only get, create, update, patch, or delete a CSINode"));
    }
    if !asked.subresource.is_empty() {
        return Err(Why::Words("cannot authorize CSINode subresources"));
    }
    if asked.verb != "create" && asked.name != node {
        return Err(Why::Words("can only access CSINode with the same name as the requesting node"));
    }
    Ok(())
}

fn node_object(node: &str, asked: &ResourceAttributes<'_>) -> Result<(), Why> {
    match (asked.subresource, asked.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") => match asked.name {
            "" => Err(Why::AllNodes),
            name if name == node => Ok(()),
            _ => Err(Why::OtherNode),
        },
        _ => Err(Why::Silent),
    }
}

/// Whether only objects are asked for whose field has this value.
fn selects(asked: &ResourceAttributes<'_>, field: &str, value: &str) -> bool {
    // A selector that cannot be read selects nothing to be sure of; the request itself is refused for it later.
    let Ok(selector) = Selector::parse(asked.field_selector) else { return false };
    let mut all = selector.requirements().iter();
    all.any(|one| one.field == field && one.operator == Operator::Equals && one.value == value)
}

/// Whether the object says that it is of this node.
fn is_of(node: &str, objects: Option<&Arc<Resource>>, asked: &ResourceAttributes<'_>) -> bool {
    let found = objects.and_then(|objects| objects.find(asked.namespace, asked.name));
    found.is_some_and(|entry| {
        let spec: &Value = entry.object.tree().get("spec");
        spec.str("nodeName") == node
    })
}
