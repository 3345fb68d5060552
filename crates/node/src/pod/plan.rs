//! What is to be done with the containers of a pod: which are started, which are stopped, and what is waited for. Who
//! has a container runtime does it; the plan is the same for a simulated one.

use rkube_machinery::Value;

use super::spec::{self, Container, Role};
use super::state::{FailedProbe, PodState, Record, Run};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the container of this number; count it as a restart where it ran before.
    Start(usize),
    /// It ended too often: say so, and start it at this time (microseconds).
    BackOff { container: usize, until_micros: i64 },
    /// Its definition has changed: stop it, it is started again.
    Replace(usize),
    /// A probe of it has failed too often: stop it. Whether it is started again is seen then.
    Kill(usize, FailedProbe),
    /// One of the containers ended in a way that has all of them begin anew.
    RestartAll,
    /// The pod is over, or is to be: stop what runs.
    StopAll,
}

/// What to do now, and when to look again if nothing happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub wake_micros: Option<i64>,
}

impl Plan {
    fn wake(&mut self, at_micros: i64) {
        self.wake_micros = Some(self.wake_micros.map_or(at_micros, |known| known.min(at_micros)));
    }
}

/// `containers` are those of the pod, in the order of [`spec::containers`].
pub fn plan(pod: &Value, containers: &[Container<'_>], state: &PodState, now_micros: i64) -> Plan {
    let mut planner = Planner { pod, containers, state, now_micros, plan: Plan::default() };
    let phase = pod.get("status").str("phase");
    if spec::is_deleted(pod) || state.verdict.is_some() || spec::is_terminal(phase) {
        planner.stop_all();
    } else {
        planner.keep_running();
    }
    planner.plan
}

/// Whether any of the pod's main containers was ever started: then initialization is behind it.
pub fn has_initialized(containers: &[Container<'_>], state: &PodState) -> bool {
    let mut main = containers.iter().filter(|container| container.role == Role::Main);
    main.any(|container| state.record(container.name()).is_some_and(|record| !record.id.is_empty() && !record.outdated))
}

struct Planner<'a> {
    pod: &'a Value,
    containers: &'a [Container<'a>],
    state: &'a PodState,
    now_micros: i64,
    plan: Plan,
}

/// What a container of an initialization lets the next one do.
enum Next {
    MayStart,
    Waits,
    /// The pod has failed with it.
    Never,
}

impl<'a> Planner<'a> {
    fn stop_all(&mut self) {
        if self.state.runs_anything() {
            self.plan.actions.push(Action::StopAll);
        }
    }

    fn keep_running(&mut self) {
        if self.all_restart() {
            return self.plan.actions.push(Action::RestartAll);
        }
        for (number, container) in self.of_role(|role| role == Role::Ephemeral) {
            if self.state.record(container.name()).is_none_or(|record| record.id.is_empty()) {
                self.start(number, container, self.state.record(container.name()));
            }
        }
        match self.initialize() {
            Next::MayStart => self.keep_main_running(),
            Next::Waits => {}
            Next::Never => self.stop_all(),
        }
    }

    fn of_role(&self, wanted: impl Fn(Role) -> bool) -> Vec<(usize, Container<'a>)> {
        let all = self.containers.iter().copied().enumerate();
        all.filter(|(_, container)| wanted(container.role)).collect()
    }

    fn initialize(&mut self) -> Next {
        let initialized = has_initialized(self.containers, self.state);
        let containers = self.containers;
        for (number, container) in containers.iter().copied().enumerate() {
            let next = match container.role {
                Role::Init if !initialized => self.run_once(number, container),
                // What keeps the pod from its end is decided by the main containers.
                Role::Sidecar if initialized && self.is_over() => Next::MayStart,
                Role::Sidecar => self.keep_sidecar(number, container),
                Role::Init | Role::Main | Role::Ephemeral => Next::MayStart,
            };
            match next {
                Next::MayStart => {}
                Next::Waits if initialized => {}
                Next::Waits | Next::Never => return next,
            }
        }
        Next::MayStart
    }

