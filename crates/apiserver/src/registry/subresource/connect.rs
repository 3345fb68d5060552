//! `log`, `exec`, `attach`, `portforward`, `proxy`: answered by the node that runs the pod. Until nodes are connected the
//! answer says so.

use rkube_machinery::Status;

use super::super::Call;

impl Call<'_> {
    /// Why the connection cannot be made.
    pub(in crate::registry) fn connect(&self) -> Status {
        let object = match self.find() {
            Ok(entry) => entry.object.value(entry.revision),
            Err(status) => return status,
        };
        let name = &self.info.name;
        let node = match self.served.kind.resource {
            "pods" => object.get("spec").str("nodeName"),
            "nodes" => name,
            _ => return Status::service_unavailable(format!("no endpoints available for service \"{name}\"")),
        };
        if node.is_empty() {
            return Status::bad_request(format!("pod {name} does not have a host assigned"));
        }
        Status::service_unavailable(format!(
            "node \"{node}\" is not connected to this API server: its pods cannot be reached"
        ))
    }
}
