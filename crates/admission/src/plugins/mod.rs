//! The plugins, one file each.

mod certificates;
mod claim_resize;
mod default_class;
mod default_tolerations;
mod limit_ranger;
mod namespace_lifecycle;
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

use crate::{Immediate, Objects, Plugin};

/// The plugins in their order.
pub fn all(catalog: &Snapshot, entropy: &Arc<dyn Entropy>, authorizers: &Arc<Authorizers>) -> Vec<Box<dyn Plugin>> {
    let v1 = |group, resource| Objects(catalog.resource(group, "v1", resource));
    let workloads = Objects(catalog.resource("scheduling.k8s.io", "v1alpha2", "workloads"));
    let authorizers = || authorizers.clone();
    vec![
        Box::new(namespace_lifecycle::NamespaceLifecycle { namespaces: v1("", "namespaces") }),
        Box::new(Immediate(limit_ranger::LimitRanger { ranges: v1("", "limitranges") })),
        Box::new(service_account::ServiceAccount { accounts: v1("", "serviceaccounts"), entropy: entropy.clone() }),
        Box::new(Immediate(taint_nodes::TaintNodesByCondition)),
        Box::new(Immediate(pod_security::PodSecurity { namespaces: v1("", "namespaces"), pods: v1("", "pods") })),
        Box::new(Immediate(priority::Priority { classes: v1("scheduling.k8s.io", "priorityclasses") })),
        Box::new(Immediate(default_tolerations::DefaultTolerationSeconds)),
        Box::new(Immediate(pod_group_protection::PodGroupProtection)),
        Box::new(Immediate(default_class::DefaultClass::of_claims(v1("storage.k8s.io", "storageclasses")))),
        Box::new(Immediate(storage_protection::StorageObjectInUseProtection)),
        Box::new(Immediate(claim_resize::PersistentVolumeClaimResize {
            classes: v1("storage.k8s.io", "storageclasses"),
        })),
        Box::new(Immediate(runtime_class::RuntimeClass { classes: v1("node.k8s.io", "runtimeclasses") })),
        Box::new(Immediate(certificates::CertificateApproval(authorizers()))),
        Box::new(Immediate(certificates::CertificateSigning(authorizers()))),
        Box::new(Immediate(certificates::ClusterTrustBundleAttest(authorizers()))),
        Box::new(Immediate(certificates::CertificateSubjectRestriction)),
        Box::new(Immediate(default_class::DefaultClass::of_ingresses(v1("networking.k8s.io", "ingressclasses")))),
        Box::new(Immediate(pod_group_workload::PodGroupWorkloadExists { workloads })),
        Box::new(Immediate(topology_labels::PodTopologyLabels { nodes: v1("", "nodes") })),
        Box::new(Immediate(pod_resize::PodResizeValidator { nodes: v1("", "nodes") })),
    ]
}
