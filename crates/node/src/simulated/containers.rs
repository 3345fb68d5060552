//! The container runtime that is none: what the plan asks for has happened at once, and containers end, start and get
//! ready when the time has come.

use std::time::Duration;

use rkube_machinery::Value;

use super::behaviour::{Behaviour, Settings, behaviour, reason};
use super::ids;
use super::images::{Images, Pull, SIZE_BYTES};
use crate::pod::backoff::{Backoff, micros};
use crate::pod::plan::{self, Action};
use crate::pod::spec::{self, Container, Role};
use crate::pod::state::{PodState, Run, Waiting};
use crate::pod::waits;

/// So often the plan of a pod is followed before others have their turn; the rest is done a moment later.
const ROUNDS_MAX: usize = 64;
/// When that is.
const AGAIN: Duration = Duration::from_millis(1);
/// How long it is shown that an image could not be pulled, before it is shown that this is waited for.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(2);

/// An event about a pod or, where it has a path, one of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    pub field_path: String,
    pub warning: bool,
    pub reason: String,
    pub message: String,
}

/// Where the pod runs.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub node: &'a str,
    pub images: &'a Images,
    /// How long containers take to stop.
    pub stop_delay: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Advanced {
    pub events: Vec<PodEvent>,
    /// When something happens next, if nobody does anything.
    pub wake_micros: Option<i64>,
}

impl Advanced {
    fn wake(&mut self, at_micros: i64) {
        self.wake_micros = Some(self.wake_micros.map_or(at_micros, |known| known.min(at_micros)));
    }
}

/// Brings a pod's containers to where they are at this time.
pub fn advance(pod: &Value, state: &mut PodState, place: Place<'_>, now_micros: i64) -> Advanced {
    let containers = spec::containers(pod);
    let mut machine = Machine { pod, containers: &containers, place, now_micros, told: Advanced::default() };
    for _ in 0..ROUNDS_MAX {
        machine.told.wake_micros = None;
        machine.pass_time(state);
        let plan = plan::plan(pod, &containers, state, now_micros);
        if let Some(wake) = plan.wake_micros {
            machine.told.wake(wake);
        }
        let mut changed = false;
        for action in plan.actions {
            changed |= machine.act(state, &action);
        }
        if !changed {
            return machine.told;
        }
    }
    machine.told.wake(now_micros + micros(AGAIN));
    machine.told
}

struct Machine<'a> {
    pod: &'a Value,
    containers: &'a [Container<'a>],
    place: Place<'a>,
    now_micros: i64,
    told: Advanced,
}

