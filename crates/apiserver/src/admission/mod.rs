//! Admission: what may change or refuse a write before it is stored. A plugin is a file and a line in [`Chain::new`].

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
use std::time::Duration;

use rkube_access::User;
use rkube_access::authorize::Authorizers;
use rkube_machinery::host::Entropy;
use rkube_machinery::{GroupResource, Status, Value};

use crate::registry::Call;
use rkube_catalog::{Served, Snapshot};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// What plugins know of a write.
pub struct Attributes<'a> {
    pub operation: Operation,
    pub served: &'a Served,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// What an update changes.
    pub old: Option<&'a Value>,
    pub user: &'a User,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// How often the plugin at work has been asked again already.
    retries: usize,
    /// The plugin at work wants to be asked again after this time.
    retry_after: Option<Duration>,
}

impl<'a> Attributes<'a> {
    pub fn new(call: &Call<'a>, operation: Operation, old: Option<&'a Value>) -> Self {
        Attributes {
            operation,
            served: call.served,
            subresource: &call.info.subresource,
            namespace: &call.info.namespace,
            name: &call.info.name,
            old,
            user: call.user,
            warnings: Vec::new(),
            retries: 0,
            retry_after: None,
        }
    }

    /// Whether this is about objects of this resource themselves, not a subresource.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.served.kind.resource == resource && self.served.kind.group == group
    }

    /// Whether this is about a subresource of this resource.
    pub fn is_part(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.subresource == subresource && self.served.kind.resource == resource && self.served.kind.group == group
    }

    pub fn resource(&self) -> &GroupResource {
        &self.served.group_resource
    }

    /// The refusal of this write.
    pub fn forbidden(&self, object: &Value, why: impl AsRef<str>) -> Status {
        let metadata = object.get("metadata");
        let candidates = [self.name, metadata.str("name"), metadata.str("generateName"), "Unknown"];
        let name = candidates.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Status::forbidden(self.resource(), name, why)
    }

    /// For a plugin that refuses because it misses something that may be on its way here: it is asked again after
    /// `delay`, at most so many times, before the refusal counts.
    pub fn retry(&mut self, delay: Duration, retries_max: usize) {
        self.retry_after = (self.retries < retries_max).then_some(delay);
    }
}

/// A plugin takes part in either step or both, and waits for nothing itself: see [`Attributes::retry`].
pub trait Plugin: Send + Sync {
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    /// Not asked about deletions. Asked again after [`Attributes::retry`], with what it changed before.
    fn mutate(&self, _attributes: &mut Attributes<'_>, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// On deletions, `object` is what goes.
    fn validate(&self, _attributes: &mut Attributes<'_>, _object: &Value) -> Result<(), Status> {
        Ok(())
    }
}

/// The plugins in their order.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Chain {
    pub fn new(resources: &Snapshot, entropy: &Arc<dyn Entropy>, authorizers: &Arc<Authorizers>) -> Chain {
        let authorizers = || authorizers.clone();
        let v1 = |group, resource| Objects(resources.resource(group, "v1", resource));
        let workloads = Objects(resources.resource("scheduling.k8s.io", "v1alpha2", "workloads"));
        Chain {
            plugins: vec![
                Box::new(namespace_lifecycle::NamespaceLifecycle { namespaces: v1("", "namespaces") }),
                Box::new(limit_ranger::LimitRanger { ranges: v1("", "limitranges") }),
                Box::new(service_account::ServiceAccount {
                    accounts: v1("", "serviceaccounts"),
                    entropy: entropy.clone(),
                }),
                Box::new(taint_nodes::TaintNodesByCondition),
                Box::new(pod_security::PodSecurity { namespaces: v1("", "namespaces"), pods: v1("", "pods") }),
                Box::new(priority::Priority { classes: v1("scheduling.k8s.io", "priorityclasses") }),
                Box::new(default_tolerations::DefaultTolerationSeconds),
                Box::new(pod_group_protection::PodGroupProtection),
                Box::new(default_class::DefaultClass::of_claims(v1("storage.k8s.io", "storageclasses"))),
                Box::new(storage_protection::StorageObjectInUseProtection),
                Box::new(claim_resize::PersistentVolumeClaimResize { classes: v1("storage.k8s.io", "storageclasses") }),
                Box::new(runtime_class::RuntimeClass { classes: v1("node.k8s.io", "runtimeclasses") }),
                Box::new(certificates::CertificateApproval(authorizers())),
                Box::new(certificates::CertificateSigning(authorizers())),
                Box::new(certificates::ClusterTrustBundleAttest(authorizers())),
                Box::new(certificates::CertificateSubjectRestriction),
                Box::new(default_class::DefaultClass::of_ingresses(v1("networking.k8s.io", "ingressclasses"))),
                Box::new(pod_group_workload::PodGroupWorkloadExists { workloads }),
                Box::new(topology_labels::PodTopologyLabels { nodes: v1("", "nodes") }),
                Box::new(pod_resize::PodResizeValidator { nodes: v1("", "nodes") }),
            ],
        }
    }

