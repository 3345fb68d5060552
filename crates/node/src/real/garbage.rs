//! What pods leave behind, and when it goes: containers that ended, sandboxes, logs, directories, images.

use std::sync::Arc;

use rkube_machinery::Value;

use super::inbox::Found;
use super::kubelet::Kubelet;
use super::labels;

/// What the runtime has of a pod now. Nothing, where it does not answer.
pub(super) async fn found_of(kubelet: &Arc<Kubelet>, uid: &str) -> Found {
    let (sandboxes, containers) = (kubelet.runtime().sandboxes().await, kubelet.runtime().containers().await);
    let of_pod = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(labels::POD_UID).is_some_and(|known| known == uid)
    };
    let sandboxes = sandboxes.unwrap_or_default();
    let sandboxes: Vec<_> = sandboxes.into_iter().filter(|sandbox| sandbox.config.pod_uid == uid).collect();
    let is_in = |id: &str| sandboxes.iter().any(|sandbox| sandbox.id == id);
    let mut containers = containers.unwrap_or_default();
    containers.retain(|status| of_pod(&status.labels) || is_in(&status.sandbox));
    Found { sandboxes, containers }
}

/// Removes what a pod has left in the runtime, and its logs.
pub(super) async fn remove_pod(kubelet: &Arc<Kubelet>, pod: &Value, sandboxes: Vec<String>) {
    for id in sandboxes {
        if let Err(error) = kubelet.runtime().remove_sandbox(&id).await {
            tracing::warn!(id, %error, "a sandbox cannot be removed");
        }
    }
    let metadata = pod.get("metadata");
    let (namespace, name, uid) = (metadata.str("namespace"), metadata.str("name"), metadata.str("uid"));
    if namespace.is_empty() || name.is_empty() || uid.is_empty() {
        return;
    }
    let directory = labels::log_directory(&kubelet.config.directories.pod_logs, namespace, name, uid);
    match tokio::fs::remove_dir_all(&directory).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(directory = %directory.display(), %error, "the logs of a pod cannot be removed");
        }
        _ => {}
    }
    remove_dead_links(kubelet, &format!("{name}_{namespace}_")).await;
}

/// Removes links to logs that are not there any more.
async fn remove_dead_links(kubelet: &Arc<Kubelet>, prefix: &str) {
    let Ok(mut entries) = tokio::fs::read_dir(&kubelet.config.directories.container_logs).await else { return };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let is_of = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        if is_of && tokio::fs::metadata(entry.path()).await.is_err() {
            let _ = tokio::fs::remove_file(entry.path()).await;
        }
    }
}
