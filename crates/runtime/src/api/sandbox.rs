//! Sandboxes: what the containers of one pod share.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Resources, Security};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SandboxConfig {
    pub pod_name: String,
    pub pod_namespace: String,
    pub pod_uid: String,
    /// How often the pod's sandbox was made before.
    pub attempt: u32,
    /// Empty: the host's own.
    pub hostname: String,
    /// Where the logs of its containers are; their paths are relative to it.
    pub log_directory: PathBuf,
    pub dns: DnsConfig,
    pub ports: Vec<PortMapping>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Relative to where cgroups of pods are, as `burstable/pod<uid>`: the parent of all cgroups of the pod.
    pub cgroup_parent: String,
    /// What all containers together may use.
    pub resources: Resources,
    pub namespaces: Namespaces,
    pub sysctls: BTreeMap<String, String>,
    /// Of the process that holds the namespaces.
    pub security: Security,
    /// RuntimeClass handler; empty: the default one.
    pub runtime_handler: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsConfig {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    pub network: NamespaceMode,
    pub pid: NamespaceMode,
    pub ipc: NamespaceMode,
}

/// Who shares a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceMode {
    /// All containers of the pod.
    #[default]
    Pod,
    /// Nobody: each container has its own. Of process ids alone.
    Container,
    /// The host.
    Node,
    /// The container of this id: of process ids alone, for ephemeral containers that look at another one. The id is in
    /// [`super::ContainerConfig::target`].
    Target,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMapping {
    pub protocol: Protocol,
    pub container_port: u16,
    pub host_port: u16,
    /// None: all addresses of the host.
    pub host_ip: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxState {
    Ready,
    NotReady,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SandboxStatus {
    pub id: String,
    pub config: SandboxConfig,
    pub state: SandboxState,
    pub created_micros: i64,
    /// None with the host's network.
    pub addresses: Vec<IpAddr>,
}
