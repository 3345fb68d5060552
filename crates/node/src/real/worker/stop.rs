//! A pod that is to end: its containers are stopped, then its sandbox; then its volumes go, the API hears of it, and what
//! is left goes with the object.

use std::collections::HashSet;

use rkube_machinery::Text;

use super::super::garbage;
use super::super::inbox::Found;
use super::super::kill::{Kill, Turn};
use super::super::prepare_api::Problem;
use super::observe::raw_id;
use super::storage::EVICTED;
use super::{Done, Life, Origin, Retry, Sandbox, Worker};
use crate::api;
use crate::pod::plan;
use crate::pod::spec::{self, Role};
use crate::pod::state::{Exit, Operation, Run};

/// What is said of a container that never ran, of a pod that is over.
const UNSTARTED_REASON: &str = "ContainerStatusUnknown";
const UNSTARTED_MESSAGE: &str = "The container could not be located when the pod was terminated";
const UNSTARTED_CODE: i64 = 137;
/// The shortest grace period that a pod can have.
const GRACE_MIN_SECONDS: i64 = 1;

/// How far the stopping is.
pub(super) struct Stopping {
    grace_seconds: i64,
    /// Containers that are being stopped, by their ids.
    killed: HashSet<String>,
    turns: Vec<Turn>,
    sandbox: Step,
    retry: Retry,
}

/// How far the end is.
#[derive(Default)]
pub(super) struct Ending {
    volumes: Step,
    object: Step,
    remains: Step,
    retry: Retry,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Open,
    Busy,
    Done,
}

impl Worker {
    pub(super) fn begin_stopping(&mut self) {
        self.stopping.send_replace(true);
        self.begun_micros = self.now();
        self.probes.stop_killing();
        let containers = spec::containers(&self.pod);
        let running = |name: &str| self.state.record(name).is_some_and(|record| record.is_running());
        let stopping = Stopping {
            grace_seconds: i64::MAX,
            killed: HashSet::new(),
            turns: Turn::all(&containers, running),
            sandbox: Step::Open,
            retry: Retry::default(),
        };
        self.life = Life::Stopping(stopping);
    }

    /// How long containers may take now. It only ever gets shorter.
    fn grace_seconds(&self, before: i64) -> i64 {
        // A pod that may not go on has what its spec says, and so has one that is over by itself.
        let own = self.pod.get("spec").get("terminationGracePeriodSeconds").as_int().unwrap_or(30);
        let is_evicted = self.state.verdict.as_ref().is_some_and(|verdict| verdict.reason == EVICTED);
        let wanted = match self.origin {
            _ if is_evicted => GRACE_MIN_SECONDS,
            Origin::Orphan => GRACE_MIN_SECONDS,
            _ if spec::is_deleted(&self.pod) => spec::grace_seconds(&self.pod),
            _ => own,
        };
        wanted.max(GRACE_MIN_SECONDS).min(before)
    }

    pub(super) fn go_on_stopping(&mut self) {
        let now = self.now();
        let Life::Stopping(stopping) = &self.life else { return };
        let (before, retry, step) = (stopping.grace_seconds, stopping.retry, stopping.sandbox);
        let grace = self.grace_seconds(before);
        let is_shorter = grace < before && before != i64::MAX;
        if let Life::Stopping(stopping) = &mut self.life {
            stopping.grace_seconds = grace;
        }
        self.kill_running(grace, is_shorter);
        let is_busy = self.state.runs_anything() || self.state.records.iter().any(|record| record.busy.is_some());
        let is_made = matches!(self.sandbox, Sandbox::Making { .. });
        if is_busy || is_made || step == Step::Busy {
            return;
        }
        if retry.until_micros > now {
            return self.wake_at(retry.until_micros);
        }
        match (step, &self.sandbox) {
            (Step::Done, _) | (_, Sandbox::None { .. }) => self.be_stopped(),
            (_, Sandbox::Ready { id } | Sandbox::Dead { id, .. }) => {
                let (id, kubelet, uid) = (id.clone(), self.kubelet.clone(), self.uid.clone());
                self.set_sandbox_step(Step::Busy);
                self.operations.spawn(async move {
                    if let Err(error) = kubelet.runtime().stop_sandbox(&id).await {
                        tracing::warn!(id, %error, "a sandbox cannot be stopped");
                    }
                    Done::Listed(garbage::found_of(&kubelet, &uid).await)
                });
            }
            (_, Sandbox::Making { .. }) => {}
        }
    }

    fn set_sandbox_step(&mut self, step: Step) {
        if let Life::Stopping(stopping) = &mut self.life {
            stopping.sandbox = step;
        }
    }

    /// Stops what runs and is not being stopped. With a shorter grace than before all of it, once more.
    fn kill_running(&mut self, grace_seconds: i64, is_shorter: bool) {
        let pod = self.pod.clone();
        let address = self.state.addresses.first().copied();
        for (number, container) in spec::containers(&pod).into_iter().enumerate() {
            let Some(record) = self.state.record(container.name()).filter(|record| !record.id.is_empty()) else {
                continue;
            };
            // One whose first hook still runs is there, too.
            if !record.is_running() && record.busy != Some(Operation::Hook) {
                continue;
            }
            let (name, id) = (record.name.clone(), raw_id(&record.id).to_owned());
            let Life::Stopping(stopping) = &mut self.life else { return };
            let is_new = stopping.killed.insert(id.clone());
            if !is_new && !is_shorter {
                continue;
            }
            let turn = stopping.turns.get(number).cloned().filter(|_| is_new);
            if is_new {
                let message = format!("Stopping container {}", container.name());
                self.tell(&container.field_path(), false, "Killing", message);
            }
            let kubelet = self.kubelet.clone();
            if !is_new {
                let grace = std::time::Duration::from_secs(u64::try_from(grace_seconds).unwrap_or(0));
                self.operations.spawn(async move {
                    let _ = kubelet.runtime().stop_container(&id, grace).await;
                    Done::Killed { name, id }
                });
                continue;
            }
            let kill = Kill { kubelet, pod: pod.clone(), number, id: id.clone(), grace_seconds, turn, address };
            self.operations.spawn(async move {
                kill.run().await;
                Done::Killed { name, id }
            });
        }
    }

