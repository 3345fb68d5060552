//! NodeRestriction: what a node writes is about itself and its pods.
//!
//! The node authorizer lets nodes write Nodes, Pods, leases and more without knowing what is in them; here they are seen.

// tidy: types Pod Node PersistentVolumeClaim Lease CSINode ResourceSlice CertificateSigningRequest Eviction

mod labels;
mod pods;
mod tokens;

use std::sync::Arc;

use base64::Engine as _;
use rkube_access::authorize::Authorizers;
use rkube_machinery::field::quote;
use rkube_machinery::{Status, Value, pem};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use crate::{Attributes, ImmediatePlugin, Objects, Operation};

const NODE_LEASES: &str = "kube-node-lease";
/// Whose requests must be for the node itself.
const NODE_SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

pub struct NodeRestriction {
    pub pods: Objects,
    pub nodes: Objects,
    pub accounts: Objects,
    pub claims: Objects,
    pub volumes: Objects,
    pub drivers: Objects,
    pub authorizers: Arc<Authorizers>,
}

impl ImmediatePlugin for NodeRestriction {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation != Operation::Connect && attributes.user.node().is_some()
    }

    fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let write = Write { node: attributes.user.node().unwrap_or_default(), attributes, object };
        if write.node.is_empty() {
            return write.refuse(format!("could not determine node from user {}", quote(&attributes.user.name)));
        }
        let kind = &attributes.served.kind;
        match (kind.group.as_str(), kind.resource.as_str()) {
            ("", "pods") => self.pod(&write),
            ("", "nodes") => write.node(),
            ("", "persistentvolumeclaims") => match attributes.subresource {
                "status" => write.claim_status(),
                _ => write.refuse("may only update PVC status"),
            },
            ("", "serviceaccounts") => self.account(&write),
            ("certificates.k8s.io", "podcertificaterequests") => self.certificate_request(&write),
            ("coordination.k8s.io", "leases") => write.lease(),
            ("storage.k8s.io", "csinodes") => {
                write.own_name("can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices") => write.slice(),
            ("certificates.k8s.io", "certificatesigningrequests") => write.signing_request(),
            _ => Ok(()),
        }
    }
}

/// What a node writes.
struct Write<'a, 'b> {
    node: &'a str,
    attributes: &'a Attributes<'b>,
    /// Null on deletions.
    object: &'a Value,
}

impl Write<'_, '_> {
    fn refuse(&self, why: impl AsRef<str>) -> Result<(), Status> {
        Err(self.attributes.forbidden(self.object, why))
    }

    /// What there is before the write.
    fn old(&self) -> &Value {
        self.attributes.old.unwrap_or(&Value::Null)
    }

    fn unexpected_operation(&self) -> Result<(), Status> {
        self.refuse(format!("unexpected operation {}", quote(self.attributes.operation.name())))
    }

    fn node(&self) -> Result<(), Status> {
        let (node, name) = (quote(self.node), self.attributes.name);
        if name != self.node {
            return self.refuse(format!("node {node} is not allowed to modify node {}", quote(name)));
        }
        let (spec, old_spec) = (self.object.get("spec"), self.old().get("spec"));
        let (metadata, old_metadata) = (self.object.get("metadata"), self.old().get("metadata"));
        match self.attributes.operation {
            Operation::Create => {
                if spec.has("configSource") {
                    return self
                        .refuse(format!("node {node} is not allowed to create pods with a non-nil configSource"));
                }
                let forbidden = labels::forbidden(metadata.map("labels"), &rkube_machinery::Map::default());
                if !forbidden.is_empty() {
                    let labels = forbidden.join(", ");
                    return self.refuse(format!("node {node} is not allowed to set the following labels: {labels}"));
                }
            }
            Operation::Update => {
                if spec.has("configSource") && spec.get("configSource") != old_spec.get("configSource") {
                    let why =
                        format!("node {node} is not allowed to update configSource to a new non-nil configSource");
                    return self.refuse(why);
                }
                if spec.list("taints") != old_spec.list("taints") {
                    return self.refuse(format!("node {node} is not allowed to modify taints"));
                }
                if metadata.list("ownerReferences") != old_metadata.list("ownerReferences") {
                    return self.refuse(format!("node {node} is not allowed to modify ownerReferences"));
                }
                let forbidden = labels::forbidden(metadata.map("labels"), old_metadata.map("labels"));
                if !forbidden.is_empty() {
                    return self.refuse(format!("is not allowed to modify labels: {}", forbidden.join(", ")));
                }
            }
            Operation::Delete | Operation::Connect => {}
        }
        Ok(())
    }

    /// Only how large the volume is, and what is said about it.
    fn claim_status(&self) -> Result<(), Status> {
        if self.attributes.operation != Operation::Update {
            return self.unexpected_operation();
        }
        let (mut old, mut new) = (self.old().clone(), self.object.clone());
        for claim in [&mut old, &mut new] {
            for field in ["resourceVersion", "managedFields"] {
                claim.object_mut("metadata").remove(field);
            }
            for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
                claim.object_mut("status").remove(field);
            }
        }
        let parts = ["metadata", "spec", "status"];
        let changed: Vec<&str> = parts.into_iter().filter(|part| old.get(part) != new.get(part)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        self.refuse(format!(
            "node {} is not allowed to update fields other than status.quantity and status.conditions: {} changed",
            quote(self.node),
            changed.join(", ")
        ))
    }

    fn lease(&self) -> Result<(), Status> {
        if self.attributes.namespace != NODE_LEASES {
            let why = format!("can only access leases in the {} system namespace", quote(NODE_LEASES));
            return self.refuse(why);
        }
        self.own_name("can only access node lease with the same name as the requesting node")
    }

    /// The object's name must be the node's. That of a new one stands in the object.
    fn own_name(&self, why: &str) -> Result<(), Status> {
        let name = match self.attributes.operation {
            Operation::Create => self.object.get("metadata").str("name"),
            _ => self.attributes.name,
        };
        if name == self.node { Ok(()) } else { self.refuse(why) }
    }

    fn slice(&self) -> Result<(), Status> {
        let (slice, verb) = match self.attributes.operation {
            Operation::Create => (self.object, "create"),
            Operation::Delete => (self.old(), "delete"),
            Operation::Update | Operation::Connect => return Ok(()),
        };
        if slice.get("spec").str("nodeName") == self.node {
            return Ok(());
        }
        self.refuse(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
    }

    fn signing_request(&self) -> Result<(), Status> {
        let spec = self.object.get("spec");
        if !self.attributes.is_create() || !NODE_SIGNERS.contains(&spec.str("signerName")) {
            return Ok(());
        }
        let wanted = format!("system:node:{}", self.node);
        match common_name(spec.str("request")) {
            None => self.refuse("unable to parse csr: PEM block type must be CERTIFICATE REQUEST"),
            Some(name) if name == wanted => Ok(()),
            Some(_) => self.refuse(format!("can only create a node CSR with CN={wanted}")),
        }
    }
}

/// For whom a certificate is requested; none where the request cannot be read. It is read as signers read it.
fn common_name(request: &str) -> Option<String> {
    let pem = base64::engine::general_purpose::STANDARD.decode(request).ok()?;
    let block = pem::blocks(&pem).next().filter(|block| block.label == "CERTIFICATE REQUEST")?;
    let (_, parsed) = X509CertificationRequest::from_der(&block.bytes).ok()?;
    let subject = &parsed.certification_request_info.subject;
    // The last one counts, as in Go.
    Some(subject.iter_common_name().last().and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests;
