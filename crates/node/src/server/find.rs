//! Which container of the runtime somebody means.

use std::path::PathBuf;

use rkube_runtime::api::{ContainerState, ContainerStatus, Error, Runtime, SandboxState, SandboxStatus};

use super::Pods;
use super::routes::Target;

pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// The one that runs, and was made last.
pub async fn container(
    runtime: &dyn Runtime,
    pods: &dyn Pods,
    target: &Target,
) -> Result<Option<ContainerStatus>, Error> {
    let containers = runtime.containers().await?;
    let label = |status: &ContainerStatus, name: &str| status.labels.get(name).cloned().unwrap_or_default();
    let found = containers.into_iter().filter(|status| {
        status.state == ContainerState::Running
            && label(status, CONTAINER_NAME) == target.container
            && label(status, POD_NAME) == target.pod
            && label(status, POD_NAMESPACE) == target.namespace
            && has_uid(pods, target, &label(status, POD_UID))
    });
    Ok(found.max_by_key(|status| status.created_micros))
}

pub async fn sandbox(runtime: &dyn Runtime, pods: &dyn Pods, target: &Target) -> Result<Option<SandboxStatus>, Error> {
    let sandboxes = runtime.sandboxes().await?;
    let found = sandboxes.into_iter().filter(|status| {
        status.state == SandboxState::Ready
            && status.config.pod_name == target.pod
            && status.config.pod_namespace == target.namespace
            && has_uid(pods, target, &status.config.pod_uid)
    });
    Ok(found.max_by_key(|status| status.created_micros))
}

/// Where a container's log is. Runtimes may tell it as they were told: relative to what the sandbox has.
pub async fn log_path(runtime: &dyn Runtime, status: &ContainerStatus) -> PathBuf {
    if status.log_path.is_absolute() {
        return status.log_path.clone();
    }
    let sandboxes = runtime.sandboxes().await.unwrap_or_default();
    let sandbox = sandboxes.into_iter().find(|sandbox| sandbox.id == status.sandbox);
    sandbox.map(|sandbox| sandbox.config.log_directory).unwrap_or_default().join(&status.log_path)
}

/// A static pod runs under another uid than the API server knows it by.
fn has_uid(pods: &dyn Pods, target: &Target, uid: &str) -> bool {
    let is_known_as = || {
        let pod = pods.pod(&target.namespace, &target.pod);
        pod.is_some_and(|pod| pod.get("metadata").str("uid") == target.uid)
    };
    target.uid.is_empty() || target.uid == uid || is_known_as()
}