    /// The sandbox was stopped: what the runtime says now is what there is.
    pub(super) fn take_listed(&mut self, found: Found) {
        let now = self.now();
        let touched: Vec<String> = found.containers.iter().map(|status| status.id.clone()).collect();
        let runs = found.containers.iter().any(|status| status.state == rkube_runtime::api::ContainerState::Running);
        if let Life::Stopping(stopping) = &mut self.life {
            stopping.sandbox = if runs { Step::Open } else { Step::Done };
            if runs {
                stopping.retry.fail(now);
                stopping.killed.clear();
            }
        }
        self.inbox.tell(|news| news.touched.extend(touched));
    }

    fn be_stopped(&mut self) {
        self.probes.stop_all();
        self.state.without_sandbox = true;
        self.kubelet.usage.lock().remove(&self.uid);
        if spec::is_deleted(&self.pod) || self.state.verdict.is_some() {
            self.settle_unstarted();
        }
        self.life = Life::Stopped(Ending::default());
    }

    /// Of a pod that is over, all containers have ended, also those that never began.
    fn settle_unstarted(&mut self) {
        let is_rejected = self.state.verdict.as_ref().is_some_and(|verdict| verdict.rejected);
        if is_rejected {
            return;
        }
        let pod = self.pod.clone();
        let containers = spec::containers(&pod);
        let has_init = containers.iter().any(|container| matches!(container.role, Role::Init | Role::Sidecar));
        let initialized = !has_init || plan::has_initialized(&containers, &self.state);
        for container in containers.iter().filter(|container| container.role == Role::Main && initialized) {
            let record = self.state.record_mut(*container);
            if matches!(record.run, Run::Exited(_)) {
                continue;
            }
            record.run = Run::Exited(Box::new(Exit {
                code: UNSTARTED_CODE,
                reason: UNSTARTED_REASON.into(),
                message: UNSTARTED_MESSAGE.to_owned(),
                started_micros: 0,
                finished_micros: 0,
                id: Text::default(),
            }));
        }
    }

    /// Takes away what the pod had, one after the other; each as soon as it may be.
    pub(super) fn finish(&mut self) {
        let now = self.now();
        let Life::Stopped(ending) = &self.life else { return };
        if ending.retry.until_micros > now {
            return self.wake_at(ending.retry.until_micros);
        }
        let (volumes, object, remains) = (ending.volumes, ending.object, ending.remains);
        if volumes == Step::Open {
            self.set_ending(|ending| ending.volumes = Step::Busy);
            let (kubelet, uid) = (self.kubelet.clone(), self.uid.clone());
            self.operations.spawn(async move { Done::Unmounted(kubelet.config.prepare.unmount(&uid).await) });
        }
        if volumes != Step::Done {
            return;
        }
        if self.writer.is_gone {
            if remains == Step::Open {
                self.clean();
            }
            return;
        }
        let may_go = spec::is_deleted(&self.pod) && self.origin == Origin::Api && self.writer.is_up_to_date;
        if may_go && object == Step::Open && spec::is_terminal(self.pod.get("status").str("phase")) {
            self.set_ending(|ending| ending.object = Step::Busy);
            let (client, metadata) = (self.kubelet.config.client.clone(), self.pod.get("metadata"));
            let (namespace, name) = (metadata.str("namespace").to_owned(), metadata.str("name").to_owned());
            let uid = self.uid.clone();
            self.operations.spawn(async move {
                let removed = api::remove_pod(&client, &namespace, &name, &uid).await;
                if let Err(error) = &removed {
                    tracing::warn!(namespace, name, %error, "a pod that has ended cannot be removed");
                }
                Done::Removed(removed.is_ok())
            });
        }
    }

    fn set_ending(&mut self, set: impl FnOnce(&mut Ending)) {
        if let Life::Stopped(ending) = &mut self.life {
            set(ending);
        }
    }

    pub(super) fn take_unmounted(&mut self, result: Result<(), Problem>) {
        let now = self.now();
        let failed = result.err();
        self.set_ending(|ending| match &failed {
            None => ending.volumes = Step::Done,
            Some(_) => {
                ending.volumes = Step::Open;
                ending.retry.fail(now);
            }
        });
        if let Some(problem) = failed {
            tracing::warn!(pod = %spec::display_name(&self.pod), %problem, "volumes cannot be taken away");
        }
    }

    pub(super) fn take_removed(&mut self, was_removed: bool) {
        let now = self.now();
        self.set_ending(|ending| match was_removed {
            true => ending.object = Step::Done,
            false => {
                ending.object = Step::Open;
                ending.retry.fail(now);
            }
        });
    }

    /// The object is gone: what was kept to be looked at goes, too.
    fn clean(&mut self) {
        self.set_ending(|ending| ending.remains = Step::Busy);
        let mut sandboxes = std::mem::take(&mut self.old_sandboxes);
        if let Sandbox::Ready { id } | Sandbox::Dead { id, .. } = &self.sandbox {
            sandboxes.push(id.clone());
        }
        let (kubelet, pod) = (self.kubelet.clone(), self.pod.clone());
        self.operations.spawn(async move {
            garbage::remove_pod(&kubelet, &pod, sandboxes).await;
            Done::Cleaned
        });
    }
}
