//! A pod that is to run: admission, volumes, sandbox, containers, in this order.

use std::time::Duration;

use rkube_machinery::Value;
use rkube_runtime::api::SandboxConfig;

use super::super::images::PullProblem;
use super::super::prepare_api::Problem;
use super::super::start::{Failure, Start};
use super::super::{garbage, hooks, kill, labels, refuse};
use super::observe::{raw_id, shown_id};
use super::{Done, Retry, Sandbox, SandboxMade, Worker};
use crate::admission::{Claim, admit};
use crate::pod::backoff::{Backoff, micros};
use crate::pod::plan::{self, Action};
use crate::pod::spec::{self, Role};
use crate::pod::state::{Exit, FailedProbe, Operation, Record, Run, Verdict, Waiting};
use crate::pod::{deadline, waits};

/// How long it is shown that an image could not be pulled, before it is shown that this is waited for.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(2);
/// When something is tried again that failed for what the pod or the cluster lacks.
const CONFIG_RETRY: Duration = Duration::from_secs(10);
/// How often volumes are looked at that may have changed.
const REFRESH_PERIOD: Duration = Duration::from_secs(60);

impl Worker {
    pub(super) fn must_stop(&self) -> bool {
        self.writer.is_gone
            || self.state.verdict.is_some()
            || spec::is_deleted(&self.pod)
            || spec::is_terminal(self.pod.get("status").str("phase"))
    }

    pub(super) fn sync(&mut self) {
        let now = self.now();
        if !self.was_admitted && !self.let_in() {
            return self.begin_stopping();
        }
        if let Some(at) = deadline::of_pod(&self.pod, now) {
            if at <= now {
                if deadline::pass(&mut self.state, &self.pod) {
                    self.tell("", false, deadline::REASON, deadline::MESSAGE);
                }
                return self.begin_stopping();
            }
            self.wake_at(at);
        }
        if self.mount(now) && self.make_sandbox(now) {
            self.follow_plan(now);
            self.refresh(now);
            self.measure(now);
        }
    }

    /// Whether the node takes the pod. One that has begun was let in before.
    fn let_in(&mut self) -> bool {
        let claim = Claim::of(&self.pod);
        let is_new = self.pod.get("status").str("startTime").is_empty() && self.state.records.is_empty();
        let mut usage = self.kubelet.usage.lock();
        if is_new && !usage.has(&self.uid) {
            let node = self.kubelet.node.get("", &self.kubelet.config.name);
            let verdict = node.map_or(Ok(()), |node| admit(&self.pod, &claim, &node.object, &usage));
            let verdict = verdict.map_err(|why| (why.reason, why.message)).and_then(|()| {
                let app_armor = self.kubelet.config.machine.app_armor;
                let refused =
                    refuse::check(&self.pod, app_armor).and_then(|()| self.kubelet.config.prepare.admit(&self.pod));
                refused.map_err(|problem| (problem.reason.to_string(), problem.message))
            });
            if let Err((reason, message)) = verdict {
                drop(usage);
                self.tell("", true, &reason, message.clone());
                let message = format!("Pod was rejected: {message}");
                self.state.verdict = Some(Verdict { reason: reason.into(), message, rejected: true });
                return false;
            }
        }
        usage.add(&self.uid, claim);
        self.was_admitted = true;
        true
    }

    fn mount(&mut self, now: i64) -> bool {
        if self.volumes.ready {
            return true;
        }
        if self.volumes.busy {
            return false;
        }
        if self.volumes.retry.until_micros > now {
            self.wake_at(self.volumes.retry.until_micros);
            return false;
        }
        self.volumes.busy = true;
        let (prepare, pod) = (self.kubelet.config.prepare.clone(), self.pod.clone());
        self.operations.spawn(async move { Done::Mounted(prepare.mount(&pod).await) });
        false
    }

    pub(super) fn take_mounted(&mut self, result: Result<(), Problem>) {
        let now = self.now();
        self.volumes.busy = false;
        match result {
            Ok(()) => {
                (self.volumes.ready, self.volumes.refreshed_micros) = (true, now);
                self.volumes.retry = Retry::default();
            }
            Err(problem) => {
                self.volumes.retry.fail(now);
                self.tell("", true, &problem.reason, problem.message);
            }
        }
    }

