//! What the runtime says of a pod, and what is taken of it: also of what an earlier life of this process left there.

use rkube_machinery::Text;
use rkube_runtime::api::{ContainerState, ContainerStatus, SandboxState, SandboxStatus};

use super::super::inbox::Found;
use super::super::kubelet::Kubelet;
use super::super::probes::{self, Kind};
use super::super::{garbage, labels, last_words};
use super::{Life, Sandbox, Worker};
use crate::pod::backoff::Backoff;
use crate::pod::spec::{self, Container};
use crate::pod::state::{Exit, FailedProbe, Operation, PodState, Record, Run, User, Waiting};

/// What is said of a container that the runtime knows no more, and which ran.
const UNKNOWN: &str = "ContainerStatusUnknown";
const UNKNOWN_MESSAGE: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
/// The same, where it was known until now.
const LOST_MESSAGE: &str = "The container could not be located when the pod was terminated";
const UNKNOWN_CODE: i64 = 137;

/// A container's id as pods show it.
pub(super) fn shown_id(kubelet: &Kubelet, id: &str) -> Text {
    format!("{}://{id}", kubelet.runtime().version().name).into()
}

/// As the runtime knows it.
pub(super) fn raw_id(shown: &str) -> &str {
    shown.split_once("://").map_or(shown, |(_, id)| id)
}

impl Worker {
    /// Goes on with what the runtime has of the pod, and with what the API was told of it before.
    pub(super) fn adopt(&mut self, found: Found) {
        let recovered = PodState::recover(&self.pod);
        let mut sandboxes = found.sandboxes;
        sandboxes.sort_by_key(|sandbox| (sandbox.config.attempt, sandbox.created_micros));
        self.sandboxes_made = sandboxes.last().map_or(0, |sandbox| sandbox.config.attempt + 1);
        let current = sandboxes.pop();
        self.old_sandboxes = sandboxes.into_iter().map(|sandbox| sandbox.id).collect();
        let is_ready = current.as_ref().is_some_and(|sandbox| sandbox.state == SandboxState::Ready);
        self.state.records = recovered.records;
        if let Some(sandbox) = current {
            self.kubelet.sandboxes.lock().insert(sandbox.id.clone(), self.uid.clone());
            self.state.addresses = match spec::is_host_network(&self.pod) {
                true => self.kubelet.config.addresses.clone(),
                false => sandbox.addresses,
            };
            self.state.without_sandbox = !is_ready;
            self.sandbox = match is_ready {
                true => Sandbox::Ready { id: sandbox.id },
                false => Sandbox::Dead { busy: false, id: sandbox.id },
            };
        }
        self.adopt_containers(found.containers);
        let has_sandbox = is_ready;
        for record in &mut self.state.records {
            record.outdated = !has_sandbox;
        }
    }

    fn adopt_containers(&mut self, mut found: Vec<ContainerStatus>) {
        let pod = self.pod.clone();
        found.sort_by_key(|status| (labels::restart_count(status), status.created_micros));
        for container in spec::containers(&pod) {
            let of_it = || found.iter().filter(|status| status.name == container.name());
            let Some(status) = of_it().next_back() else {
                self.adopt_missing(container);
                continue;
            };
            let before = of_it().rev().nth(1).map(|status| Box::new(self.exit_of(status, String::new())));
            let record = self.state.record_mut(container);
            let known_last = record.last.take();
            let (started, ready) = (record.started, record.ready);
            *record = Record { name: record.name.clone(), last: before.or(known_last), ..Record::default() };
            record.restarts = labels::restart_count(status);
            record.backoff = Backoff::after(record.restarts, status.started_micros.max(status.created_micros));
            if labels::is_of(status, container) {
                record.image = container.image().into();
            }
            (record.started, record.ready) = (started, ready);
            // Its last words are read when it is looked at again.
            self.inbox.tell(|news| {
                news.touched.insert(status.id.clone());
            });
            self.apply(status, None);
        }
    }

    /// A container that the API says ran, and the runtime does not know.
    fn adopt_missing(&mut self, container: Container<'_>) {
        let now = self.now();
        let is_terminal = spec::is_terminal(self.pod.get("status").str("phase"));
        let Some(record) = self.state.records.iter_mut().find(|record| record.name == container.name()) else { return };
        if let Run::Running { since_micros } = record.run
            && !is_terminal
        {
            record.run = Run::Exited(Box::new(Exit {
                code: UNKNOWN_CODE,
                reason: UNKNOWN.into(),
                message: UNKNOWN_MESSAGE.to_owned(),
                started_micros: since_micros,
                finished_micros: now,
                id: record.id.clone(),
            }));
        }
        (record.started, record.ready, record.outdated) = (false, false, true);
    }

