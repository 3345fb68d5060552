//! The volumes of pods. One kind, one file, one line in [`KINDS`].
//!
//! A kind says what a volume is to be ([`Content`]), for which it may ask the API; `set_up` has it there. What holds:
//! all of it can be done again, and then changes only what is different; `tear_down` leaves no mount and no file, also
//! of an earlier life of this process, and never what is in a volume that is not the pod's own.

mod atomic_writer;
mod config_map;
pub mod directory;
mod downward_api;
mod empty_dir;
mod host_path;
mod mounts;
pub mod objects;
mod ownership;
mod payload;
mod persistent;
mod projected;
mod secret;
mod set_up;
pub mod subpath;
mod tear_down;
#[cfg(test)]
mod tests;
pub mod tokens;

use std::collections::BTreeSet;
use std::path::PathBuf;

use futures::future::BoxFuture;
use rkube_machinery::{Text, Value};

use crate::pod::spec::containers;
use objects::ObjectReader;
use payload::Payload;
use tokens::Tokens;

pub use atomic_writer::version_name;
pub use ownership::ChangePolicy;
pub use set_up::{SetUp, set_up};
pub use tear_down::{known_pods, tear_down};

/// A kind of volume that this node knows.
pub struct Kind {
    /// The field of a volume that says that it is one.
    pub field: &'static str,
    pub gather: for<'a> fn(&'a Gather<'a>, &'a Value) -> BoxFuture<'a, Result<Gathered, Failure>>,
}

/// All that there are. The others are refused.
pub const KINDS: &[Kind] = &[
    Kind { field: "emptyDir", gather: |gather, volume| Box::pin(empty_dir::gather(gather, volume)) },
    Kind { field: "hostPath", gather: |gather, volume| Box::pin(host_path::gather(gather, volume)) },
    Kind { field: "configMap", gather: |gather, volume| Box::pin(config_map::gather(gather, volume)) },
    Kind { field: "secret", gather: |gather, volume| Box::pin(secret::gather(gather, volume)) },
    Kind { field: "projected", gather: |gather, volume| Box::pin(projected::gather(gather, volume)) },
    Kind { field: "downwardAPI", gather: |gather, volume| Box::pin(downward_api::gather(gather, volume)) },
    Kind { field: "persistentVolumeClaim", gather: |gather, volume| Box::pin(persistent::gather(gather, volume)) },
];

/// With what volumes are gathered.
pub struct Gather<'a> {
    pub pod: &'a Value,
    pub objects: &'a ObjectReader,
    pub tokens: &'a Tokens,
    /// What the node has for pods.
    pub allocatable: &'a Value,
    /// The group that volumes are to belong to, and the user of their tokens.
    pub group: Option<u32>,
    pub user: Option<u32>,
}

/// What a volume is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// What messages and directories call it: the volume's name, or that of the persistent volume behind it.
    pub name: Text,
    pub read_only: bool,
    /// A further group that who uses it is to be in.
    pub extra_group: Option<u32>,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A directory of the pod's own.
    Empty(Medium),
    /// Something of the host's, checked to be what the pod says that it is.
    Host { path: PathBuf, path_type: Text },
    /// Files that are written atomically.
    Files { plugin: &'static str, in_memory: bool, payload: Payload },
    /// A directory of the host's that is mounted into the pod's.
    Local { path: PathBuf },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    Disk,
    Memory { size_bytes: u64 },
    HugePages { page_size: String },
}

/// Why a volume cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It cannot be set up: `MountVolume.SetUp failed for volume "x" : …`.
    SetUp { name: Text, why: String },
    /// It is not known what it is to be, because of its claim.
    Process { why: String },
}

impl Failure {
    fn set_up(volume: &Value, why: impl Into<String>) -> Failure {
        Failure::SetUp { name: volume.str("name").into(), why: why.into() }
    }
}

impl Gathered {
    fn new(volume: &Value, content: Content) -> Gathered {
        Gathered { name: volume.str("name").into(), read_only: false, extra_group: None, content }
    }
}

/// The kind of a volume; None: one that this node does not know.
pub fn kind_of(volume: &Value) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| volume.has(kind.field))
}

/// The volumes that a container of the pod uses. The others need not be there.
pub fn used(pod: &Value) -> Vec<&Value> {
    let mut names = BTreeSet::new();
    for container in containers(pod) {
        names.extend(container.value.list("volumeMounts").iter().map(|mount| mount.str("name")));
        names.extend(container.value.list("volumeDevices").iter().map(|device| device.str("name")));
        let files = container.value.list("env").iter().map(|variable| variable.get("valueFrom").get("fileKeyRef"));
        names.extend(files.map(|file| file.str("volumeName")));
    }
    pod.get("spec").list("volumes").iter().filter(|volume| names.contains(volume.str("name"))).collect()
}

/// Several errors as Go puts them together.
pub fn aggregate(mut errors: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.len() {
        1 => errors.remove(0),
        _ => format!("[{}]", errors.join(", ")),
    }
}
