//! NamespaceLifecycle: nothing is made in a namespace that is not there or is going; some namespaces never go.

use std::time::Duration;

use rkube_machinery::status::Cause;
use rkube_machinery::{GroupResource, Status, Value};

use super::{Attributes, Objects, Operation, Plugin};

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// A namespace made a moment ago by another control plane may still be on its way here.
const MISSING_WAIT: Duration = Duration::from_millis(50);

pub struct NamespaceLifecycle {
    pub namespaces: Objects,
}

impl Plugin for NamespaceLifecycle {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let kind = &attributes.served.kind;
        let about_namespace = kind.resource == "namespaces" && kind.group.is_empty();
        match attributes.operation {
            Operation::Delete => about_namespace,
            _ => !about_namespace && !attributes.namespace.is_empty(),
        }
    }

    fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let creating = attributes.operation == Operation::Create;
        let name = attributes.namespace;
        let Some(namespace) = self.namespaces.find("", name) else {
            if creating {
                attributes.retry(MISSING_WAIT, 1);
            }
            return Err(Status::not_found(&GroupResource::new("", "namespaces"), name));
        };
        if !creating || !namespace.deleting {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let mut status = attributes.forbidden(object, why);
        status.details.get_or_insert_default().causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        Err(status)
    }

    fn validate(&self, attributes: &mut Attributes<'_>, _object: &Value) -> Result<(), Status> {
        if attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name) {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden(attributes.resource(), attributes.name, why));
        }
        Ok(())
    }
}
