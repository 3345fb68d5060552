//! The worker of a pod: a task that holds what is known of it, has things done, and hears of what came of them.
//!
//! Nothing that takes long is waited for: what the plan asks for runs as an operation of its own, of which there is at most
//! one for each container, one for volumes, one for the sandbox and one for the status. So a pod that pulls an image is
//! still stopped at once, and one whose API server does not answer is still restarted.
//!
//! - [`sync`]: a pod that is to run; [`stop`]: one that is not; [`storage`]: one that uses too much of the disk; [`observe`]: what the runtime says; [`report`]: what the
//!   API is told.

mod observe;
mod report;
mod stop;
mod storage;
mod sync;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::{Text, Value};
use rkube_runtime::api::ContainerStatus;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::images::PullProblem;
use super::inbox::{Found, Inbox, News};
use super::kubelet::Kubelet;
use super::prepare_api::Problem;
use super::probes;
use super::start::Failure;
use crate::pod::backoff::micros;
use crate::pod::resize;
use crate::pod::state::{PodState, Run};
use stop::Stopping;

/// What fails is tried again after this time, doubled with each further failure up to the other.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(122);

pub(super) struct Worker {
    kubelet: Arc<Kubelet>,
    inbox: Arc<Inbox>,
    uid: Text,
    pod: Arc<Value>,
    /// What stands in the API for a static pod; None for others.
    mirror: Option<Arc<Value>>,
    origin: Origin,
    state: PodState,
    life: Life,
    was_admitted: bool,
    volumes: Volumes,
    sandbox: Sandbox,
    /// How many sandboxes the pod has had.
    sandboxes_made: u32,
    /// Of earlier times: to be removed.
    old_sandboxes: Vec<String>,
    operations: JoinSet<Done>,
    /// Says to operations that the pod is to stop.
    stopping: watch::Sender<bool>,
    probes: probes::Set,
    /// Of containers that are killed because their first hook failed: what it said.
    hook_errors: HashMap<Text, String>,
    writer: report::Writer,
    wake_micros: Option<i64>,
    /// When it began to be started, or to be stopped.
    begun_micros: i64,
}

/// Where a pod comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Api,
    /// A file of this machine.
    File,
    /// It runs, and nobody knows why.
    Orphan,
}

enum Life {
    Running,
    Stopping(Stopping),
    /// No container runs, and none will.
    Stopped(stop::Ending),
    /// Nothing is left of it.
    Over,
}

#[derive(Default)]
struct Volumes {
    ready: bool,
    busy: bool,
    retry: Retry,
    refreshed_micros: i64,
    measuring: bool,
    measured_micros: i64,
}

enum Sandbox {
    None {
        retry: Retry,
    },
    Making {
        retry: Retry,
    },
    Ready {
        id: String,
    },
    /// It died: what is left of it is being taken away.
    Dead {
        busy: bool,
        id: String,
    },
}

/// Something that failed, and when to try again.
#[derive(Clone, Copy, Debug, Default)]
struct Retry {
    failures: u32,
    until_micros: i64,
}

impl Retry {
    fn fail(&mut self, now_micros: i64) {
        let delay = (RETRY_FIRST * (1 << self.failures.min(10))).min(RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        self.until_micros = now_micros + micros(delay);
    }
}

/// What an operation came to.
enum Done {
    Mounted(Result<(), Problem>),
    Refreshed(Result<(), Problem>),
    Measured(Result<(), Problem>),
    SandboxMade(Result<SandboxMade, Problem>),
    SandboxGone(Result<(), String>),
    Started {
        name: Text,
        result: Result<Box<ContainerStatus>, Failure>,
    },
    PullFailed {
        name: Text,
        problem: PullProblem,
    },
    HookEnded {
        name: Text,
        id: String,
        result: Result<(), String>,
    },
    /// A container was stopped, or could not be.
    Killed {
        name: Text,
        id: String,
    },
    AllRemoved,
    /// An old run of a container is gone.
    Forgotten,
    Listed(Found),
    Written(report::Written),
    Unmounted(Result<(), Problem>),
    Removed(bool),
    Cleaned,
}

struct SandboxMade {
    id: String,
    addresses: Vec<std::net::IpAddr>,
}

impl Worker {
    /// A worker for a pod, of which the runtime may have something already.
    pub fn new(kubelet: Arc<Kubelet>, inbox: Arc<Inbox>, pod: Arc<Value>, found: Found, origin: Origin) -> Worker {
        let mut worker = Worker {
            uid: crate::pod::spec::uid(&pod),
            kubelet,
            inbox,
            pod,
            mirror: None,
            origin,
            state: PodState { without_sandbox: true, mounts_read_only_recursively: true, ..PodState::default() },
            life: Life::Running,
            was_admitted: false,
            volumes: Volumes::default(),
            sandbox: Sandbox::None { retry: Retry::default() },
            sandboxes_made: 0,
            old_sandboxes: Vec::new(),
            operations: JoinSet::new(),
            stopping: watch::channel(false).0,
            probes: probes::Set::default(),
            hook_errors: HashMap::new(),
            writer: report::Writer::default(),
            wake_micros: None,
            begun_micros: 0,
        };
        worker.begun_micros = worker.now();
        worker.adopt(found);
        worker
    }

