//! What a container is made of, worked out by the daemon and read by the shim.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::{Device, Mount, Namespaces, Resources, Security};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Bundle {
    pub id: String,
    /// Its files, mounted on the host by whoever keeps images.
    pub root: PathBuf,
    /// An empty directory: where the root is mounted in the container's own namespace.
    pub mount_point: PathBuf,
    pub arguments: Vec<String>,
    /// As `NAME=value`.
    pub environment: Vec<String>,
    pub working_directory: String,
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    pub resources: Resources,
    pub security: Security,
    /// As the image says it: `user`, `1000`, `user:group`; where the pod says nothing.
    pub image_user: String,
    pub namespaces: Namespaces,
    /// The container whose process ids it sees.
    pub target: Option<String>,
    /// Relative to the root of all hierarchies.
    pub cgroup: String,
    /// None: what it writes is lost.
    pub log: Option<PathBuf>,
    pub terminal: bool,
    pub stdin: bool,
    pub stdin_once: bool,
}

/// Who a process is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUser {
    pub user: u32,
    pub group: u32,
    pub groups: Vec<u32>,
}
