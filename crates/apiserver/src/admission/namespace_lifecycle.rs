//! NamespaceLifecycle: nothing is made in a namespace that is not there or is going; some namespaces never go.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rkube_machinery::status::Cause;
use rkube_machinery::{GroupResource, Status, Value};

use super::{Attributes, Operation, Plugin};
use crate::cache;
use crate::resources::Resources;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// A namespace made a moment ago by another control plane may still be on its way here.
const MISSING_WAIT: Duration = Duration::from_millis(50);

pub struct NamespaceLifecycle {
    namespaces: Option<Arc<cache::Resource>>,
}

impl NamespaceLifecycle {
    pub fn new(resources: &Resources) -> Self {
        NamespaceLifecycle {
            namespaces: resources.find("", "v1", "namespaces").and_then(|served| served.cache.clone()),
        }
    }

    async fn find(&self, name: &str, patient: bool) -> Option<cache::Entry> {
        let namespaces = self.namespaces.as_ref()?;
        let key = namespaces.key("", name);
        let found = namespaces.get(&key);
        if found.is_some() || !patient {
            return found;
        }
        tokio::time::sleep(MISSING_WAIT).await;
        namespaces.get(&key)
    }

    async fn check(&self, attributes: &Attributes, object: &Value) -> Result<(), Status> {
        let creating = attributes.operation == Operation::Create;
        let name = &attributes.namespace;
        let Some(namespace) = self.find(name, creating).await else {
            return Err(Status::not_found(&GroupResource::new("", "namespaces"), name));
        };
        if !creating || !namespace.object.deleting {
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
}

impl Plugin for NamespaceLifecycle {
    fn handles(&self, attributes: &Attributes) -> bool {
        let about_namespace =
            attributes.served.kind.resource == "namespaces" && attributes.served.kind.group.is_empty();
        match attributes.operation {
            Operation::Delete => about_namespace,
            _ => !about_namespace && !attributes.namespace.is_empty(),
        }
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.check(attributes, object))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        _object: Option<&'a Value>,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let immortal = attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name.as_str());
        Box::pin(async move {
            if immortal {
                return Err(Status::forbidden(
                    attributes.resource(),
                    &attributes.name,
                    "this namespace may not be deleted",
                ));
            }
            Ok(())
        })
    }
}