    fn refresh(&mut self, now: i64) {
        let due = self.volumes.refreshed_micros + micros(REFRESH_PERIOD);
        if self.volumes.busy {
            // What comes of it is heard.
            return;
        }
        if due > now {
            return self.wake_at(due);
        }
        (self.volumes.busy, self.volumes.refreshed_micros) = (true, now);
        let (prepare, pod) = (self.kubelet.config.prepare.clone(), self.pod.clone());
        self.operations.spawn(async move { Done::Refreshed(prepare.refresh(&pod).await) });
    }

    pub(super) fn take_refreshed(&mut self, result: Result<(), Problem>) {
        self.volumes.busy = false;
        if let Err(problem) = result {
            self.tell("", true, &problem.reason, problem.message);
        }
    }

    /// Whether there is a sandbox to start containers in.
    fn make_sandbox(&mut self, now: i64) -> bool {
        match &self.sandbox {
            Sandbox::Ready { .. } => true,
            Sandbox::Making { .. } => false,
            Sandbox::None { retry } if retry.until_micros > now => {
                self.wake_at(retry.until_micros);
                false
            }
            Sandbox::None { .. } if self.is_done_without_sandbox() => {
                self.begin_stopping();
                false
            }
            Sandbox::None { retry } => {
                let (retry, attempt) = (*retry, self.sandboxes_made);
                self.sandbox = Sandbox::Making { retry };
                let (kubelet, pod) = (self.kubelet.clone(), self.pod.clone());
                self.operations.spawn(async move {
                    let made = async {
                        let mut config = kubelet.config.prepare.sandbox(&pod, attempt).await?;
                        labels::mark_sandbox(&mut config, &pod);
                        run_sandbox(&kubelet, config).await
                    };
                    Done::SandboxMade(made.await)
                });
                false
            }
            Sandbox::Dead { busy, id } => {
                if !busy {
                    let id = id.clone();
                    self.remove_dead_sandbox(id);
                }
                false
            }
        }
    }

    /// Whether a pod that lost its sandbox is not to get another one: its containers ran, and are not started again.
    fn is_done_without_sandbox(&self) -> bool {
        if self.sandboxes_made == 0 {
            return false;
        }
        let containers = spec::containers(&self.pod);
        let mut main = containers.iter().filter(|container| container.role == Role::Main);
        main.all(|container| {
            let exit = self.state.record(container.name()).and_then(Record::exit);
            exit.is_some_and(|exit| !spec::should_restart(&self.pod, *container, exit.code))
        })
    }

    fn remove_dead_sandbox(&mut self, id: String) {
        self.sandbox = Sandbox::Dead { busy: true, id: id.clone() };
        let kubelet = self.kubelet.clone();
        self.operations.spawn(async move {
            let stopped = kubelet.runtime().stop_sandbox(&id).await;
            Done::SandboxGone(stopped.map_err(|error| error.to_string()))
        });
    }

    pub(super) fn take_sandbox_gone(&mut self, result: Result<(), String>) {
        let now = self.now();
        let Sandbox::Dead { id, .. } = &self.sandbox else { return };
        let id = id.clone();
        let mut retry = Retry::default();
        if let Err(error) = result {
            tracing::warn!(pod = %spec::display_name(&self.pod), %error, "a dead sandbox cannot be stopped");
            retry.fail(now);
        }
        self.old_sandboxes.push(id);
        self.sandbox = Sandbox::None { retry };
    }

    pub(super) fn take_sandbox(&mut self, result: Result<SandboxMade, Problem>) {
        let now = self.now();
        let Sandbox::Making { mut retry } = self.sandbox else { return };
        match result {
            Ok(made) => {
                self.kubelet.sandboxes.lock().insert(made.id.clone(), self.uid.clone());
                self.sandboxes_made += 1;
                self.state.addresses = match spec::is_host_network(&self.pod) {
                    true => self.kubelet.config.addresses.clone(),
                    false => made.addresses,
                };
                self.state.without_sandbox = false;
                self.sandbox = Sandbox::Ready { id: made.id };
            }
            Err(problem) => {
                retry.fail(now);
                self.sandbox = Sandbox::None { retry };
                if !self.must_stop() {
                    let message = format!("Failed to create pod sandbox: {}", problem.message);
                    self.tell("", true, "FailedCreatePodSandBox", message);
                }
            }
        }
    }

