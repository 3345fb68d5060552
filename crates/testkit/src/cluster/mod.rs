//! A whole cluster in the test's own process.

mod builder;
mod held_time;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use builder::Builder;
use rkube_cluster::{ControlPlane, Host, component_user};
use rkube_machinery::host::Clock;
use rkube_operator::{Caches, Environment, Fence, Source, kube};
use rkube_store::Store;
use tempfile::TempDir;

use crate::TIMEOUT;
use crate::faults::{Chaos, Wrong};

/// Who tests are, unless they say otherwise: one who may do everything.
const ADMIN: (&str, &str) = ("kubernetes-admin", "system:masters");
/// The program that a test is to the server, unless its requests say otherwise.
const AGENT: &str = "rkube-testkit";
/// How often is looked whether something has come true.
const STEP: Duration = Duration::from_millis(5);

/// API server, controllers and all that runs beside them, in this process.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use rkube_testkit::TestCluster;
///
/// let cluster = TestCluster::start().await;
/// let version = cluster.client().apiserver_version().await.unwrap();
/// assert_eq!(version.major, "1");
/// # }
/// ```
///
/// What it consists of, [`TestCluster::builder`] says. It ends when it is dropped; [`TestCluster::shutdown`] ends it in good
/// order. Clusters share nothing but constants, so that as many as you like may run at once, each on the runtime of its
/// test.
///
/// # Virtual time
///
/// With [`Builder::virtual_time`] the cluster lives in the time of tokio's paused clock, on a runtime of one thread. Time
/// stands while any task has something to do. When none has, it jumps to the next timer, whoever's that is: nothing waits,
/// timers fire in their order, and each finds everything done that came before it. So time also passes while the test
/// itself waits, be it for a minute's sleep or for a watch that says nothing; [`TestCluster::advance`] waits for no more than time.
///
/// No request is overtaken: in the process it is nothing but tasks, and while the store works on files, time is held.
/// What the runtime cannot see is: sockets (there is no listener in virtual time, and a webhook's answer would always be too
/// late) and threads that a test starts by itself, other than by `spawn_blocking`.
pub struct TestCluster {
    /// None once it has ended.
    plane: Option<ControlPlane>,
    host: Host,
    client: kube::Client,
    opened: Opened,
    outside: Option<Outside>,
    clock: Arc<dyn Clock>,
    virtual_time: bool,
    /// What goes wrong, if anything is to.
    wrong: Option<Wrong>,
}

/// The store of a cluster.
struct Opened {
    store: Arc<dyn Store>,
    /// Whether it ends with the cluster.
    ours: bool,
    /// Where it lies, if that is to go with it.
    directory: Option<TempDir>,
}

/// How others reach a cluster.
struct Outside {
    url: String,
    kubeconfig: PathBuf,
    _directory: TempDir,
}

impl TestCluster {
    /// One with everything, on a store in memory.
    pub async fn start() -> TestCluster {
        TestCluster::builder().start().await
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    fn new(
        plane: ControlPlane,
        opened: Opened,
        outside: Option<Outside>,
        clock: Arc<dyn Clock>,
        virtual_time: bool,
        wrong: impl FnOnce(&kube::Client) -> Option<Wrong>,
    ) -> TestCluster {
        let host = plane.host().clone();
        let client = host.client(component_user(ADMIN.0, &[ADMIN.1]), AGENT);
        let wrong = wrong(&client);
        TestCluster { plane: Some(plane), host, client, opened, outside, clock, virtual_time, wrong }
    }

    /// A client without a socket, for a user who may do everything.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// A client of this user in these groups, who may do what roles say.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> kube::Client {
        self.host.client(component_user(user, groups), AGENT)
    }

    /// What an operator of the test's own runs in, as a user who may do everything:
    /// `Operator::new(cluster.environment())`. If anything is to go wrong, it does there, too.
    pub fn environment(&self) -> Environment {
        let host = self.wrong.as_ref().map_or_else(|| self.host.clone(), |wrong| wrong.host(&self.host));
        let (user, fence) = (component_user(ADMIN.0, &[ADMIN.1]), Fence::default());
        let caches = Caches::new(host.source(user.clone()));
        let client = host.behind(&fence).client_for(&caches, user, AGENT);
        let entropy = self.host.entropy().clone();
        Environment { client, caches, clock: self.clock.clone(), entropy, fence, host_name: "test".to_owned() }
    }

    /// The server's own objects, for caches: what controllers in the server's process have.
    pub fn source(&self) -> Arc<dyn Source> {
        self.host.source(component_user(ADMIN.0, &[ADMIN.1]))
    }

    /// The cluster's time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What parts of the control plane get.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Where clients out of the process reach it, with [`Builder::listen`].
    pub fn url(&self) -> Option<&str> {
        Some(&self.outside.as_ref()?.url)
    }

    /// A kubeconfig for them: of a user who may do everything.
    pub fn kubeconfig(&self) -> Option<&Path> {
        Some(&self.outside.as_ref()?.kubeconfig)
    }

    /// What goes wrong in it, with [`Builder::faults`].
    pub fn chaos(&self) -> Option<&Arc<Chaos>> {
        self.wrong.as_ref().map(Wrong::chaos)
    }

    /// Nothing goes wrong from here on: parts that crashed or hang run again, nodes are there, and the clock is right.
    pub async fn end_faults(&self) {
        if let Some(wrong) = &self.wrong {
            wrong.end().await;
        }
    }

    /// What its controllers do, in numbers: how often each reconciled, how long that took, what waits.
    pub fn metrics(&self) -> String {
        self.plane.as_ref().map(ControlPlane::metrics).unwrap_or_default()
    }

    /// Lets so much time pass, in virtual time only. Everything that is to happen in it happens, in order.
    pub async fn advance(&self, time: Duration) {
        assert!(self.virtual_time, "time passes by itself: ask the builder for virtual time");
        // When nobody has anything to do, the runtime's time goes on to the next timer, at last to this one.
        tokio::time::sleep(time).await;
    }

    /// Asks again and again until the answer is there; panics with the last problem when a minute has passed.
    pub async fn eventually<T>(&self, what: &str, mut attempt: impl AsyncFnMut() -> Result<T, String>) -> T {
        let mut waited = Duration::ZERO;
        loop {
            match attempt().await {
                Ok(found) => return found,
                Err(problem) if waited >= TIMEOUT => panic!("{what}: {problem}"),
                Err(_) => tokio::time::sleep(STEP).await,
            }
            waited += STEP;
        }
    }

    /// Ends in good order: parts, server, store. To drop a cluster ends it, too, at once.
    pub async fn shutdown(mut self) {
        if let Some(plane) = self.plane.take() {
            plane.shutdown().await;
        }
        if self.opened.ours {
            self.opened.store.shutdown().await;
        }
        drop(self.opened.directory.take());
    }
}
