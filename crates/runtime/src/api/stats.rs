//! What sandboxes and containers use now.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxStats {
    pub id: String,
    pub pod_name: String,
    pub pod_namespace: String,
    pub pod_uid: String,
    /// When the figures were read.
    pub at_micros: i64,
    pub cpu: Cpu,
    pub memory: Memory,
    pub processes: u64,
    /// Of its network namespace; none with the host's.
    pub interfaces: Vec<Interface>,
    pub containers: Vec<ContainerStats>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStats {
    pub id: String,
    pub name: String,
    pub at_micros: i64,
    pub started_micros: i64,
    pub cpu: Cpu,
    pub memory: Memory,
    /// The container's writable layer.
    pub root: FilesystemUsage,
    pub logs: FilesystemUsage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Since the container was started.
    pub usage_core_nanos: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub working_set_bytes: u64,
    pub usage_bytes: u64,
    pub rss_bytes: u64,
    pub page_faults: u64,
    pub major_page_faults: u64,
    /// 0: without one.
    pub limit_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    pub used_bytes: u64,
    pub used_inodes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub received_bytes: u64,
    pub received_errors: u64,
    pub sent_bytes: u64,
    pub sent_errors: u64,
}