    /// Until nothing is left of the pod.
    pub async fn run(mut self) {
        loop {
            self.take_news().await;
            self.wake_micros = None;
            self.advance();
            if matches!(self.life, Life::Over) {
                break;
            }
            self.report();
            // What there was to say may have been said by now.
            if matches!(self.life, Life::Stopped(_)) {
                self.finish();
            }
            self.wait().await;
        }
    }

    async fn wait(&mut self) {
        let delay = self.wake_micros.map(|wake| u64::try_from(wake - self.kubelet.now_micros()).unwrap_or(0));
        let inbox = self.inbox.clone();
        tokio::select! {
            biased;
            Some(done) = self.operations.join_next() => self.take_joined(done),
            () = inbox.arrived() => {}
            () = tokio::time::sleep(Duration::from_micros(delay.unwrap_or(0))), if delay.is_some() => {}
        }
        while let Some(done) = self.operations.try_join_next() {
            self.take_joined(done);
        }
    }

    fn take_joined(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(done) => self.take_done(done),
            // Whoever waits for it would wait for ever: another worker begins with what the runtime has.
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {}
        }
    }

    async fn take_news(&mut self) {
        let News { pod, mirror, gone, touched, sandbox_lost, found, probes } = self.inbox.take();
        if let Some(pod) = pod {
            self.take_pod(pod);
        }
        if let Some(mirror) = mirror {
            self.mirror = mirror;
        }
        if gone {
            self.writer.is_gone = true;
        }
        if let Some(found) = found {
            self.take_found(found).await;
        }
        for id in touched {
            self.look_at(&id).await;
        }
        if let Some(id) = sandbox_lost {
            self.lose_sandbox(&id);
        }
        for ((name, kind), (id, succeeded)) in probes {
            self.take_probe(&name, kind, &id, succeeded);
        }
    }

    fn take_pod(&mut self, pod: Arc<Value>) {
        let is_newer =
            self.origin == Origin::File || super::kubelet::revision(&pod) >= super::kubelet::revision(&self.pod);
        if !is_newer {
            return;
        }
        if is_described_anew(&self.pod, &pod) {
            self.take_description();
        }
        // One of the first generation was not changed yet.
        let is_changed = pod.get("metadata").int("generation") > 1;
        let allocated = is_changed.then(|| resize::as_allocated(&pod)).flatten();
        let was_refused = std::mem::replace(&mut self.state.resize_refused, allocated.is_some());
        self.pod = allocated.map_or(pod, Arc::new);
        if self.state.resize_refused && !was_refused {
            self.tell("", true, resize::EVENT, resize::MESSAGE);
        }
    }

    /// The pod says something else of itself: volumes may show that, and what could not be made may be possible now.
    fn take_description(&mut self) {
        let now = self.now();
        self.volumes.refreshed_micros = 0;
        self.volumes.retry.until_micros = 0;
        for record in &mut self.state.records {
            if let Run::Waiting(waiting) = &mut record.run
                && matches!(waiting.reason.as_str(), "CreateContainerConfigError" | "CreateContainerError")
            {
                waiting.until_micros = now;
            }
        }
    }

    fn advance(&mut self) {
        match self.life {
            Life::Running if self.must_stop() => self.begin_stopping(),
            Life::Running => self.sync(),
            _ => {}
        }
        if matches!(self.life, Life::Stopping(_)) {
            self.go_on_stopping();
        }
        if matches!(self.life, Life::Stopped(_)) {
            self.finish();
        }
    }

    fn take_done(&mut self, done: Done) {
        match done {
            Done::Mounted(result) => self.take_mounted(result),
            Done::Refreshed(result) => self.take_refreshed(result),
            Done::Measured(result) => self.take_measured(result),
            Done::SandboxMade(result) => self.take_sandbox(result),
            Done::SandboxGone(result) => self.take_sandbox_gone(result),
            Done::Started { name, result } => self.take_started(&name, result),
            Done::PullFailed { name, problem } => self.take_pull_failure(&name, problem),
            Done::HookEnded { name, id, result } => self.take_hook(&name, &id, result),
            Done::Killed { name, id } => self.take_killed(&name, &id),
            Done::AllRemoved => self.take_all_removed(),
            Done::Forgotten => {}
            Done::Listed(found) => self.take_listed(found),
            Done::Written(written) => self.take_written(written),
            Done::Unmounted(result) => self.take_unmounted(result),
            Done::Removed(was_removed) => self.take_removed(was_removed),
            Done::Cleaned => self.life = Life::Over,
        }
    }

    fn wake_at(&mut self, at_micros: i64) {
        self.wake_micros = Some(self.wake_micros.map_or(at_micros, |known| known.min(at_micros)));
    }

    fn now(&self) -> i64 {
        self.kubelet.now_micros()
    }

    fn tell(&self, field_path: &str, warning: bool, reason: &str, message: impl Into<String>) {
        self.kubelet.tell(&self.pod, field_path, warning, reason, message);
    }
}

fn is_described_anew(old: &Value, new: &Value) -> bool {
    let (old, new) = (old.get("metadata"), new.get("metadata"));
    ["labels", "annotations", "generation"].into_iter().any(|field| old.get(field) != new.get(field))
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kubelet.known.remove(&self.uid);
        self.kubelet.usage.lock().remove(&self.uid);
        self.kubelet.sandboxes.lock().retain(|_, uid| *uid != self.uid);
    }
}
