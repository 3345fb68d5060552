//! What the Nodes and Leases of all nodes have in common, real ones and simulated ones.

use std::time::Duration;

use rkube_machinery::{Value, object, time};

pub const KUBELET_VERSION: &str = "v1.36.4";
pub const KUBELET_PORT: u16 = 10250;
/// What a kubelet of that version can do beyond what all can; sorted.
pub const DECLARED_FEATURES: [&str; 4] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];

/// The labels that every node has.
pub fn labels(name: &str) -> Value {
    object! {
        "beta.kubernetes.io/arch": architecture(),
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
}

pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// In upstream's order. They are merged by type; what has not changed keeps its time of change by [`keep_times`].
/// `problem`: why the node is not ready, if it is not.
pub fn conditions(problem: Option<&str>, now_seconds: i64) -> Vec<Value> {
    let now = time::format_seconds(now_seconds);
    let rows = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        match problem {
            None => ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            Some(problem) => ("Ready", "False", "KubeletNotReady", problem),
        },
    ];
    rows.map(|(name, status, reason, message)| {
        object! {
            "type": name,
            "status": status,
            "lastHeartbeatTime": now.as_str(),
            "lastTransitionTime": now.as_str(),
            "reason": reason,
            "message": message,
        }
    })
    .to_vec()
}

/// Conditions that say the same as before say since when.
pub fn keep_times(conditions: &mut [Value], before: &[Value]) {
    for condition in conditions {
        let same = |known: &&Value| {
            known.str("type") == condition.str("type") && known.str("status") == condition.str("status")
        };
        if let Some(since) = before.iter().find(same).map(|known| known.get("lastTransitionTime").clone()) {
            condition.set("lastTransitionTime", since);
        }
    }
}

/// By which others know that the node is alive.
pub fn lease(name: &str, node_uid: Option<&str>, duration: Duration, now_micros: i64) -> Value {
    let mut metadata = object! { "name": name, "namespace": "kube-node-lease" };
    if let Some(uid) = node_uid {
        let owner = object! { "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid };
        metadata.set("ownerReferences", vec![owner]);
    }
    object! {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": renewal(name, duration, now_micros),
    }
}

pub fn renewal(name: &str, duration: Duration, now_micros: i64) -> Value {
    object! {
        "holderIdentity": name,
        "leaseDurationSeconds": i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        "renewTime": time::format_micros(now_micros),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_changed_keeps_its_time() {
        let before = conditions(None, 0);
        let mut after = conditions(Some("it is not"), 60);
        keep_times(&mut after, &before);
        let times: Vec<_> = after.iter().map(|condition| condition.str("lastTransitionTime").to_owned()).collect();
        assert_eq!(times[0], "1970-01-01T00:00:00Z");
        assert_eq!(times[3], "1970-01-01T00:01:00Z");
        assert_eq!(after[0].str("lastHeartbeatTime"), "1970-01-01T00:01:00Z");
    }
}
