//! The Node object of a simulated node.

use std::net::IpAddr;

use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Value, object};

use super::ids;
use super::template::Template;
use crate::digest::digest;
use crate::registration::{self, DECLARED_FEATURES, KUBELET_PORT, KUBELET_VERSION, architecture};

/// Why a node is not ready that is told so.
const TOLD_NOT_TO_BE: &str = "the node is told to simulate that it is not ready";

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
        let mut labels = registration::labels(&name);
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
            let digest = digest(&[what, &name]);
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
            "daemonEndpoints": object! { "kubeletEndpoint": object! { "Port": i64::from(KUBELET_PORT) } },
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

pub fn conditions(ready: bool, now_seconds: i64) -> Vec<Value> {
    registration::conditions((!ready).then_some(TOLD_NOT_TO_BE), now_seconds)
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
}
