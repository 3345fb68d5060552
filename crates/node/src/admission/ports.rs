//! Ports of the host that pods take.

use rkube_machinery::{Text, Value};

use crate::pod::spec;

const ANY: &str = "0.0.0.0";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    ip: Text,
    protocol: Text,
    port: i64,
}

impl HostPort {
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let same_address = self.ip == other.ip || self.ip == ANY || other.ip == ANY;
        self.port == other.port && self.protocol == other.protocol && same_address
    }
}

/// Of containers that run for as long as the pod does.
pub fn of_pod(pod: &Value) -> Vec<HostPort> {
    let lasting = spec::containers(pod)
        .into_iter()
        .filter(|container| matches!(container.role, spec::Role::Main | spec::Role::Sidecar));
    let ports = lasting.flat_map(|container| container.value.list("ports"));
    let or = |text: &str, default: &str| -> Text { if text.is_empty() { default.into() } else { text.into() } };
    ports
        .filter(|port| port.int("hostPort") > 0)
        .map(|port| HostPort {
            ip: or(port.str("hostIP"), ANY),
            protocol: or(port.str("protocol"), "TCP"),
            port: port.int("hostPort"),
        })
        .collect()
}
