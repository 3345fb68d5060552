//! `log`, `exec`, `attach`, `portforward`, `proxy`: answered by the node that runs the pod. Until nodes are connected the
//! answer says so.

use http::StatusCode;
use rkube_machinery::Status;

use super::super::Call;
use crate::content::{Answer, Body};

impl Call<'_> {
    /// The log of a pod that has no node yet is empty. For all else: why the connection cannot be made.
    pub(in crate::registry) fn connect(&self, subresource: &str) -> Result<Answer, Status> {
        let entry = self.find()?;
        let object = entry.object.value(entry.revision);
        let name = &self.info.name;
        let node = match self.served.kind.resource {
            "pods" => object.get("spec").str("nodeName"),
            "nodes" => name,
            _ => return Err(Status::service_unavailable(format!("no endpoints available for service \"{name}\""))),
        };
        if node.is_empty() && subresource == "log" {
            let mut nothing = Answer::new(Body::Empty);
            *nothing.status_mut() = StatusCode::NO_CONTENT;
            return Ok(nothing);
        }
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
        Err(Status::service_unavailable(format!(
            "node \"{node}\" is not connected to this API server: its pods cannot be reached"
        )))
    }
}
