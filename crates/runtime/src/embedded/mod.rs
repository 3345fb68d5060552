//! The runtime that needs nothing else installed: a shim for each pod, and files that say what there is.
//!
//! What holds: whatever is made is written down before it is made, so that a crash between any two steps leaves something
//! that is shown, and that can be removed by its id. The truth about what runs is with the shims; this process only knows
//! what they told it. A shim that is gone takes its containers with it.

mod adopt;
mod bundle;
mod client;
mod container;
mod images;
mod problem;
mod program;
mod sandbox;
mod state;
mod stats;
mod stored;
mod streams;
mod terminal;

pub use images::{Images, Prepared};
pub use problem::problem;
pub use stored::{Pull, StoredImages, pull_from};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::api::{
    ContainerConfig, ContainerStatus, Credentials, Error, Event, ExecOutput, ExecRequest, FilesystemUsage,
    ForwardedPort, Image, ImageFilesystem, PodNetwork, Result, Runtime, SandboxConfig, SandboxStats, SandboxStatus,
    Session, Status, Version,
};
use crate::cgroups::{Cgroups, Hierarchies};
use state::{Container, Sandbox};

/// Who listens to events and falls behind by more is told to look at all.
const EVENTS_MAX: usize = 1024;
/// Before logs are rotated, and how many files are kept of a container.
pub const LOG_FILE_MAX_BYTES: u64 = 10 << 20;
pub const LOG_FILES_MAX: usize = 5;

/// Fills with random bytes.
pub type Entropy = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

pub struct Config {
    /// For what does not outlive the machine: sockets, and files that pods see.
    pub run_directory: PathBuf,
    /// For what does: who containers were, and what became of them.
    pub data_directory: PathBuf,
    pub images: Arc<dyn Images>,
    pub network: Arc<dyn PodNetwork>,
    /// The cgroup of all pods, as `kubepods`.
    pub cgroup_root: String,
    /// This program: it becomes a shim when it is called with [`crate::shim::COMMAND`].
    pub shim_program: PathBuf,
    /// What nodes say that they run.
    pub version: String,
    /// Nanoseconds since 1970.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub entropy: Entropy,
    /// 0: logs are not rotated.
    pub log_file_max_bytes: u64,
    pub log_files_max: usize,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    hierarchies: Hierarchies,
    cgroups: Box<dyn Cgroups>,
    program: program::Program,
    sandboxes: Mutex<BTreeMap<String, Arc<Sandbox>>>,
    containers: Mutex<BTreeMap<String, Arc<Container>>>,
    events: broadcast::Sender<Event>,
    /// What containers wrote into their roots, and when that was measured.
    root_usage: Mutex<BTreeMap<String, (i64, FilesystemUsage)>>,
}

impl Embedded {
    /// Opens what there is, and finds what still runs.
    pub async fn open(config: Config) -> Result<Self> {
        let hierarchies = Hierarchies::of_host().map_err(|error| Error::Internal(error.to_string()))?;
        Self::open_on(config, hierarchies).await
    }

    /// The same on some of the host's cgroups only.
    pub async fn open_on(config: Config, hierarchies: Hierarchies) -> Result<Self> {
        let cgroups = hierarchies.open();
        let program = program::Program::open(&config.shim_program);
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let (sandboxes, containers, root_usage) = Default::default();
        let inner = Inner { config, hierarchies, cgroups, program, sandboxes, containers, events, root_usage };
        let inner = Arc::new(inner);
        inner.adopt().await?;
        Ok(Self { inner })
    }

    /// Ends and removes everything: sandboxes, containers, shims, cgroups. Images stay.
    pub async fn clear(&self) -> Result<()> {
        self.inner.clear().await
    }
}

impl Inner {
    fn now_micros(&self) -> i64 {
        i64::try_from((self.config.clock)() / 1000).unwrap_or(i64::MAX)
    }

