//! What a kubelet asks of a container runtime.
//!
//! What holds for every implementation: ids are unique for ever; what was stopped or removed already is stopped or removed
//! again without a complaint; what a crash of the caller left half done is shown by [`Runtime::sandboxes`] and
//! [`Runtime::containers`], and can be removed by its id; no call waits for ever unless its documentation says so.

mod container;
mod error;
mod image;
mod network;
mod sandbox;
mod stats;
mod stream;

pub use container::{
    Capabilities, Confinement, ContainerConfig, ContainerState, ContainerStatus, Device, Mount, Propagation, Resources,
    Security, Supplement,
};
pub use error::Error;
pub use image::{Credentials, Image, ImageFilesystem, PullProgress};
pub use network::{Attachment, PodNetwork};
pub use sandbox::{
    DnsConfig, NamespaceMode, Namespaces, PortMapping, Protocol, SandboxConfig, SandboxState, SandboxStatus,
};
pub use stats::{ContainerStats, Cpu, FilesystemUsage, Interface, Memory, SandboxStats};
pub use stream::{ExecOutput, ExecRequest, ForwardedPort, Session, StdinStream, StdoutStream, TerminalSize};

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub type Result<T> = std::result::Result<T, Error>;
type Answer<'a, T> = BoxFuture<'a, Result<T>>;

/// Something that runs containers.
pub trait Runtime: Send + Sync + 'static {
    /// What nodes say that they run: name and version.
    fn version(&self) -> Version;

    /// What is wrong with it, if anything: then no pod is to be started.
    fn status(&self) -> Answer<'_, Status>;

    // Sandboxes: what the containers of a pod share.

    /// Makes namespaces and network of a pod. The id of it.
    fn run_sandbox(&self, config: SandboxConfig) -> Answer<'_, String>;

    /// Ends its containers without grace, and takes its network away. What it was stays to be asked for.
    fn stop_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// Removes what is left of it, with its containers.
    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// All that there are, also of an earlier life of this process.
    fn sandboxes(&self) -> Answer<'_, Vec<SandboxStatus>>;

    // Containers.

    fn create_container<'a>(&'a self, sandbox: &'a str, config: ContainerConfig) -> Answer<'a, String>;

    fn start_container<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// Sends the container's stop signal, and after this time one that cannot be ignored. Returns when it has ended.
    fn stop_container<'a>(&'a self, id: &'a str, grace: Duration) -> Answer<'a, ()>;

    /// Removes it with its files; its log stays. One that runs is killed.
    fn remove_container<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    fn containers(&self) -> Answer<'_, Vec<ContainerStatus>>;

    fn container<'a>(&'a self, id: &'a str) -> Answer<'a, ContainerStatus>;

    /// What happened to containers, from now on. Who is too slow is told by [`Event::Missed`] to look at all.
    fn events(&self) -> BoxStream<'static, Event>;

    // Streams.

    /// Runs a command in a container to its end, or until the time is over ([`Error::TimedOut`]): then it is killed.
    /// Output beyond the bound is dropped.
    fn exec_sync<'a>(&'a self, id: &'a str, command: Vec<String>, timeout: Duration) -> Answer<'a, ExecOutput>;

    /// Runs a command with streams. It is killed when the session is dropped.
    fn exec<'a>(&'a self, id: &'a str, request: ExecRequest) -> Answer<'a, Session>;

    /// The streams of the container's first process. Output from now on, and of a container that is not started yet all of it.
    fn attach<'a>(&'a self, id: &'a str, request: ExecRequest) -> Answer<'a, Session>;

    /// A connection to this port on the sandbox's loopback.
    fn port_forward<'a>(&'a self, sandbox: &'a str, port: u16) -> Answer<'a, ForwardedPort>;

    // Figures.

    fn sandbox_stats(&self) -> Answer<'_, Vec<SandboxStats>>;

    // Images.

    /// Has an image ready under its reference, and says what it is. `None`: whoever may be asked without a name.
    fn pull_image<'a>(&'a self, reference: &'a str, credentials: Option<Credentials>) -> Answer<'a, Image>;

    /// An image by reference, digest or id; None where it is not here.
    fn image<'a>(&'a self, reference: &'a str) -> Answer<'a, Option<Image>>;

    fn images(&self) -> Answer<'_, Vec<Image>>;

    /// Removes an image by its id, with all its names. What containers were made of stays until they are gone.
    fn remove_image<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    fn image_filesystem(&self) -> Answer<'_, ImageFilesystem>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub name: String,
    pub version: String,
}

/// Whether pods can be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Why no containers can be run.
    pub runtime_problem: Option<String>,
    /// Why no pod can have a network of its own; those on the host's still run.
    pub network_problem: Option<String>,
}

/// Something happened to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Started {
        sandbox: String,
        container: String,
    },
    Stopped {
        sandbox: String,
        container: String,
    },
    /// The sandbox is gone without anybody having asked for it.
    SandboxLost {
        sandbox: String,
    },
    /// Some were missed: look at everything.
    Missed,
}
