//! What a node knows of a pod beyond what the API has: the records of its containers, its addresses, and whether it is
//! being stopped. A container runtime keeps the same of a real pod.

use std::net::IpAddr;

use rkube_machinery::{Text, Value, time};

use super::backoff::Backoff;
use super::spec::{self, Container};

/// What is said of a container that was removed so that all of its pod begin anew.
const RESTARTING_ALL: &str = "RestartingAllContainers";
const RESTARTING_ALL_MESSAGE: &str = "The container is removed because RestartAllContainers in place";

#[derive(Clone, Debug, Default)]
pub struct PodState {
    /// Empty until the pod's sandbox is there.
    pub addresses: Vec<IpAddr>,
    /// The addresses are known, and no container can be started: there is no sandbox, or none any more.
    pub without_sandbox: bool,
    /// Whether the runtime makes mounts read-only with all that is below them.
    pub mounts_read_only_recursively: bool,
    pub records: Vec<Record>,
    /// It asks for other resources than its containers have, and does not get them.
    pub resize_refused: bool,
    /// Why the pod has failed, whatever its containers did.
    pub verdict: Option<Verdict>,
    /// When all containers will have stopped, once they are to.
    pub stopped_at_micros: Option<i64>,
}

/// A pod that was not let in, or may not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub reason: Text,
    pub message: String,
    /// It never ran here: its status says nothing of containers.
    pub rejected: bool,
}

/// What became of one container so far.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub name: Text,
    /// The image that it was started with, or was to be.
    pub image: Text,
    pub image_id: Text,
    /// Empty until it was started.
    pub id: Text,
    pub run: Run,
    pub last: Option<Box<Exit>>,
    pub restarts: u32,
    /// Its startup probe has succeeded.
    pub started: bool,
    pub ready: bool,
    pub backoff: Backoff,
    pub pull_backoff: Backoff,
    /// How the runtime calls the image; empty: as the pod does.
    pub runtime_image: Text,
    /// Of its first process, where the runtime knows.
    pub user: Option<User>,
    /// What is being done with it: what comes of that is waited for, whatever else is heard of it.
    pub busy: Option<Operation>,
    /// It runs, and is to be killed for this.
    pub failed_probe: Option<FailedProbe>,
    /// It belonged to a sandbox that is gone: what it did there counts no more.
    pub outdated: bool,
}

/// What takes time with a container. Of one there is at most one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Start,
    /// It runs, and its first hook is not done.
    Hook,
    Stop,
}

/// Whom a process runs as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub user: u32,
    pub group: u32,
    pub supplemental_groups: Vec<u32>,
}

/// The probes whose failure ends a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedProbe {
    Liveness,
    Startup,
}

#[derive(Clone, Debug, Default)]
pub enum Run {
    /// Nothing is known of it but that it is to start.
    #[default]
    Creating,
    Waiting(Box<Waiting>),
    Running {
        since_micros: i64,
    },
    Exited(Box<Exit>),
}

/// Why a container is not started now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Empty: nothing is wrong, it takes time.
    pub reason: Text,
    pub message: String,
    /// When to try again.
    pub until_micros: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: i64,
    pub reason: Text,
    /// What the container left to be said.
    pub message: String,
    pub started_micros: i64,
    pub finished_micros: i64,
    pub id: Text,
}

impl Waiting {
    /// Whether it waits because it ran, or tried to, and failed: then it is not tried again at once.
    pub fn has_run(&self) -> bool {
        matches!(self.reason.as_str(), "RunContainerError" | "PostStartHookError")
    }
}

impl PodState {
    pub fn record(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.name == name)
    }

    /// The record of a container, made where there is none.
    pub fn record_mut(&mut self, container: Container<'_>) -> &mut Record {
        let place = self.records.iter().position(|record| record.name == container.name());
        let place = place.unwrap_or_else(|| {
            self.records.push(Record { name: container.name().into(), ..Record::default() });
            self.records.len() - 1
        });
        &mut self.records[place]
    }

    pub fn runs_anything(&self) -> bool {
        self.records.iter().any(Record::is_running)
    }

    /// What another life of this process wrote of the pod: what ran goes on running.
    pub fn recover(pod: &Value) -> PodState {
        let status = pod.get("status");
        let addresses = status.list("podIPs").iter().filter_map(|entry| entry.str("ip").parse().ok());
        let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
        let statuses = lists.into_iter().flat_map(|list| status.list(list));
        PodState {
            addresses: addresses.collect(),
            records: statuses.filter_map(Record::recover).collect(),
            ..PodState::default()
        }
    }

    /// Forgets containers that the pod does not have any more.
    pub fn keep_only(&mut self, pod: &Value) {
        let containers = spec::containers(pod);
        self.records.retain(|record| containers.iter().any(|container| record.name == container.name()));
    }
}

