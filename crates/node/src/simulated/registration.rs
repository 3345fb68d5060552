//! The Node object of a simulated node, and its Lease.

use std::net::IpAddr;
use std::time::Duration;

use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Value, object, time};

use super::ids;
use super::template::Template;

const KUBELET_VERSION: &str = "v1.36.4";
const KUBELET_PORT: i64 = 10250;
/// What a kubelet of that version can do beyond what all can; sorted.
const DECLARED_FEATURES: [&str; 4] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];

/// One of the nodes.
#[derive(Clone, Debug)]
pub struct Identity<'a> {
    pub template: &'a Template,
    pub index: usize,
    pub address: IpAddr,
}

impl Identity<'_> {
    /// As it is registered. `range`: where its pods get their addresses from, if nobody else says it.
    pub fn node(&self, range: Option<Subnet>, now_seconds: i64) -> Value {
        let name = self.template.name(self.index);
        let mut labels = object! {
            "beta.kubernetes.io/arch": architecture(),
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture(),
            "kubernetes.io/hostname": name.clone(),
            "kubernetes.io/os": "linux",
        };
        for (key, value) in self.template.texts("labels", self.index).iter() {
            labels.set(key, value.clone());
        }
        let mut annotations = object! { "volumes.kubernetes.io/controller-managed-attach-detach": "true" };
        for (key, value) in self.template.texts("annotations", self.index).iter() {
            annotations.set(key, value.clone());
        }
        let mut spec = Value::object();
        if let Some(range) = range {
            let text = range.to_string();
            spec.set("podCIDR", text.as_str());
            spec.set("podCIDRs", vec![Value::from(text)]);
        }
        if !self.template.taints().is_empty() {
            spec.set("taints", self.template.taints().to_vec());
        }
        object! {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": object! { "name": name, "labels": labels, "annotations": annotations },
            "spec": spec,
            "status": self.status(true, &[], now_seconds),
        }
    }

    pub fn status(&self, ready: bool, images: &[Value], now_seconds: i64) -> Value {
        let name = self.template.name(self.index);
        let id = |what: &str| -> Value {
            let digest = ids::digest(&[what, &name]);
            format!("{}-{}-4{}-a{}-{}", &digest[..8], &digest[8..12], &digest[13..16], &digest[17..20], &digest[20..32])
                .into()
        };
        object! {
            "addresses": vec![
                object! { "type": "InternalIP", "address": self.address.to_string() },
                object! { "type": "Hostname", "address": name.clone() },
            ],
            "allocatable": self.template.allocatable(),
            "capacity": self.template.capacity(),
            "conditions": conditions(ready, now_seconds),
            "daemonEndpoints": object! { "kubeletEndpoint": object! { "Port": KUBELET_PORT } },
            "declaredFeatures": DECLARED_FEATURES.map(Value::from).to_vec(),
            "features": object! { "supplementalGroupsPolicy": true },
            "images": images.to_vec(),
            "nodeInfo": object! {
                "architecture": architecture(),
                "bootID": id("boot"),
                "containerRuntimeVersion": format!("{}://{KUBELET_VERSION}", ids::RUNTIME),
                "kernelVersion": "simulated",
                "kubeProxyVersion": "",
                "kubeletVersion": KUBELET_VERSION,
                "machineID": id("machine"),
                "operatingSystem": "linux",
                "osImage": "a node that rkube simulates",
                "systemUUID": id("system"),
            },
            "runtimeHandlers": vec![object! {
                "name": "",
                "features": object! { "recursiveReadOnlyMounts": false, "userNamespaces": false },
            }],
        }
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// In upstream's order. They are merged by type; what has not changed keeps its time of change by [`keep_times`].
pub fn conditions(ready: bool, now_seconds: i64) -> Vec<Value> {
    let now = time::format_seconds(now_seconds);
    let rows = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        match ready {
            true => ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            false => ("Ready", "False", "KubeletNotReady", "the node is told to simulate that it is not ready"),
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
    fn a_node_says_what_it_has() {
        let template = Template::default();
        let identity = Identity { template: &template, index: 1, address: "172.24.0.3".parse().unwrap() };
        let node = identity.node(Subnet::parse_sloppy("10.128.1.0/24"), 0);
        assert_eq!(node.get("metadata").map("labels").str("kubernetes.io/hostname"), "sim-1");
        assert_eq!(node.get("spec").str("podCIDR"), "10.128.1.0/24");
        assert_eq!(node.get("status").get("nodeInfo").str("kubeletVersion"), "v1.36.4");
        assert_eq!(node.get("status").list("addresses")[0].str("address"), "172.24.0.3");
    }

    #[test]
    fn what_has_not_changed_keeps_its_time() {
        let before = conditions(true, 0);
        let mut after = conditions(false, 60);
        keep_times(&mut after, &before);
        let times: Vec<_> = after.iter().map(|condition| condition.str("lastTransitionTime").to_owned()).collect();
        assert_eq!(times[0], "1970-01-01T00:00:00Z");
        assert_eq!(times[3], "1970-01-01T00:01:00Z");
        assert_eq!(after[0].str("lastHeartbeatTime"), "1970-01-01T00:01:00Z");
    }
}