    fn follow_plan(&mut self, now: i64) {
        let pod = self.pod.clone();
        let containers = spec::containers(&pod);
        let plan = plan::plan(&pod, &containers, &self.state, now);
        if let Some(wake) = plan.wake_micros {
            self.wake_at(wake);
        }
        for action in plan.actions {
            match action {
                Action::Start(number) => self.start(&pod, number, now),
                Action::BackOff { container, until_micros } => {
                    let container = containers[container];
                    let record = self.state.record_mut(container);
                    if let Some(message) = waits::crash_loop(&pod, container, record, until_micros) {
                        self.tell(&container.field_path(), true, "BackOff", message);
                    }
                }
                Action::Replace(number) => {
                    let name = containers[number].name();
                    let message = format!("Container {name} definition changed, will be restarted");
                    self.kill(&pod, number, message, None);
                }
                Action::Kill(number, probe) => self.kill_for_probe(&pod, number, probe),
                Action::RestartAll => self.restart_all(now),
                Action::StopAll => return self.begin_stopping(),
            }
        }
    }

    fn start(&mut self, pod: &Value, number: usize, now: i64) {
        let containers = spec::containers(pod);
        let container = containers[number];
        let Sandbox::Ready { id: sandbox } = &self.sandbox else { return };
        let sandbox = sandbox.clone();
        let target = self.target_of(container.value);
        let record = self.state.record_mut(container);
        if record.image != container.image() {
            record.pull_backoff = Backoff::default();
        }
        let was_refused = matches!(&record.run, Run::Waiting(waiting) if waiting.reason == "ErrImagePull");
        if let Some(until_micros) = record.pull_backoff.until_since_update(now).filter(|_| was_refused) {
            if let Some(message) = waits::image_pull(container, record, until_micros) {
                self.tell(&container.field_path(), false, "BackOff", message);
                self.tell(&container.field_path(), true, "Failed", "Error: ImagePullBackOff");
            }
            return self.wake_at(until_micros);
        }
        let has_run = !record.id.is_empty() || record.last.is_some();
        let attempt = if has_run && !record.begins_anew() { record.restarts + 1 } else { record.restarts };
        if let Some(exit) = record.exit().cloned() {
            record.backoff.count(exit.finished_micros, now);
        }
        record.image = container.image().into();
        record.busy = Some(Operation::Start);
        let name = record.name.clone();
        let start = Start {
            kubelet: self.kubelet.clone(),
            pod: self.pod.clone(),
            number,
            attempt,
            sandbox,
            addresses: self.state.addresses.clone(),
            target,
            stopping: self.stopping.subscribe(),
        };
        self.operations.spawn(async move {
            match start.run().await {
                Err(Failure::Image(problem)) => Done::PullFailed { name, problem },
                result => Done::Started { name, result },
            }
        });
    }

    /// The container that an ephemeral one wants to look at.
    fn target_of(&self, container: &Value) -> Option<String> {
        let target = container.str("targetContainerName");
        let record = self.state.record(target).filter(|record| !target.is_empty() && record.is_running())?;
        Some(raw_id(&record.id).to_owned())
    }

    pub(super) fn take_pull_failure(&mut self, name: &str, problem: PullProblem) {
        let now = self.now();
        let Some(record) = self.state.records.iter_mut().find(|record| record.name == name) else { return };
        record.done(Operation::Start);
        if problem.counts {
            record.pull_backoff.count(now, now);
        }
        let delay = if problem.counts { PULL_ERROR_SHOWN } else { CONFIG_RETRY };
        wait(record, problem.reason, problem.message, now + micros(delay));
    }

