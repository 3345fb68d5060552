//! PodGroupWorkloadExists: a group of pods that is made from a workload's template needs both.

use std::sync::Arc;

use futures::future::BoxFuture;
use rkube_machinery::field::quote;
use rkube_machinery::{Status, Value};

use super::{Attributes, Operation, Plugin};
use crate::cache;
use crate::resources::Resources;

pub struct PodGroupWorkloadExists {
    workloads: Option<Arc<cache::Resource>>,
}

impl PodGroupWorkloadExists {
    pub fn new(resources: &Resources) -> Self {
        let workloads = resources.find("scheduling.k8s.io", "v1alpha2", "workloads");
        PodGroupWorkloadExists { workloads: workloads.and_then(|served| served.cache.clone()) }
    }

    fn check(&self, attributes: &Attributes, group: &Value) -> Result<(), Status> {
        let reference = group.at(&["spec", "podGroupTemplateRef", "workload"]);
        let Some(workloads) = self.workloads.as_ref().filter(|_| !reference.is_null()) else { return Ok(()) };
        let (name, template) = (reference.str("workloadName"), reference.str("podGroupTemplateName"));
        let found = workloads.get(&workloads.key(&attributes.namespace, name));
        let found = found.map(|entry| entry.object.value(entry.revision));
        match refusal(found.as_ref(), name, template) {
            Some(why) => Err(attributes.forbidden(group, format!("PodGroup rejected: {why}"))),
            None => Ok(()),
        }
    }
}

/// Why a group cannot be made from this template of the workload.
fn refusal(workload: Option<&Value>, name: &str, template: &str) -> Option<String> {
    let Some(workload) = workload else { return Some(format!("Workload {} not found", quote(name))) };
    if workload.get("metadata").has("deletionTimestamp") {
        return Some(format!("Workload {} is being deleted", quote(name)));
    }
    let mut templates = workload.get("spec").list("podGroupTemplates").iter();
    if templates.any(|one| one.str("name") == template) {
        return None;
    }
    Some(format!("PodGroupTemplate {} not found in Workload {}", quote(template), quote(name)))
}

impl Plugin for PodGroupWorkloadExists {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && attributes.is("scheduling.k8s.io", "podgroups")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: Option<&'a Value>,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = object.map_or(Ok(()), |group| self.check(attributes, group));
        Box::pin(async { outcome })
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn workload_and_template_must_be_there() {
        let spec = object! { "podGroupTemplates": vec![object! { "name": "a" }] };
        let workload = object! { "spec": spec.clone() };
        let going = object! { "metadata": object! { "deletionTimestamp": "2020-01-01T00:00:00Z" }, "spec": spec };
        let table = [
            (Some(&workload), "a", None),
            (Some(&workload), "b", Some("PodGroupTemplate \"b\" not found in Workload \"w\"")),
            (Some(&going), "a", Some("Workload \"w\" is being deleted")),
            (None, "a", Some("Workload \"w\" not found")),
        ];
        for (workload, template, want) in table {
            assert_eq!(refusal(workload, "w", template).as_deref(), want);
        }
    }
}