    /// All that the runtime has of the pod, from time to time or because something was missed.
    pub(super) async fn take_found(&mut self, found: Found) {
        let lost = match &self.sandbox {
            Sandbox::Ready { id } => {
                let known = found.sandboxes.iter().find(|sandbox| sandbox.id == *id);
                known.is_none_or(|sandbox| sandbox.state == SandboxState::NotReady).then(|| id.clone())
            }
            _ => None,
        };
        for status in &found.containers {
            let is_current = self.state.records.iter().any(|record| raw_id(&record.id) == status.id);
            if is_current {
                self.take_status(status).await;
            }
        }
        let Some(id) = lost else { return };
        // What was listed may be older than the sandbox.
        let now = garbage::found_of(&self.kubelet, &self.uid).await;
        let is_ready = |sandbox: &SandboxStatus| sandbox.id == id && sandbox.state == SandboxState::Ready;
        if !now.sandboxes.iter().any(is_ready) {
            self.lose_sandbox(&id);
        }
    }

    pub(super) async fn look_at(&mut self, id: &str) {
        if !self.state.records.iter().any(|record| raw_id(&record.id) == id) {
            return;
        }
        match self.kubelet.config.runtime.clone().container(id).await {
            Ok(status) => self.take_status(&status).await,
            Err(error) => tracing::debug!(id, %error, "a container cannot be looked at"),
        }
    }

    async fn take_status(&mut self, status: &ContainerStatus) {
        let message = match status.state {
            ContainerState::Exited => Some(last_words::read(status, &self.kubelet.config.directories.pod_logs).await),
            _ => None,
        };
        self.apply(status, message);
    }

    /// A container that was just started.
    pub(super) fn take_new_container(&mut self, name: &str, status: ContainerStatus) {
        let id = status.id.clone();
        let Some(record) = self.state.records.iter_mut().find(|record| record.name == name) else { return };
        record.restarts = labels::restart_count(&status);
        record.id = shown_id(&self.kubelet, &id);
        record.image_id = status.image_ref.as_str().into();
        record.runtime_image = status.image.as_str().into();
        record.user = user_of(&status);
        (record.started, record.ready) = (false, false);
        if status.state == ContainerState::Running && self.begin_hook(name, &id) {
            if let Some(record) = self.state.records.iter_mut().find(|record| record.name == name) {
                record.busy = Some(Operation::Hook);
            }
            return;
        }
        // What happened to it before its id was known here was told to nobody.
        self.inbox.tell(|news| {
            news.touched.insert(id);
        });
        self.apply(&status, None);
    }

    /// `message`: what an ended container left to be said, where that is known already.
    fn apply(&mut self, status: &ContainerStatus, message: Option<String>) {
        let pod = self.pod.clone();
        let containers = spec::containers(&pod);
        let Some(container) = containers.iter().find(|container| container.name() == status.name).copied() else {
            return;
        };
        let id = shown_id(&self.kubelet, &status.id);
        let exit = self.exit_of(status, message.unwrap_or_default());
        let hook_error = self.hook_errors.get(status.name.as_str()).cloned();
        let record = self.state.record_mut(container);
        let is_hooked = record.busy == Some(Operation::Hook) && matches!(record.run, Run::Creating);
        record.id = id;
        record.image_id = status.image_ref.as_str().into();
        record.runtime_image = status.image.as_str().into();
        record.user = user_of(status);
        match status.state {
            ContainerState::Created => {}
            ContainerState::Running if is_hooked => {}
            ContainerState::Running => {
                record.run = Run::Running { since_micros: status.started_micros };
                self.watch_over(container, &status.id);
            }
            ContainerState::Exited | ContainerState::Unknown => {
                self.probes.stop(container.name());
                let record = self.state.record_mut(container);
                (record.started, record.ready, record.failed_probe) = (false, false, None);
                // One that waits to be started again has told of its end already.
                if !matches!(record.run, Run::Waiting(_)) {
                    record.run = Run::Exited(Box::new(exit));
                } else if record.last.as_deref().is_some_and(|last| last.id == exit.id) {
                    record.last = Some(Box::new(exit));
                }
                if let Some(message) = hook_error {
                    self.hook_errors.remove(status.name.as_str());
                    let now = self.now();
                    let record = self.state.record_mut(container);
                    record.last = record.exit().cloned().map(Box::new);
                    let reason = "PostStartHookError".into();
                    record.run = Run::Waiting(Box::new(Waiting { reason, message, until_micros: now }));
                }
            }
        }
    }