impl Machine<'_> {
    fn behaviour(&self, container: Container<'_>) -> Behaviour {
        behaviour(Settings::of(self.pod), container)
    }

    /// What containers do by themselves, and what was asked of them a while ago.
    fn pass_time(&mut self, state: &mut PodState) {
        let now = self.now_micros;
        for container in self.containers {
            let record = state.record_mut(*container);
            let Run::Running { since_micros } = record.run else { continue };
            let behaviour = self.behaviour(*container);
            if let Some((after, code, reason)) = &behaviour.ending {
                let at = since_micros.saturating_add(micros(*after));
                if at <= now {
                    record.stop(*code, reason, at);
                    continue;
                }
                self.told.wake(at);
            }
            let due = |after: Duration| since_micros.saturating_add(micros(after));
            record.started = due(behaviour.started_after) <= now;
            if !record.started {
                self.told.wake(due(behaviour.started_after));
            }
            let ready_at = behaviour.ready_after.map(due);
            record.ready = record.started && ready_at.is_some_and(|at| at <= now);
            if let Some(at) = ready_at.filter(|at| *at > now) {
                self.told.wake(at);
            }
        }
        match state.stopped_at_micros {
            Some(at) if at <= now => {
                for container in self.containers {
                    let code = self.behaviour(*container).stop_code;
                    state.record_mut(*container).stop(code, &reason(code), at);
                }
                state.stopped_at_micros = None;
            }
            Some(at) => self.told.wake(at),
            None => {}
        }
    }

    /// Whether anything is different now.
    fn act(&mut self, state: &mut PodState, action: &Action) -> bool {
        match action {
            Action::Start(number) => self.start(state, self.containers[*number]),
            Action::BackOff { container, until_micros } => {
                self.back_off(state, self.containers[*container], *until_micros);
            }
            Action::Replace(number) => {
                let container = self.containers[*number];
                let code = self.behaviour(container).stop_code;
                state.record_mut(container).stop(code, &reason(code), self.now_micros);
                let message = format!("Container {} definition changed, will be restarted", container.name());
                self.tell(container, false, "Killing", message);
                self.start(state, container);
            }
            // Probes of simulated containers do not fail.
            Action::Kill(..) => return false,
            Action::RestartAll => self.restart_all(state),
            Action::StopAll => return self.stop_all(state),
        }
        true
    }

    fn start(&mut self, state: &mut PodState, container: Container<'_>) {
        let now = self.now_micros;
        let behaviour = self.behaviour(container);
        let record = state.record_mut(container);
        if record.image != container.image() {
            record.pull_backoff = Backoff::default();
        }
        let waited = match &record.run {
            Run::Waiting(waiting) => Some(waiting.reason.clone()),
            _ => None,
        };
        if matches!(record.run, Run::Creating) && !behaviour.start_delay.is_zero() {
            let until_micros = now.saturating_add(micros(behaviour.start_delay));
            record.run = Run::Waiting(Box::new(Waiting { reason: "".into(), message: String::new(), until_micros }));
            return;
        }
        if waited.as_deref() == Some("ErrImagePull")
            && let Some(until_micros) = record.pull_backoff.until_since_update(now)
        {
            return self.wait_for_image(state, container, until_micros);
        }
        match self.pull(container, behaviour.can_be_pulled) {
            Ok(()) => {
                let record = state.record_mut(container);
                if let Some(exit) = record.exit().cloned() {
                    record.backoff.count(exit.finished_micros, now);
                    record.last = Some(Box::new(exit));
                    record.restarts = record.restarts.saturating_add(1);
                }
                record.image = container.image().into();
                record.image_id = ids::image(container.image());
                record.id = ids::container(self.pod.get("metadata").str("uid"), container.name(), record.restarts);
                record.run = Run::Running { since_micros: now };
                self.tell(container, false, "Created", "Container created".to_owned());
                self.tell(container, false, "Started", "Container started".to_owned());
            }
            Err(message) => {
                let record = state.record_mut(container);
                record.pull_backoff.count(now, now);
                record.last = record.exit().cloned().map(Box::new);
                record.image = container.image().into();
                let until_micros = now + micros(PULL_ERROR_SHOWN);
                let waiting = Waiting { reason: "ErrImagePull".into(), message, until_micros };
                record.run = Run::Waiting(Box::new(waiting));
            }
        }
    }

    fn wait_for_image(&mut self, state: &mut PodState, container: Container<'_>, until_micros: i64) {
        let Some(short) = waits::image_pull(container, state.record_mut(container), until_micros) else { return };
        self.tell(container, false, "BackOff", short);
        self.tell(container, true, "Failed", "Error: ImagePullBackOff".to_owned());
    }

    fn pull(&mut self, container: Container<'_>, can_be_pulled: bool) -> Result<(), String> {
        let image = container.image();
        let policy = container.value.str("imagePullPolicy");
        let pulled = self.place.images.pull(self.place.node, image, policy, can_be_pulled);
        if let Pull::Present = pulled {
            let message =
                format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
            self.tell(container, false, "Pulled", message);
            return Ok(());
        }
        self.tell(container, false, "Pulling", format!("Pulling image \"{image}\""));
        if let Pull::Failed(why) = pulled {
            self.tell(container, true, "Failed", format!("Failed to pull image \"{image}\": {why}"));
            self.tell(container, true, "Failed", "Error: ErrImagePull".to_owned());
            return Err(why);
        }
        let message = format!(
            "Successfully pulled image \"{image}\" in 1ms (1ms including waiting). Image size: {SIZE_BYTES} bytes."
        );
        self.tell(container, false, "Pulled", message);
        Ok(())
    }

    fn back_off(&mut self, state: &mut PodState, container: Container<'_>, until_micros: i64) {
        if let Some(message) = waits::crash_loop(self.pod, container, state.record_mut(container), until_micros) {
            self.tell(container, true, "BackOff", message);
        }
    }

    /// All containers but ephemeral ones begin anew, in their order, and at once.
    fn restart_all(&mut self, state: &mut PodState) {
        for container in self.containers.iter().filter(|container| container.role != Role::Ephemeral) {
            state.record_mut(*container).begin_anew(self.now_micros);
        }
    }

    fn stop_all(&mut self, state: &mut PodState) -> bool {
        if state.stopped_at_micros.is_some() {
            return false;
        }
        let grace = Duration::from_secs(u64::try_from(spec::grace_seconds(self.pod)).unwrap_or(0));
        let at = self.now_micros + micros(self.place.stop_delay.min(grace));
        state.stopped_at_micros = Some(at);
        for container in self.containers {
            if state.record(container.name()).is_some_and(|record| record.is_running()) {
                self.tell(*container, false, "Killing", format!("Stopping container {}", container.name()));
            }
        }
        true
    }

    fn tell(&mut self, container: Container<'_>, warning: bool, reason: &str, message: String) {
        self.told.events.push(PodEvent {
            field_path: container.field_path(),
            warning,
            reason: reason.to_owned(),
            message,
        });
    }
}
