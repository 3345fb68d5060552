//! Containers: what they are made of, and what became of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Namespaces;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContainerConfig {
    pub name: String,
    /// How often the container was made before.
    pub attempt: u32,
    /// What the pod calls it.
    pub image: String,
    /// The id of the image that it is made of.
    pub image_id: String,
    /// Empty: the image's entry point.
    pub command: Vec<String>,
    /// Empty, where the command is empty too: the image's.
    pub arguments: Vec<String>,
    /// Empty: the image's.
    pub working_directory: String,
    /// On top of the image's, in this order.
    pub environment: Vec<(String, String)>,
    /// In the order in which they are to be mounted.
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Relative to the sandbox's directory of logs, as `main/0.log`.
    pub log_path: PathBuf,
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
    pub resources: Resources,
    pub security: Security,
    pub namespaces: Namespaces,
    /// Whose process ids it sees, with [`super::NamespaceMode::Target`].
    pub target: Option<String>,
    /// As `SIGTERM`; None: the image's, or that.
    pub stop_signal: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mount {
    /// A file or a directory that is there.
    pub host_path: PathBuf,
    /// Absolute. Made in the image where it is not there.
    pub container_path: String,
    pub read_only: bool,
    /// What is mounted below it is read-only, too, or it fails. Implies `read_only`.
    pub recursive_read_only: bool,
    pub propagation: Propagation,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    #[default]
    Private,
    HostToContainer,
    Bidirectional,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Device {
    pub host_path: PathBuf,
    pub container_path: String,
    /// Of `rwm`.
    pub permissions: String,
}

/// What it may use. None and 0: no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    pub cpu_shares: Option<u64>,
    pub cpu_quota_micros: Option<i64>,
    pub cpu_period_micros: Option<u64>,
    pub memory_limit_bytes: Option<u64>,
    pub pids_limit: Option<u64>,
    pub cpuset_cpus: String,
    pub oom_score_adjust: i32,
    /// Sizes as `2MB` with their limit in bytes.
    pub huge_pages: BTreeMap<String, u64>,
    /// Further files of cgroup v2.
    pub unified: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Security {
    pub user: Option<u32>,
    /// A name in the image's `/etc/passwd`, where no number is given.
    pub user_name: String,
    pub group: Option<u32>,
    pub supplemental_groups: Vec<u32>,
    pub supplement: Supplement,
    pub capabilities: Capabilities,
    pub privileged: bool,
    pub read_only_root: bool,
    pub no_new_privileges: bool,
    pub seccomp: Confinement,
    pub apparmor: Confinement,
    pub masked_paths: Vec<String>,
    pub readonly_paths: Vec<String>,
}

/// Where supplemental groups come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Supplement {
    /// Also those that the image's `/etc/group` gives the user.
    #[default]
    Merge,
    /// Only those that were given.
    Strict,
}

/// On top of the runtime's default set. `ALL` stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// With or without the prefix `CAP_`.
    pub add: Vec<String>,
    pub drop: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confinement {
    #[default]
    Unconfined,
    RuntimeDefault,
    /// A profile file of this path, or a profile that the host has loaded under this name.
    Localhost(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    Created,
    Running,
    Exited,
    /// Its shim is gone: nobody knows what became of it.
    Unknown,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContainerStatus {
    pub id: String,
    pub sandbox: String,
    pub name: String,
    pub attempt: u32,
    pub state: ContainerState,
    pub created_micros: i64,
    /// 0: never.
    pub started_micros: i64,
    pub finished_micros: i64,
    /// 128 + the signal, if one ended it.
    pub exit_code: i32,
    /// `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, `StartError`, or empty while it runs.
    pub reason: String,
    pub message: String,
    pub image: String,
    /// What the pod's status shows as `imageID`: a repository with digest, or the image's own id.
    pub image_ref: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub log_path: PathBuf,
    pub mounts: Vec<Mount>,
    pub tty: bool,
    pub stdin: bool,
    /// Of its first process, as it was set; what pods show as `user`.
    pub user: Option<(u32, u32, Vec<u32>)>,
    /// The host's number of its first process, while it runs.
    pub pid: Option<u32>,
}