    /// Begins with the probes of a container that runs.
    fn watch_over(&mut self, container: Container<'_>, id: &str) {
        let has = |kind: Kind| container.value.has(kind.field());
        let record = self.state.record_mut(container);
        record.started |= !has(Kind::Startup);
        if record.started && !has(Kind::Readiness) {
            record.ready = true;
        }
        let (started, since_micros) = (
            record.started,
            match record.run {
                Run::Running { since_micros } => since_micros,
                _ => 0,
            },
        );
        let is_stopping = !matches!(self.life, Life::Running);
        for kind in [Kind::Startup, Kind::Liveness, Kind::Readiness] {
            let waits = (kind == Kind::Startup) == started;
            if !has(kind) || waits || is_stopping && kind != Kind::Readiness {
                continue;
            }
            self.probes.begin(probes::Task {
                kubelet: self.kubelet.clone(),
                inbox: self.inbox.clone(),
                pod: self.pod.clone(),
                container: container.value.clone(),
                field_path: container.field_path(),
                kind,
                id: id.to_owned(),
                address: self.state.addresses.first().copied(),
                since_micros,
            });
        }
    }

    pub(super) fn take_probe(&mut self, name: &str, kind: Kind, id: &str, succeeded: bool) {
        let pod = self.pod.clone();
        let containers = spec::containers(&pod);
        let Some(container) = containers.iter().find(|container| container.name() == name).copied() else { return };
        let record = self.state.record_mut(container);
        if raw_id(&record.id) != id || !record.is_running() {
            return;
        }
        match (kind, succeeded) {
            (Kind::Readiness, ready) => record.ready = ready && record.started,
            (Kind::Startup, true) => {
                record.started = true;
                self.probes.end(name, Kind::Startup);
                self.watch_over(container, id);
            }
            (Kind::Startup, false) => record.failed_probe = Some(FailedProbe::Startup),
            (Kind::Liveness, true) => {}
            (Kind::Liveness, false) => record.failed_probe = Some(FailedProbe::Liveness),
        }
    }

    fn exit_of(&self, status: &ContainerStatus, words: String) -> Exit {
        let is_unknown = status.state == ContainerState::Unknown;
        let message = match (status.message.is_empty(), words.is_empty()) {
            _ if is_unknown => LOST_MESSAGE.to_owned(),
            (_, true) => status.message.clone(),
            (true, false) => words,
            (false, false) => format!("{}: {words}", status.message),
        };
        let now = self.now();
        Exit {
            code: if is_unknown { UNKNOWN_CODE } else { i64::from(status.exit_code) },
            reason: if is_unknown { UNKNOWN.into() } else { status.reason.as_str().into() },
            message,
            started_micros: status.started_micros,
            finished_micros: if status.finished_micros > 0 { status.finished_micros } else { now },
            id: shown_id(&self.kubelet, &status.id),
        }
    }

    /// The sandbox is gone, and its containers with it.
    pub(super) fn lose_sandbox(&mut self, id: &str) {
        match &self.sandbox {
            Sandbox::Ready { id: current } if current == id => {}
            _ => return,
        }
        if matches!(self.life, Life::Running) {
            self.tell("", false, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.");
        }
        self.sandbox = Sandbox::Dead { busy: false, id: id.to_owned() };
        self.state.without_sandbox = true;
        let now = self.now();
        for record in &mut self.state.records {
            self.probes.stop(&record.name);
            record.stop(UNKNOWN_CODE, UNKNOWN, now);
            (record.outdated, record.failed_probe) = (true, None);
        }
        let touched: Vec<String> = self.state.records.iter().map(|record| raw_id(&record.id).to_owned()).collect();
        self.inbox.tell(|news| news.touched.extend(touched));
    }

    pub(super) fn take_killed(&mut self, name: &str, id: &str) {
        if let Some(record) = self.state.records.iter_mut().find(|record| record.name == name) {
            record.done(Operation::Stop);
        }
        self.inbox.tell(|news| {
            news.touched.insert(id.to_owned());
        });
    }
}

fn user_of(status: &ContainerStatus) -> Option<User> {
    let (user, group, groups) = status.user.clone()?;
    Some(User { user, group, supplemental_groups: groups })
}
