//! Labels and annotations on sandboxes and containers, under upstream's names: by them another life of this process knows
//! whose they are, and what is needed to end them if their pod is gone.

use std::path::{Path, PathBuf};

use rkube_machinery::{Value, json, object};
use rkube_runtime::api::{ContainerConfig, ContainerStatus, SandboxConfig};

use crate::pod::spec::Container;

pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

const HASH: &str = "io.kubernetes.container.hash";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
pub const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
pub const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

pub fn mark_sandbox(config: &mut SandboxConfig, pod: &Value) {
    let metadata = pod.get("metadata");
    let texts =
        |field: &str| metadata.map(field).iter().map(|(key, value)| (key.to_string(), value.as_str().to_owned()));
    config.labels.extend(texts("labels"));
    config.annotations.extend(texts("annotations"));
    config.labels.extend(identity(metadata));
}

pub fn mark_container(config: &mut ContainerConfig, pod: &Value, container: Container<'_>, attempt: u32) {
    let (metadata, spec) = (pod.get("metadata"), pod.get("spec"));
    config.labels.extend(identity(metadata));
    config.labels.insert(CONTAINER_NAME.to_owned(), container.name().to_owned());
    let mut note = |name: &str, value: String| {
        config.annotations.insert(name.to_owned(), value);
    };
    note(HASH, hash(container));
    note(RESTART_COUNT, attempt.to_string());
    note(MESSAGE_PATH, container.value.str("terminationMessagePath").to_owned());
    note(MESSAGE_POLICY, container.value.str("terminationMessagePolicy").to_owned());
    for (name, seconds) in [
        (DELETION_GRACE, metadata.get("deletionGracePeriodSeconds")),
        (TERMINATION_GRACE, spec.get("terminationGracePeriodSeconds")),
    ] {
        if let Some(seconds) = seconds.as_int() {
            note(name, seconds.to_string());
        }
    }
    let hook = container.value.get("lifecycle").get("preStop");
    if !hook.is_null() {
        note(PRE_STOP, json::to_string(hook));
    }
    if container.value.has("ports") {
        note(PORTS, json::to_string(container.value.get("ports")));
    }
}

fn identity(metadata: &Value) -> [(String, String); 3] {
    [(POD_NAME, "name"), (POD_NAMESPACE, "namespace"), (POD_UID, "uid")]
        .map(|(label, field)| (label.to_owned(), metadata.str(field).to_owned()))
}

/// Of what a container may not change without being started anew: its name and its image.
pub fn hash(container: Container<'_>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in [container.name(), container.image()] {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:x}")
}

/// Whether a container was made of what the pod says now.
pub fn is_of(status: &ContainerStatus, container: Container<'_>) -> bool {
    status.annotations.get(HASH).is_none_or(|known| *known == hash(container))
}

pub fn restart_count(status: &ContainerStatus) -> u32 {
    status.annotations.get(RESTART_COUNT).and_then(|text| text.parse().ok()).unwrap_or(status.attempt)
}

/// The directory of a pod's logs.
pub fn log_directory(pod_logs: &Path, namespace: &str, name: &str, uid: &str) -> PathBuf {
    pod_logs.join(format!("{namespace}_{name}_{uid}"))
}

/// Where a container's log is, however the runtime says it.
pub fn log_file(status: &ContainerStatus, pod_logs: &Path) -> PathBuf {
    let label = |name: &str| status.labels.get(name).map(String::as_str).unwrap_or_default();
    // An absolute path takes the place of all before it.
    log_directory(pod_logs, label(POD_NAMESPACE), label(POD_NAME), label(POD_UID)).join(&status.log_path)
}

/// A pod of which there is nothing but this: enough to end it.
pub fn restore_pod(sandbox: &SandboxConfig, containers: &[ContainerStatus]) -> Value {
    let is_last = |number: usize, status: &ContainerStatus| {
        !containers[number + 1..].iter().any(|other| other.name == status.name)
    };
    let last = containers.iter().enumerate().filter(|(number, status)| is_last(*number, status));
    let containers: Vec<Value> = last
        .map(|(_, status)| status)
        .map(|status| {
            let mut container = object! { "name": status.name.as_str(), "image": status.image.as_str() };
            let hook = status.annotations.get(PRE_STOP).and_then(|text| json::parse(text.as_bytes()).ok());
            if let Some(hook) = hook {
                container.set("lifecycle", object! { "preStop": hook });
            }
            container
        })
        .collect();
    let metadata = object! {
        "name": sandbox.pod_name.as_str(),
        "namespace": sandbox.pod_namespace.as_str(),
        "uid": sandbox.pod_uid.as_str(),
    };
    object! { "metadata": metadata, "spec": object! { "containers": containers } }
}