    fn new_id(&self) -> String {
        let mut bytes = [0; 32];
        (self.config.entropy)(&mut bytes);
        bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
            use std::fmt::Write;
            let _infallible = write!(text, "{byte:02x}");
            text
        })
    }

    fn sandbox(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.sandboxes.lock().get(id).cloned()
    }

    fn container(&self, id: &str) -> Result<Arc<Container>> {
        let found = self.containers.lock().get(id).cloned();
        found.ok_or_else(|| Error::NotFound(format!("container {id:?} not found")))
    }

    fn containers_of(&self, sandbox: &str) -> Vec<Arc<Container>> {
        self.containers.lock().values().filter(|container| container.file.sandbox == sandbox).cloned().collect()
    }

    fn tell(&self, event: Event) {
        let _nobody_listens = self.events.send(event);
    }

    fn sandboxes_directory(&self) -> PathBuf {
        self.config.data_directory.join("sandboxes")
    }

    fn containers_directory(&self) -> PathBuf {
        self.config.data_directory.join("containers")
    }

    /// The pod's cgroup.
    fn pod_cgroup(&self, config: &SandboxConfig) -> String {
        let parent = config.cgroup_parent.trim_matches('/');
        let parent = if parent.is_empty() { config.pod_uid.as_str() } else { parent };
        format!("{}/{parent}", self.config.cgroup_root)
    }
}

type Answer<'a, T> = BoxFuture<'a, Result<T>>;

impl Runtime for Embedded {
    fn version(&self) -> Version {
        Version { name: "rkube".to_owned(), version: self.inner.config.version.clone() }
    }

    fn status(&self) -> Answer<'_, Status> {
        let network_problem = self.inner.config.network.problem();
        futures::future::ready(Ok(Status { runtime_problem: None, network_problem })).boxed()
    }

    fn run_sandbox(&self, config: SandboxConfig) -> Answer<'_, String> {
        self.inner.run_sandbox(config).boxed()
    }

    fn stop_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.inner.stop_sandbox(id).boxed()
    }

    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.inner.remove_sandbox(id).boxed()
    }

    fn sandboxes(&self) -> Answer<'_, Vec<SandboxStatus>> {
        let sandboxes = self.inner.sandboxes.lock().values().map(|sandbox| sandbox.status()).collect();
        futures::future::ready(Ok(sandboxes)).boxed()
    }

    fn create_container<'a>(&'a self, sandbox: &'a str, config: ContainerConfig) -> Answer<'a, String> {
        self.inner.create_container(sandbox, config).boxed()
    }

    fn start_container<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.inner.start_container(id).boxed()
    }

    fn stop_container<'a>(&'a self, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        self.inner.stop_container(id, grace).boxed()
    }

    fn remove_container<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.inner.remove_container(id).boxed()
    }

    fn containers(&self) -> Answer<'_, Vec<ContainerStatus>> {
        let containers = self.inner.containers.lock().values().map(|container| container.status()).collect();
        futures::future::ready(Ok(containers)).boxed()
    }

    fn container<'a>(&'a self, id: &'a str) -> Answer<'a, ContainerStatus> {
        futures::future::ready(self.inner.container(id).map(|container| container.status())).boxed()
    }

    fn events(&self) -> BoxStream<'static, Event> {
        let listening = self.inner.events.subscribe();
        futures::stream::unfold(listening, |mut listening| async {
            match listening.recv().await {
                Ok(event) => Some((event, listening)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Event::Missed, listening)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        })
        .boxed()
    }

    fn exec_sync<'a>(&'a self, id: &'a str, command: Vec<String>, timeout: Duration) -> Answer<'a, ExecOutput> {
        self.inner.exec_sync(id, command, timeout).boxed()
    }

    fn exec<'a>(&'a self, id: &'a str, request: ExecRequest) -> Answer<'a, Session> {
        self.inner.exec(id, request).boxed()
    }

    fn attach<'a>(&'a self, id: &'a str, request: ExecRequest) -> Answer<'a, Session> {
        self.inner.attach(id, request).boxed()
    }

    fn port_forward<'a>(&'a self, sandbox: &'a str, port: u16) -> Answer<'a, ForwardedPort> {
        self.inner.port_forward(sandbox, port).boxed()
    }

    fn sandbox_stats(&self) -> Answer<'_, Vec<SandboxStats>> {
        self.inner.sandbox_stats().boxed()
    }

    fn pull_image<'a>(&'a self, reference: &'a str, credentials: Option<Credentials>) -> Answer<'a, Image> {
        self.inner.config.images.pull(reference, credentials)
    }

    fn image<'a>(&'a self, reference: &'a str) -> Answer<'a, Option<Image>> {
        self.inner.config.images.find(reference)
    }

    fn images(&self) -> Answer<'_, Vec<Image>> {
        self.inner.config.images.list()
    }

    fn remove_image<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.inner.config.images.remove(id)
    }

    fn image_filesystem(&self) -> Answer<'_, ImageFilesystem> {
        self.inner.config.images.filesystem()
    }
}
