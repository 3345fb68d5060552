//! A pod's phase, of what its containers did.

use rkube_machinery::Value;

use super::plan;
use super::spec::{self, Container, Role};
use super::state::{PodState, Run};

/// What a container counts as.
enum Seen {
    /// It was never started.
    Unstarted,
    Running {
        started: bool,
    },
    /// It ended, and may be waiting to be started again.
    Stopped {
        code: i64,
        restartable: bool,
    },
}

/// `is_over`: no container is started again, whatever policies say.
pub fn phase(pod: &Value, containers: &[Container<'_>], state: &PodState, is_over: bool) -> &'static str {
    let mut count = Count::default();
    for container in containers {
        count.take(container.role, seen(pod, *container, state));
    }
    if count.failed_initialization {
        return "Failed";
    }
    let initialized = plan::has_initialized(containers, state);
    if count.initializing || (count.sidecars_starting && !initialized) || count.waiting > 0 {
        return "Pending";
    }
    if count.running > 0 {
        return "Running";
    }
    if count.stopped == 0 {
        return "Pending";
    }
    match (is_over || count.stopped == count.stopped_for_good, count.stopped == count.succeeded) {
        (false, _) => "Running",
        (true, true) => "Succeeded",
        (true, false) => "Failed",
    }
}

#[derive(Default)]
struct Count {
    failed_initialization: bool,
    initializing: bool,
    sidecars_starting: bool,
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
}

impl Count {
    fn take(&mut self, role: Role, seen: Seen) {
        match (role, seen) {
            (Role::Ephemeral, _) | (Role::Sidecar, Seen::Stopped { .. }) => {}
            (Role::Init, Seen::Unstarted | Seen::Running { .. }) => self.initializing = true,
            (Role::Init, Seen::Stopped { code, restartable }) => {
                self.failed_initialization |= code != 0 && !restartable;
                self.initializing |= code != 0 && restartable;
            }
            (Role::Sidecar, Seen::Running { started }) => {
                self.sidecars_starting |= !started;
                self.running += 1;
            }
            (Role::Sidecar, Seen::Unstarted) => {
                self.sidecars_starting = true;
                self.waiting += 1;
            }
            (Role::Main, Seen::Unstarted) => self.waiting += 1,
            (Role::Main, Seen::Running { .. }) => self.running += 1,
            (Role::Main, Seen::Stopped { code, restartable }) => {
                self.stopped += 1;
                self.stopped_for_good += usize::from(!restartable);
                self.succeeded += usize::from(code == 0);
            }
        }
    }
}

fn seen(pod: &Value, container: Container<'_>, state: &PodState) -> Seen {
    let Some(record) = state.record(container.name()) else { return Seen::Unstarted };
    match (&record.run, record.exit()) {
        _ if record.begins_anew() => Seen::Stopped { code: 137, restartable: true },
        (Run::Running { .. }, _) => Seen::Running { started: record.started },
        (_, Some(exit)) => {
            Seen::Stopped { code: exit.code, restartable: spec::should_restart(pod, container, exit.code) }
        }
        _ => Seen::Unstarted,
    }
}
