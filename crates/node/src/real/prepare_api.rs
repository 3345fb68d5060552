//! What the pod workers ask of whoever turns a Pod into something that a container runtime can run: volumes, environment,
//! security context.
//!
//! What holds for every implementation: all calls may be made again, also by another life of this process, and then do
//! only what is still missing; no call waits for ever.

use std::net::IpAddr;
use std::path::PathBuf;

use futures::future::BoxFuture;
use rkube_machinery::{Text, Value};
use rkube_runtime::api::{ContainerConfig, Image, SandboxConfig};

/// Why something cannot be done: the reason and the text that pods and events show, as upstream words them.
///
/// Of a container the reason is what it waits with (`CreateContainerConfigError`, `CreateContainerError`,
/// `RunContainerError`), of volumes that of the event (`FailedMount`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    pub reason: Text,
    pub message: String,
}

impl Problem {
    pub fn new(reason: &str, message: impl Into<String>) -> Problem {
        Problem { reason: reason.into(), message: message.into() }
    }
}

type Answer<'a, T> = BoxFuture<'a, Result<T, Problem>>;

/// What is known of a container that is about to be created, beyond the pod.
#[derive(Clone, Copy, Debug)]
pub struct ContainerContext<'a> {
    /// How often it was created before.
    pub attempt: u32,
    /// What it is made of.
    pub image: &'a Image,
    /// The pod's, the first one first; with the host's network the node's. What `status.podIP` means in its environment.
    pub addresses: &'a [IpAddr],
    /// The node's, the first one first.
    pub host_addresses: &'a [IpAddr],
    /// The id of the container whose processes an ephemeral container wants to see, where that one runs.
    pub target: Option<&'a str>,
}

/// Prepares pods for a runtime.
pub trait Prepare: Send + Sync + 'static {
    /// Why a pod cannot run here because of what this does not know, as a volume of some kind: the pod fails with it.
    /// Asked once, before anything else.
    fn admit(&self, pod: &Value) -> Result<(), Problem>;

    /// Has all volumes of the pod ready. Where something is missing it fails within seconds; it is asked again then.
    fn mount<'a>(&'a self, pod: &'a Value) -> Answer<'a, ()>;

    /// Brings up to date what may change while the pod runs: config maps, secrets, tokens, downward API. Asked about once
    /// in a minute, and when the pod itself has changed. Who watches more may do more in between.
    fn refresh<'a>(&'a self, pod: &'a Value) -> Answer<'a, ()>;

    /// Whether the pod uses no more of the disk than it may; where it does, it is to be evicted with this reason and
    /// message. `containers`: what each of them uses for its writable layer and its logs. Asked every ten seconds or so
    /// while the pod runs; costs nothing where nothing is limited.
    fn check_storage<'a>(&'a self, _pod: &'a Value, _containers: &'a [(Text, u64)]) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Takes all of it away, with the pod's directory. No container of the pod is left then.
    fn unmount<'a>(&'a self, uid: &'a str) -> Answer<'a, ()>;

    /// The uids of all pods of which something is left on this machine.
    fn known_pods(&self) -> Vec<Text>;

    /// The sandbox of a pod. Labels and annotations by which the pod is found again are added by who asks.
    fn sandbox<'a>(&'a self, pod: &'a Value, attempt: u32) -> Answer<'a, SandboxConfig>;

    /// A container of it; `container` stands in one of the three lists of the pod's spec. Labels and annotations by which
    /// it is found again are added by who asks. The file of [`Prepare::termination_log`] is among its mounts.
    fn container<'a>(
        &'a self,
        pod: &'a Value,
        container: &'a Value,
        context: ContainerContext<'a>,
    ) -> Answer<'a, ContainerConfig>;

    /// Where on this machine the container leaves its last words.
    fn termination_log(&self, pod_uid: &str, container: &str, attempt: u32) -> PathBuf;
}
