//! What pods leave behind, and when it goes: containers that ended, sandboxes, logs, directories; [`images`].

mod images;

use std::sync::Arc;

use rkube_machinery::Value;

use super::inbox::Found;
use super::kubelet::Kubelet;
use super::labels;
pub(super) use images::collect as collect_images;

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

/// Removes one run of a container with its log.
pub(super) async fn remove_container(kubelet: &Arc<Kubelet>, id: &str) {
    let status = kubelet.runtime().container(id).await;
    if let Err(error) = kubelet.runtime().remove_container(id).await {
        return tracing::warn!(id, %error, "a container that has ended cannot be removed");
    }
    let Ok(status) = status else { return };
    let log = labels::log_file(&status, &kubelet.config.directories.pod_logs);
    // Beside it may be what was rotated away: `0.log.1`.
    let (Some(directory), Some(name)) = (log.parent(), log.file_name().map(|name| name.to_string_lossy().into_owned()))
    else {
        return;
    };
    let Ok(mut entries) = tokio::fs::read_dir(directory).await else { return };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let found = entry.file_name().to_string_lossy().into_owned();
        let rest = found.strip_prefix(&name);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
            let _ = tokio::fs::remove_file(entry.path()).await;
        }
    }
    let label = |name: &str| status.labels.get(name).map(String::as_str).unwrap_or_default();
    remove_dead_links(kubelet, &format!("{}_{}_", label(labels::POD_NAME), label(labels::POD_NAMESPACE))).await;
}

/// Removes what pods have left on the disk that nobody knows any more, as after a crash.
pub(super) async fn remove_orphans(kubelet: &Arc<Kubelet>) {
    for uid in kubelet.config.prepare.known_pods() {
        let is_known = kubelet.workers.lock().contains_key(&uid);
        if is_known {
            continue;
        }
        if let Err(problem) = kubelet.config.prepare.unmount(&uid).await {
            tracing::warn!(uid = %uid, %problem, "what a pod left on the disk cannot be removed");
        }
    }
    let Ok(mut entries) = tokio::fs::read_dir(&kubelet.config.directories.pod_logs).await else { return };
    while let Ok(Some(entry)) = entries.next_entry().await {
        // `NAMESPACE_NAME_UID`.
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((_, uid)) = name.rsplit_once('_').filter(|(rest, _)| rest.contains('_')) else { continue };
        let is_known = kubelet.workers.lock().contains_key(uid);
        if !is_known {
            let _ = tokio::fs::remove_dir_all(entry.path()).await;
        }
    }
    remove_dead_links(kubelet, "").await;
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