    fn run_once(&mut self, number: usize, container: Container<'_>) -> Next {
        let record = self.state.record(container.name());
        let counting = record.filter(|record| !record.outdated);
        match counting.map(|record| (&record.run, record.exit())) {
            Some((Run::Running { .. }, _)) => Next::Waits,
            Some((_, Some(exit))) if exit.code == 0 => Next::MayStart,
            Some((_, Some(exit))) if !spec::should_restart(self.pod, container, exit.code) => Next::Never,
            _ => {
                self.start(number, container, record);
                Next::Waits
            }
        }
    }

    fn keep_sidecar(&mut self, number: usize, container: Container<'_>) -> Next {
        let record = self.state.record(container.name());
        match record {
            Some(record) if record.is_running() => {
                self.check_running(number, container, record);
                if record.started { Next::MayStart } else { Next::Waits }
            }
            _ => {
                self.start(number, container, record);
                Next::Waits
            }
        }
    }

    /// Whether all main containers have ended for good.
    fn is_over(&self) -> bool {
        let mut main = self.containers.iter().filter(|container| container.role == Role::Main);
        main.all(|container| {
            let exit = self.state.record(container.name()).and_then(Record::exit);
            exit.is_some_and(|exit| !spec::should_restart(self.pod, *container, exit.code))
        })
    }

    fn keep_main_running(&mut self) {
        if self.is_over() {
            return self.stop_all();
        }
        let containers = self.containers;
        for (number, container) in containers.iter().copied().enumerate() {
            if container.role != Role::Main {
                continue;
            }
            let record = self.state.record(container.name());
            match record {
                Some(record) if record.is_running() => self.check_running(number, container, record),
                _ => {
                    let exit = record.and_then(Record::exit);
                    if exit.is_none_or(|exit| spec::should_restart(self.pod, container, exit.code)) {
                        self.start(number, container, record);
                        if is_held_up(container, record) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Whether a container runs that must not go on.
    fn check_running(&mut self, number: usize, container: Container<'_>, record: &Record) {
        if record.busy.is_some() {
            return;
        }
        if record.image != container.image() {
            self.plan.actions.push(Action::Replace(number));
        } else if let Some(probe) = record.failed_probe {
            self.plan.actions.push(Action::Kill(number, probe));
        }
    }

    /// Whether a container has ended by whose rules all of them begin anew.
    fn all_restart(&self) -> bool {
        self.containers.iter().any(|container| {
            let record = self.state.record(container.name()).filter(|record| !record.outdated && record.busy.is_none());
            let Some(Run::Exited(exit)) = record.map(|record| &record.run) else { return false };
            spec::restarts_all(container.value, exit.code)
        })
    }

    /// Starts it, unless it has to wait. What another image did is no reason to.
    fn start(&mut self, number: usize, container: Container<'_>, record: Option<&Record>) {
        let now = self.now_micros;
        if record.is_some_and(|record| record.busy.is_some()) {
            return;
        }
        let record = record.filter(|record| record.image.is_empty() || record.image == container.image());
        match record.map(|record| (&record.run, record)) {
            Some((Run::Waiting(waiting), _)) if waiting.until_micros > now => self.plan.wake(waiting.until_micros),
            Some((Run::Exited(exit), record)) => self.start_unless_too_soon(number, record, exit.finished_micros),
            Some((Run::Waiting(waiting), record)) if waiting.has_run() => {
                let finished_micros = record.last.as_deref().map_or(0, |exit| exit.finished_micros);
                self.start_unless_too_soon(number, record, finished_micros);
            }
            _ => self.plan.actions.push(Action::Start(number)),
        }
    }

    fn start_unless_too_soon(&mut self, number: usize, record: &Record, finished_micros: i64) {
        match record.backoff.until(finished_micros, self.now_micros) {
            Some(until_micros) => {
                self.plan.actions.push(Action::BackOff { container: number, until_micros });
                self.plan.wake(until_micros);
            }
            None => self.plan.actions.push(Action::Start(number)),
        }
    }
}

/// Whether the containers behind this one wait until it has run its first hook.
fn is_held_up(container: Container<'_>, record: Option<&Record>) -> bool {
    let has_failed = record.is_some_and(|record| record.busy.is_none() && matches!(record.run, Run::Waiting(_)));
    container.value.get("lifecycle").has("postStart") && !has_failed
}