    pub async fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        for plugin in &self.plugins {
            if !plugin.handles(attributes) {
                continue;
            }
            attributes.retries = 0;
            while let Err(refusal) = plugin.mutate(attributes, object) {
                let delay = attributes.retry_after.take().ok_or(refusal)?;
                tokio::time::sleep(delay).await;
                attributes.retries += 1;
            }
        }
        Ok(())
    }

    pub fn validate(&self, attributes: &mut Attributes<'_>, object: &Value) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(attributes) {
                plugin.validate(attributes, object)?;
            }
        }
        Ok(())
    }
}

/// The objects of a resource that a plugin looks at; where it is not served there are none.
pub struct Objects(Option<Arc<rkube_catalog::Resource>>);

impl Objects {
    /// The object of this name; of cluster-scoped ones `namespace` is empty.
    fn find(&self, namespace: &str, name: &str) -> Option<Arc<rkube_catalog::Object>> {
        self.0.as_ref()?.find(namespace, name).map(|entry| entry.object)
    }

    /// Those of a namespace, by name.
    fn within(&self, namespace: &str) -> Vec<Arc<rkube_catalog::Object>> {
        self.0.as_ref().map(|objects| objects.within(namespace)).unwrap_or_default()
    }

    fn all(&self) -> rkube_catalog::Items {
        self.0.as_ref().map(|objects| objects.snapshot().0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Misses something that is there when it is asked again so many times.
    struct Late(usize);

    impl Plugin for Late {
        fn handles(&self, _attributes: &Attributes<'_>) -> bool {
            true
        }

        fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
            object.set("asked", object.int("asked") + 1);
            if attributes.retries == self.0 {
                return Ok(());
            }
            attributes.retry(Duration::from_millis(1), 2);
            Err(Status::bad_request("missing"))
        }
    }

    #[tokio::test]
    async fn what_may_come_is_waited_for() {
        let resources = Snapshot::unfed(rkube_kinds::all());
        let served = resources.find("", "v1", "pods").unwrap();
        // Each plugin has its own retries; the third refuses for good.
        for (plugins, asked, admitted) in [(vec![0], 1, true), (vec![2, 1], 5, true), (vec![2, 0, 3, 0], 7, false)] {
            let mut attributes = Attributes {
                operation: Operation::Create,
                served,
                subresource: "",
                namespace: "default",
                name: "",
                old: None,
                user: &User::default(),
                warnings: Vec::new(),
                retries: 0,
                retry_after: None,
            };
            let chain = Chain { plugins: plugins.into_iter().map(|late| Box::new(Late(late)) as _).collect() };
            let mut object = Value::object();
            assert_eq!(chain.mutate(&mut attributes, &mut object).await.is_ok(), admitted);
            assert_eq!(object.int("asked"), asked);
        }
    }
}
