//! Writes the taints of nodes. A list of taints is written as a whole, so it is written of no other state than the one that
//! was seen, and seen again when somebody else was faster.

use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::kube::{self, Client};
use serde_json::json;

use super::plan::{self, Ready};
use super::view::NodeView;
use crate::requests::{self, escaped, is_not_found};

const ATTEMPTS_MAX: usize = 5;

/// Has a node that is like this the taint by which pods leave it, and no other of that sort.
pub async fn set_evicting(
    client: &Client,
    clock: &dyn Clock,
    node: &NodeView,
    ready: Ready,
) -> Result<(), kube::Error> {
    let path = format!("/api/v1/nodes/{}", escaped(&node.metadata.name));
    let (uid, mut node) = (node.metadata.uid.clone(), node.clone());
    let mut attempt = 1;
    loop {
        let now = time::format_seconds(clock.now_seconds());
        let Some(taints) = plan::evicting_taints(ready, &node.spec.taints, &now) else { return Ok(()) };
        let patch = json!({
            "metadata": { "uid": uid, "resourceVersion": node.metadata.version },
            "spec": { "taints": taints },
        });
        match requests::patch(client, &path, &patch).await {
            Ok(_) => return Ok(()),
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS_MAX => {}
            Err(error) => return Err(error),
        }
        attempt += 1;
        let found = match requests::get_value(client, &path).await {
            Err(error) if is_not_found(&error) => return Ok(()),
            found => found?,
        };
        node = serde_json::from_value(found).map_err(kube::Error::SerdeError)?;
        if node.metadata.uid != uid {
            return Ok(());
        }
    }
}
