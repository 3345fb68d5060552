//! The network as others use it: a handle to the thread that has it.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rkube_machinery::names::address::Subnet;
use rkube_runtime::api::{self, Attachment, PodNetwork};
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::config::Config;
use crate::error::Error;
use crate::node::Node;

/// So many wait for their turn at the kernel; who comes then waits to wait.
const WAITING_MAX: usize = 256;
/// How often to look whether all is still there.
const CHECK_PERIOD: Duration = Duration::from_secs(30);

/// The network of this node's pods. Ends with the last handle; what was made stays for the next life.
#[derive(Clone)]
pub struct Network {
    jobs: mpsc::Sender<Job>,
    shown: Arc<Mutex<Shown>>,
    config: Arc<Config>,
}

/// What is known without asking the thread.
#[derive(Default)]
struct Shown {
    /// What belongs to the host is there.
    started: bool,
    problem: Option<String>,
    /// Why there are no rules.
    rules_problem: Option<String>,
}

enum Job {
    Attach(Attachment, oneshot::Sender<Result<Vec<IpAddr>, Error>>),
    Detach(String, oneshot::Sender<Result<(), Error>>),
    Retain(Vec<String>, oneshot::Sender<Result<(), Error>>),
    SetPodRanges(Vec<Subnet>, oneshot::Sender<Result<(), Error>>),
}

impl Network {
    /// Makes what belongs to the host, in the network namespace of the calling thread. Where that is refused,
    /// [`PodNetwork::problem`] says why, and it is tried again with the next pod.
    pub async fn start(config: Config) -> Network {
        let (jobs, receiver) = mpsc::channel(WAITING_MAX);
        let shown = Arc::new(Mutex::new(Shown::default()));
        let (ready, started) = oneshot::channel();
        let mut worker = Worker {
            config: config.clone(),
            node: None,
            wanted_ranges: config.pod_ranges.clone(),
            shown: Arc::clone(&shown),
        };
        let thread = std::thread::Builder::new().name("pod-network".to_owned()).spawn(move || {
            worker.start();
            // Whoever asked may be gone.
            let _ = ready.send(());
            worker.run(receiver);
        });
        match thread {
            Ok(_) => drop(started.await),
            Err(error) => shown.lock().problem = Some(format!("no thread can be started for it: {error}")),
        }
        Network { jobs, shown, config: Arc::new(config) }
    }

    /// Where pods get their addresses from, from now on. Those that have one keep it.
    pub async fn set_pod_ranges(&self, ranges: Vec<Subnet>) -> api::Result<()> {
        self.ask(|answer| Job::SetPodRanges(ranges, answer)).await
    }

    /// Where the API server has to listen for pods to reach it. Empty where they have no network.
    pub fn api_addresses(&self) -> Vec<SocketAddr> {
        let shown = self.shown.lock();
        let (Some(api), true) = (self.config.api, shown.started) else { return Vec::new() };
        let service = shown.rules_problem.is_some().then_some(api.service);
        [api.backend].into_iter().chain(service).collect()
    }

    /// What pods lack here, in a sentence, where they have a network all the same.
    pub fn limitation(&self) -> Option<String> {
        let why = self.shown.lock().rules_problem.clone()?;
        Some(format!("pods have no way out of this host, and no host ports: {why}"))
    }

    /// Removes all of it: links, rules, routes, records. For `rkube reset`, when nobody else has it.
    pub fn tear_down(name: &str, state_directory: &Path) -> api::Result<()> {
        let config = Config {
            name: name.to_owned(),
            gateways: Vec::new(),
            cluster_ranges: Vec::new(),
            pod_ranges: Vec::new(),
            service_ranges: Vec::new(),
            api: None,
            state_directory: state_directory.to_owned(),
        };
        Ok(Node::open(config)?.tear_down()?)
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Job) -> api::Result<T> {
        let (sender, answer) = oneshot::channel();
        self.jobs.send(job(sender)).await.map_err(|_| Error::Ended)?;
        Ok(answer.await.map_err(|_| Error::Ended)??)
    }
}

impl PodNetwork for Network {
    fn problem(&self) -> Option<String> {
        self.shown.lock().problem.clone()
    }