    pub(super) fn take_started(
        &mut self,
        name: &str,
        result: Result<Box<rkube_runtime::api::ContainerStatus>, Failure>,
    ) {
        let now = self.now();
        let Some(record) = self.state.records.iter_mut().find(|record| record.name == name) else { return };
        record.done(Operation::Start);
        match result {
            Ok(status) => {
                let older = older_run(record);
                remember_last(record);
                record.run = Run::Creating;
                record.outdated = false;
                record.failed_probe = None;
                self.take_new_container(name, *status);
                self.forget_run(older);
            }
            Err(Failure::Waits { reason, message }) => {
                wait(record, &reason, message, now + micros(CONFIG_RETRY));
            }
            Err(Failure::NotStarted { message, status }) => {
                let older = older_run(record);
                remember_last(record);
                if let Some(left) = status {
                    record.restarts = left.attempt;
                    record.id = shown_id(&self.kubelet, &left.id);
                    record.last = Some(Box::new(Exit {
                        code: left.code,
                        reason: left.reason.as_str().into(),
                        message: left.message,
                        started_micros: 0,
                        finished_micros: left.finished_micros,
                        id: record.id.clone(),
                    }));
                }
                wait_with_last(record, "RunContainerError", message, now);
                self.forget_run(older);
            }
            Err(Failure::Cancelled | Failure::Image(_)) => {}
        }
    }

    /// Removes a run of a container that is neither the last one nor the one before.
    fn forget_run(&mut self, id: Option<String>) {
        if let Some(id) = id {
            let kubelet = self.kubelet.clone();
            self.operations.spawn(async move {
                garbage::remove_container(&kubelet, &id).await;
                Done::Forgotten
            });
        }
    }

    /// Runs what is to be run once the container has started; until it is done, the container is not said to run.
    pub(super) fn begin_hook(&mut self, name: &str, id: &str) -> bool {
        let pod = self.pod.clone();
        let containers = spec::containers(&pod);
        let Some(container) = containers.iter().find(|container| container.name() == name) else { return false };
        let hook = container.value.get("lifecycle").get("postStart");
        if hook.is_null() {
            return false;
        }
        let hook = hooks::Hook {
            kubelet: self.kubelet.clone(),
            pod: self.pod.clone(),
            handler: hook.clone(),
            container: container.value.clone(),
            address: self.state.addresses.first().copied(),
            id: id.to_owned(),
        };
        let (name, id) = (container.name().into(), id.to_owned());
        let mut stopping = self.stopping.subscribe();
        self.operations.spawn(async move {
            let result = tokio::select! {
                biased;
                result = hook.run() => result,
                _ = stopping.wait_for(|stopping| *stopping) => Err("the pod is to stop".to_owned()),
            };
            Done::HookEnded { name, id, result }
        });
        true
    }

    pub(super) fn take_hook(&mut self, name: &str, id: &str, result: Result<(), String>) {
        let pod = self.pod.clone();
        let containers = spec::containers(&pod);
        let Some(number) = containers.iter().position(|container| container.name() == name) else { return };
        let is_current = self
            .state
            .record(name)
            .is_some_and(|record| raw_id(&record.id) == id && record.busy == Some(Operation::Hook));
        if !is_current {
            return;
        }
        match result {
            Ok(()) => {
                self.state.record_mut(containers[number]).done(Operation::Hook);
                self.inbox.tell(|news| {
                    news.touched.insert(id.to_owned());
                });
            }
            Err(_) if *self.stopping.borrow() => self.state.record_mut(containers[number]).done(Operation::Hook),
            Err(error) => {
                // What was answered is not told in an event: there may be secrets in it.
                self.tell(&containers[number].field_path(), true, "FailedPostStartHook", "PostStartHook failed");
                self.hook_errors.insert(name.into(), error);
                self.kill(&pod, number, "FailedPostStartHook".to_owned(), None);
            }
        }
    }

    fn kill_for_probe(&mut self, pod: &Value, number: usize, probe: FailedProbe) {
        let containers = spec::containers(pod);
        let container = containers[number];
        let (kind, field) = match probe {
            FailedProbe::Liveness => ("liveness", "livenessProbe"),
            FailedProbe::Startup => ("startup", "startupProbe"),
        };
        let own = container.value.str("restartPolicy");
        let policy = if own.is_empty() { pod.get("spec").str("restartPolicy") } else { own };
        let again = if policy == "Never" { "" } else { ", will be restarted" };
        let message = format!("Container {} failed {kind} probe{again}", container.name());
        let grace = container.value.get(field).get("terminationGracePeriodSeconds").as_int();
        self.kill(pod, number, message, grace);
    }