impl Record {
    /// An operation has come to its end.
    pub fn done(&mut self, operation: Operation) {
        if self.busy == Some(operation) {
            self.busy = None;
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.run, Run::Running { .. })
    }

    /// How it ended, if it did and was not started again.
    pub fn exit(&self) -> Option<&Exit> {
        match &self.run {
            Run::Exited(exit) => Some(exit),
            Run::Waiting(_) if self.begins_anew() => None,
            Run::Waiting(_) => self.last.as_deref(),
            Run::Creating | Run::Running { .. } => None,
        }
    }

    /// Whether it was removed so that all begin anew.
    pub fn begins_anew(&self) -> bool {
        matches!(&self.run, Run::Waiting(waiting) if waiting.reason == RESTARTING_ALL)
    }

    pub fn stop(&mut self, code: i64, reason: &str, finished_micros: i64) {
        let Run::Running { since_micros } = self.run else { return };
        self.run = Run::Exited(Box::new(Exit {
            code,
            reason: reason.into(),
            message: String::new(),
            started_micros: since_micros,
            finished_micros: finished_micros.max(since_micros),
            id: self.id.clone(),
        }));
        (self.started, self.ready) = (false, false);
    }

    /// It was removed because all containers of the pod begin anew.
    pub fn begin_anew(&mut self, now_micros: i64) {
        if self.id.is_empty() {
            return;
        }
        let exit = match &self.run {
            Run::Exited(exit) => exit.clone(),
            _ => Box::new(Exit {
                code: 137,
                reason: RESTARTING_ALL.into(),
                message: RESTARTING_ALL_MESSAGE.to_owned(),
                started_micros: 0,
                finished_micros: now_micros,
                id: Text::default(),
            }),
        };
        *self = Record {
            name: self.name.clone(),
            image: self.image.clone(),
            restarts: self.restarts.saturating_add(1),
            last: Some(exit),
            run: Run::Waiting(Box::new(Waiting {
                reason: RESTARTING_ALL.into(),
                message: RESTARTING_ALL_MESSAGE.to_owned(),
                until_micros: now_micros,
            })),
            outdated: true,
            backoff: self.backoff,
            pull_backoff: self.pull_backoff,
            ..Record::default()
        };
    }

    /// None where nothing had happened to the container yet.
    fn recover(status: &Value) -> Option<Record> {
        let state = status.get("state");
        let last = recover_exit(status.get("lastState").get("terminated"));
        let run = if state.has("running") {
            Run::Running { since_micros: micros_of(state.get("running").str("startedAt")) }
        } else if let Some(exit) = recover_exit(state.get("terminated")) {
            Run::Exited(exit)
        } else if let Some(last) = &last {
            // It waited to be started again: how long is told by how it ended.
            Run::Exited(last.clone())
        } else {
            return None;
        };
        let is_waiting = state.has("waiting");
        let restarts = u32::try_from(status.int("restartCount")).unwrap_or(0);
        let updated = match &run {
            Run::Running { since_micros } => *since_micros,
            Run::Exited(exit) => exit.started_micros,
            Run::Creating | Run::Waiting(_) => 0,
        };
        Some(Record {
            name: status.str("name").into(),
            image: status.str("image").into(),
            image_id: status.str("imageID").into(),
            id: status.str("containerID").into(),
            run,
            last: last.filter(|_| !is_waiting),
            restarts,
            started: status.bool("started"),
            ready: status.bool("ready"),
            backoff: Backoff::after(restarts, updated),
            ..Record::default()
        })
    }
}

fn recover_exit(terminated: &Value) -> Option<Box<Exit>> {
    (!terminated.is_null()).then(|| {
        Box::new(Exit {
            code: terminated.int("exitCode"),
            reason: terminated.str("reason").into(),
            message: terminated.str("message").to_owned(),
            started_micros: micros_of(terminated.str("startedAt")),
            finished_micros: micros_of(terminated.str("finishedAt")),
            id: terminated.str("containerID").into(),
        })
    })
}

/// A time of an object; the beginning of time where there is none.
pub fn micros_of(text: &str) -> i64 {
    time::parse(text).map_or(0, |(seconds, nanos)| seconds * 1_000_000 + i64::from(nanos / 1000))
}