    fn attach(&self, attachment: Attachment) -> BoxFuture<'_, api::Result<Vec<IpAddr>>> {
        self.ask(|answer| Job::Attach(attachment, answer)).boxed()
    }

    fn detach<'a>(&'a self, sandbox: &'a str) -> BoxFuture<'a, api::Result<()>> {
        self.ask(|answer| Job::Detach(sandbox.to_owned(), answer)).boxed()
    }

    fn retain(&self, sandboxes: Vec<String>) -> BoxFuture<'_, api::Result<()>> {
        self.ask(|answer| Job::Retain(sandboxes, answer)).boxed()
    }
}

/// What the thread has.
struct Worker {
    config: Config,
    node: Option<Node>,
    wanted_ranges: Vec<Subnet>,
    shown: Arc<Mutex<Shown>>,
}

impl Worker {
    /// Makes what belongs to the host, where that is not done.
    fn start(&mut self) {
        let started = self.shown.lock().started;
        let made = if started { Ok(()) } else { self.node().and_then(Node::ensure) };
        let mut shown = self.shown.lock();
        match (&made, &self.node) {
            (Ok(()), Some(node)) => {
                shown.started = true;
                shown.problem = (!node.has_pod_ranges()).then(|| NO_RANGE.to_owned());
                shown.rules_problem = node.rules_problem().map(str::to_owned);
            }
            (Err(error), _) => shown.problem = Some(explain(error)),
            (Ok(()), None) => {}
        }
    }

    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else { return };
        runtime.block_on(async {
            let mut checks = interval_at(Instant::now() + CHECK_PERIOD, CHECK_PERIOD);
            checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    biased;
                    _ = checks.tick() => self.check(),
                    job = jobs.recv() => match job {
                        Some(job) => self.work(job),
                        None => return,
                    },
                }
            }
        });
    }

    /// Who asked may have gone meanwhile: then nobody hears the answer.
    fn work(&mut self, job: Job) {
        match job {
            Job::Attach(attachment, answer) => {
                _ = answer.send(self.started_node().and_then(|node| node.attach(&attachment)));
            }
            Job::Detach(sandbox, answer) => _ = answer.send(self.remove(|node| node.detach(&sandbox))),
            Job::Retain(sandboxes, answer) => _ = answer.send(self.remove(|node| node.retain(&sandboxes))),
            Job::SetPodRanges(ranges, answer) => {
                self.wanted_ranges = ranges;
                _ = answer.send(self.set_pod_ranges());
            }
        }
    }

    /// What there is of the network, whether or not more can be made.
    fn node(&mut self) -> Result<&mut Node, Error> {
        if self.node.is_none() {
            let config = Config { pod_ranges: self.wanted_ranges.clone(), ..self.config.clone() };
            self.node = Some(Node::open(config)?);
        }
        self.node.as_mut().ok_or(Error::Ended)
    }

    /// Who never had the network has nothing to remove from it.
    fn remove(&mut self, remove: impl FnOnce(&mut Node) -> Result<(), Error>) -> Result<(), Error> {
        match self.node() {
            Ok(node) => remove(node),
            Err(Error::Claimed) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What could not be made before may be possible now.
    fn started_node(&mut self) -> Result<&mut Node, Error> {
        self.start();
        let shown = self.shown.lock();
        if !shown.started {
            return Err(Error::Problem(shown.problem.clone().unwrap_or_default()));
        }
        drop(shown);
        self.node()
    }

    fn set_pod_ranges(&mut self) -> Result<(), Error> {
        let ranges = self.wanted_ranges.clone();
        self.node()?.set_pod_ranges(&ranges);
        self.start();
        Ok(())
    }

    fn check(&mut self) {
        if !self.shown.lock().started {
            return;
        }
        if let Err(error) = self.node().and_then(Node::check) {
            tracing::warn!(%error, "cannot look after the network of pods");
        }
    }
}

const NO_RANGE: &str = "the node has no range of addresses for its pods yet";

fn explain(error: &Error) -> String {
    match error {
        Error::Kernel(kernel) if matches!(kernel.errno(), Some(Errno::PERM | Errno::ACCESS)) => format!(
            "rkube may not change the network of this host ({error}): run it as root or with CAP_NET_ADMIN; pods with \
             hostNetwork work without"
        ),
        Error::Problem(text) => text.clone(),
        _ => error.to_string(),
    }
}
