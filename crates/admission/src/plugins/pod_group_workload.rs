//! PodGroupWorkloadExists: a group of pods that is made from a workload's template needs both.

// tidy: types PodGroup Workload

use rkube_machinery::field::quote;
use rkube_machinery::{Status, Value};

use crate::{Attributes, ImmediatePlugin, Objects};

pub struct PodGroupWorkloadExists {
    pub workloads: Objects,
}

impl ImmediatePlugin for PodGroupWorkloadExists {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && attributes.is("scheduling.k8s.io", "podgroups")
    }

    fn validate(&self, attributes: &mut Attributes<'_>, group: &Value) -> Result<(), Status> {
        let reference = group.at(&["spec", "podGroupTemplateRef", "workload"]);
        if reference.is_null() || self.workloads.0.is_none() {
            return Ok(());
        }
        let (name, template) = (reference.str("workloadName"), reference.str("podGroupTemplateName"));
        let found = self.workloads.find(attributes.namespace, name);
        match refusal(found.as_ref().map(|workload| workload.tree()), name, template) {
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
