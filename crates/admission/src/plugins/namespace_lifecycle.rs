//! NamespaceLifecycle: nothing is made in a namespace that is not there or is going; some namespaces never go.
//!
//! Upstream waits some seconds before it empties a namespace, for those who were admitted before its deletion. Here the
//! namespace guards what is made in it: the store takes the object only while the namespace is as it was looked at.

use std::time::Duration;

use rkube_catalog::Object;
use rkube_machinery::status::Cause;
use rkube_machinery::{GroupResource, Status, Value};

use crate::{Attributes, Guardian, Objects, Operation, Plugin, Step};

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// A namespace made a moment ago by another control plane may still be on its way here.
const MISSING_WAIT: Duration = Duration::from_millis(50);

pub struct NamespaceLifecycle {
    pub namespaces: Objects,
}

impl Plugin for NamespaceLifecycle {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let about_namespace = attributes.is_about("", "namespaces");
        match attributes.operation {
            Operation::Create | Operation::Update => {
                !about_namespace && !attributes.namespace.is_empty() && !is_access_review(attributes)
            }
            Operation::Delete => about_namespace,
            Operation::Connect => false,
        }
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes<'_>, object: &'a mut Value) -> Step<'a> {
        if attributes.operation == Operation::Delete {
            return Step::Now(refuse_immortal(attributes));
        }
        if !attributes.is_create() || self.namespaces.find("", attributes.namespace).is_some() {
            return Step::Now(self.check(attributes, object));
        }
        Step::Later(Box::pin(async move {
            tokio::time::sleep(MISSING_WAIT).await;
            self.check(attributes, object)
        }))
    }

    fn guardian(&self, attributes: &Attributes<'_>) -> Option<Guardian> {
        attributes.is_create().then(|| self.namespaces.guardian("", attributes.namespace))?
    }

    fn check_guardian(&self, attributes: &Attributes<'_>, namespace: Option<&Object>) -> Result<(), Status> {
        check_stays(namespace.ok_or_else(|| missing(attributes))?, attributes, &Value::Null)
    }
}

impl NamespaceLifecycle {
    fn check(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let namespace = self.namespaces.find("", attributes.namespace).ok_or_else(|| missing(attributes))?;
        if attributes.is_create() { check_stays(&namespace, attributes, object) } else { Ok(()) }
    }
}

fn missing(attributes: &Attributes<'_>) -> Status {
    Status::not_found(&GroupResource::new("", "namespaces"), attributes.namespace)
}

fn check_stays(namespace: &Object, attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    if !namespace.deleting {
        return Ok(());
    }
    let name = attributes.namespace;
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut status = attributes.forbidden(object, why);
    status.details.get_or_insert_default().causes.push(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {name} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    Err(status)
}

/// A review of access says nothing about whether its namespace is there.
fn is_access_review(attributes: &Attributes<'_>) -> bool {
    attributes.is("authorization.k8s.io", "localsubjectaccessreviews")
}

fn refuse_immortal(attributes: &Attributes<'_>) -> Result<(), Status> {
    if !IMMORTAL.contains(&attributes.name) {
        return Ok(());
    }
    Err(Status::forbidden(attributes.resource(), attributes.name, "this namespace may not be deleted"))
}

#[cfg(test)]
mod tests {
    use rkube_access::User;
    use rkube_catalog::Snapshot;
    use rkube_machinery::object;

    use super::*;
    use crate::Chain;
    use crate::attributes::tests::creation;

    /// A namespace made elsewhere comes into view while the plugin waits for it.
    #[tokio::test(start_paused = true)]
    async fn a_namespace_may_be_on_its_way() {
        let catalog = Snapshot::unfed(rkube_kinds::all());
        let (served, user) = (catalog.find("", "v1", "pods").unwrap(), User::default());
        let namespaces = catalog.resource("", "v1", "namespaces").unwrap();
        let chain = Chain::new(vec![Box::new(NamespaceLifecycle { namespaces: Objects(Some(namespaces.clone())) })]);
        let (mut attributes, mut pod) = (creation(served, &user), Value::object());
        let refused = chain.mutate(&mut attributes, &mut pod).await.unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), (404, "namespaces \"default\" not found"));
        let comes = async {
            tokio::time::sleep(MISSING_WAIT / 2).await;
            namespaces.fill(&[object! { "metadata": object! { "name": "default" } }], 1);
        };
        let (admitted, ()) = futures::future::join(chain.mutate(&mut attributes, &mut pod), comes).await;
        assert_eq!(admitted, Ok(()));
    }
}