    /// Stops one container of a pod that goes on. `grace_seconds`: other than the pod's.
    fn kill(&mut self, pod: &Value, number: usize, message: String, grace_seconds: Option<i64>) {
        let containers = spec::containers(pod);
        let container = containers[number];
        let record = self.state.record_mut(container);
        let id = raw_id(&record.id).to_owned();
        record.busy = Some(Operation::Stop);
        let name = record.name.clone();
        self.probes.stop(&name);
        self.tell(&container.field_path(), false, "Killing", message);
        let kill = kill::Kill {
            kubelet: self.kubelet.clone(),
            pod: self.pod.clone(),
            number,
            id: id.clone(),
            grace_seconds: grace_seconds.unwrap_or_else(|| spec::grace_seconds(pod)),
            turn: None,
            address: self.state.addresses.first().copied(),
        };
        self.operations.spawn(async move {
            kill.run().await;
            Done::Killed { name, id }
        });
    }

    /// Removes all containers, so that the pod begins anew with its sandbox, its address and its volumes.
    fn restart_all(&mut self, now: i64) {
        let pod = self.pod.clone();
        let mut ids = Vec::new();
        for container in spec::containers(&pod) {
            if container.role == Role::Ephemeral {
                continue;
            }
            self.probes.stop(container.name());
            let record = self.state.record_mut(container);
            if !record.id.is_empty() {
                ids.push(raw_id(&record.id).to_owned());
                if record.is_running() {
                    self.tell(&container.field_path(), false, "Killing", "killing");
                }
            }
            let record = self.state.record_mut(container);
            record.begin_anew(now);
            record.busy = Some(Operation::Stop);
        }
        let kubelet = self.kubelet.clone();
        self.operations.spawn(async move {
            for id in ids {
                if let Err(error) = kubelet.runtime().remove_container(&id).await {
                    tracing::warn!(%error, id, "a container cannot be removed");
                }
            }
            Done::AllRemoved
        });
    }

    pub(super) fn take_all_removed(&mut self) {
        self.state
            .records
            .iter_mut()
            .filter(|record| record.begins_anew())
            .for_each(|record| record.done(Operation::Stop));
    }
}

async fn run_sandbox(kubelet: &super::super::kubelet::Kubelet, config: SandboxConfig) -> Result<SandboxMade, Problem> {
    let failed = |error: rkube_runtime::api::Error| Problem::new("FailedCreatePodSandBox", error.to_string());
    let (uid, attempt) = (config.pod_uid.clone(), config.attempt);
    let id = kubelet.runtime().run_sandbox(config).await.map_err(failed)?;
    let all = kubelet.runtime().sandboxes().await.map_err(failed)?;
    let addresses = all.into_iter().find(|sandbox| sandbox.id == id).map(|sandbox| sandbox.addresses);
    tracing::debug!(uid, attempt, id, "made a sandbox");
    Ok(SandboxMade { id, addresses: addresses.unwrap_or_default() })
}

/// The run before the last one, once there is another one.
fn older_run(record: &Record) -> Option<String> {
    let older = record.last.as_deref().map(|exit| raw_id(&exit.id)).filter(|id| !id.is_empty())?;
    (older != raw_id(&record.id)).then(|| older.to_owned())
}

/// What it did last is remembered: it is started once more.
fn remember_last(record: &mut Record) {
    if let Some(exit) = record.exit().cloned() {
        record.last = Some(Box::new(exit));
    }
}

fn wait(record: &mut Record, reason: &str, message: String, until_micros: i64) {
    remember_last(record);
    wait_with_last(record, reason, message, until_micros);
}

fn wait_with_last(record: &mut Record, reason: &str, message: String, until_micros: i64) {
    record.run = Run::Waiting(Box::new(Waiting { reason: reason.into(), message, until_micros }));
}
