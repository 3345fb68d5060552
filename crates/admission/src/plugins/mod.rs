//! The plugins, one file each.

mod certificates;
mod claim_resize;
mod default_class;
mod default_tolerations;
mod limit_ranger;
mod namespace_lifecycle;
mod node_restriction;
mod pod_group_protection;
mod pod_group_workload;
mod pod_resize;
mod pod_security;
mod priority;
mod runtime_class;
mod service_account;
mod storage_protection;
mod taint_nodes;
mod topology_labels;

use std::sync::Arc;

use rkube_access::authorize::Authorizers;
use rkube_catalog::Snapshot;
use rkube_machinery::host::Entropy;

use crate::{Immediate, ImmediatePlugin, Objects, Plugin};

/// The name of the only one that is not on in every Kubernetes.
pub const NODE_RESTRICTION: &str = "NodeRestriction";

/// A plugin and the name under which it can be turned off.
pub type Named = (&'static str, Box<dyn Plugin>);

/// The plugins in their order.
pub fn all(catalog: &Snapshot, entropy: &Arc<dyn Entropy>, authorizers: &Arc<Authorizers>) -> Vec<Named> {
    let v1 = |group, resource| Objects(catalog.resource(group, "v1", resource));
    let workloads = Objects(catalog.resource("scheduling.k8s.io", "v1alpha2", "workloads"));
    let storage_classes = || v1("storage.k8s.io", "storageclasses");
    let authorizers = || authorizers.clone();
    let service_account =
        service_account::ServiceAccount { accounts: v1("", "serviceaccounts"), entropy: entropy.clone() };
    let node_restriction = node_restriction::NodeRestriction {
        pods: v1("", "pods"),
        nodes: v1("", "nodes"),
        accounts: v1("", "serviceaccounts"),
        claims: v1("", "persistentvolumeclaims"),
        volumes: v1("", "persistentvolumes"),
        drivers: v1("storage.k8s.io", "csidrivers"),
        authorizers: authorizers(),
    };
    let pod_security = pod_security::PodSecurity { namespaces: v1("", "namespaces"), pods: v1("", "pods") };
    let ingress_class = default_class::DefaultClass::of_ingresses(v1("networking.k8s.io", "ingressclasses"));
    vec![
        ("NamespaceLifecycle", Box::new(namespace_lifecycle::NamespaceLifecycle { namespaces: v1("", "namespaces") })),
        immediate("LimitRanger", limit_ranger::LimitRanger { ranges: v1("", "limitranges") }),
        ("ServiceAccount", Box::new(service_account)),
        immediate(NODE_RESTRICTION, node_restriction),
        immediate("TaintNodesByCondition", taint_nodes::TaintNodesByCondition),
        immediate("PodSecurity", pod_security),
        immediate("Priority", priority::Priority { classes: v1("scheduling.k8s.io", "priorityclasses") }),
        immediate("DefaultTolerationSeconds", default_tolerations::DefaultTolerationSeconds),
        immediate("PodGroupProtection", pod_group_protection::PodGroupProtection),
        immediate("DefaultStorageClass", default_class::DefaultClass::of_claims(storage_classes())),
        immediate("StorageObjectInUseProtection", storage_protection::StorageObjectInUseProtection),
        immediate(
            "PersistentVolumeClaimResize",
            claim_resize::PersistentVolumeClaimResize { classes: storage_classes() },
        ),
        immediate("RuntimeClass", runtime_class::RuntimeClass { classes: v1("node.k8s.io", "runtimeclasses") }),
        immediate("CertificateApproval", certificates::CertificateApproval(authorizers())),
        immediate("CertificateSigning", certificates::CertificateSigning(authorizers())),
        immediate("ClusterTrustBundleAttest", certificates::ClusterTrustBundleAttest(authorizers())),
        immediate("CertificateSubjectRestriction", certificates::CertificateSubjectRestriction),
        immediate("DefaultIngressClass", ingress_class),
        immediate("PodGroupWorkloadExists", pod_group_workload::PodGroupWorkloadExists { workloads }),
        immediate("PodTopologyLabels", topology_labels::PodTopologyLabels { nodes: v1("", "nodes") }),
        immediate("PodResizeValidator", pod_resize::PodResizeValidator { nodes: v1("", "nodes") }),
    ]
}

fn immediate(name: &'static str, plugin: impl ImmediatePlugin + 'static) -> Named {
    (name, Box::new(Immediate(plugin)))
}
