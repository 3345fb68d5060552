//! `pods/binding`: a scheduler gives a pod its node.

use bytes::Bytes;
use rkube_kinds::kind::Part;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{GroupResource, Status, Value, object, time};

use super::super::admit::Admission;
use super::super::request::Request;
use super::super::write::Write;
use crate::content::Answer;
use crate::request::RequestInfo;

const TYPE: &str = "io.k8s.api.core.v1.Binding";

impl Write<'_> {
    /// A binding by itself, the oldest way: it names its pod.
    pub(in crate::registry) async fn bind_named(&mut self, body: &Bytes) -> Result<Answer, Status> {
        self.take_options("CreateOptions", None)?;
        let binding = self.decode_other(body, TYPE, "v1", "Binding")?;
        let name = binding.get("metadata").str("name").to_owned();
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let binding = self.admit_binding(&name, binding).await?;
        let pods = self.request.catalog.find("", "v1", "pods");
        let served = pods.ok_or_else(|| Status::internal("pods are not served"))?;
        let info = RequestInfo { name: name.into(), resource: "pods".into(), ..self.request.info.clone() };
        let request = Request { served, info: &info, part: Part::Other("binding"), ..*self.request };
        let write = Write { options: self.options, ..Write::new(self.registry, &request, Vec::new()) };
        write.assign(&binding).await
    }

    pub(super) async fn bind(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let binding = self.decode_other(body, TYPE, "v1", "Binding")?;
        let binding = self.admit_binding(&self.request.info.name, binding).await?;
        self.assign(&binding).await
    }

    async fn admit_binding(&mut self, name: &str, mut binding: Value) -> Result<Value, Status> {
        let write = Admission::create(name).of_kind("v1", "Binding");
        self.admit(write, &mut binding).await?;
        if binding.get("metadata").str("name") != name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        check(&binding)?;
        self.check_admitted(write, &binding).await?;
        Ok(binding)
    }

    /// Gives the pod the binding's node.
    async fn assign(&self, binding: &Value) -> Result<Answer, Status> {
        let (metadata, name) = (binding.get("metadata"), &self.request.info.name);
        let key = self.request.key(name);
        let now = time::format_seconds(self.now());
        self.edit(|pod| {
            self.check_bindable(&key, metadata, pod)?;
            let node = binding.get("target").str("name");
            pod.object_mut("spec").set("nodeName", node);
            // Where it was to go tells nothing any more.
            pod.object_mut("status").remove("nominatedNodeName");
            for map in ["annotations", "labels"] {
                for (key, value) in metadata.map(map).iter() {
                    pod.object_mut("metadata").object_mut(map).set(key, value.clone());
                }
            }
            set_condition(pod, object! { "type": "PodScheduled", "status": "True" }, &now);
            Ok(())
        })
        .await?;
        Ok(self.done())
    }

    fn check_bindable(&self, key: &str, wanted: &Value, pod: &Value) -> Result<(), Status> {
        let metadata = pod.get("metadata");
        let name = metadata.str("name");
        let refuse = |why: String| Status::conflict(&GroupResource::new("", "pods/binding"), name, why);
        for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (asked, found) = (wanted.str(field), metadata.str(field));
            if !asked.is_empty() && asked != found {
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {word} in precondition: {asked}, {word} in object meta: {found}"
                );
                return Err(Status::conflict(&self.request.served.group_resource, name, why));
            }
        }
        if metadata.has("deletionTimestamp") {
            return Err(refuse(format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        let node = pod.get("spec").str("nodeName");
        if !node.is_empty() {
            return Err(refuse(format!("pod {name} is already assigned to node \"{node}\"")));
        }
        if !pod.get("spec").list("schedulingGates").is_empty() {
            return Err(refuse(format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        Ok(())
    }
}

fn check(binding: &Value) -> Result<(), Status> {
    let mut errors = Errors::new();
    let target = binding.get("target");
    let path = Path::new("target");
    if !matches!(target.str("kind"), "" | "Node") {
        errors.not_supported(path.child("kind"), target.str("kind"), &["Node", "<empty>"]);
    }
    if target.str("name").is_empty() {
        errors.required(path.child("name"), "");
    }
    if errors.is_empty() {
        return Ok(());
    }
    // Without a reason: Kubernetes answers so, too.
    Err(Status { code: 500, message: errors.summary(), ..Status::default() })
}

/// Sets a condition by its type; the time of change moves only with the status.
pub(super) fn set_condition(pod: &mut Value, mut condition: Value, now: &str) {
    let conditions = pod.object_mut("status").array_mut("conditions");
    let place = conditions.iter().position(|found| found.str("type") == condition.str("type"));
    let unchanged = place.filter(|place| conditions[*place].str("status") == condition.str("status"));
    let since = unchanged.map(|place| conditions[place].get("lastTransitionTime").clone());
    condition.set("lastTransitionTime", since.unwrap_or_else(|| now.into()));
    match place {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
}
