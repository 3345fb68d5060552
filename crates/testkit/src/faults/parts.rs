//! Parts of the control plane that crash and hang.
//!
//! A part runs in instances, one after the other or, where they elect a leader, several at a time. One that has crashed
//! is heard of no more, whatever of it still runs: its requests never arrive. One that is paused goes on later where it
//! was, with what it knew then.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rkube_cluster::{Host, Part, Seams, Transport};
use rkube_operator::{Manager, Source};
use tokio::sync::Notify;
use tower::util::BoxCloneService;

use super::plan::Safeguard;
use super::{Chaos, SlowSource, Unreliable};

/// How long until a part that crashed is started again.
const DOWN_MAX: Duration = Duration::from_secs(60);

/// One life of a part.
pub(crate) struct Instance {
    name: &'static str,
    chaos: Arc<Chaos>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Paused,
    /// For good.
    Crashed,
}

impl Instance {
    pub fn new(name: &'static str, chaos: Arc<Chaos>) -> Arc<Instance> {
        Arc::new(Instance { name, chaos, state: Mutex::new(State::Runs), changed: Notify::new() })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn chaos(&self) -> &Arc<Chaos> {
        &self.chaos
    }

    /// Returns while it runs: at once, or when a pause is over, or never.
    pub async fn runs(&self) {
        // In the order of coming: a channel of tokio's would draw lots among those who wait.
        while *self.state.lock() != State::Runs {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if *self.state.lock() != State::Runs {
                changed.await;
            }
        }
    }

    fn set(&self, to: State) {
        let mut state = self.state.lock();
        if *state != State::Crashed && *state != to {
            *state = to;
            self.changed.notify_waiters();
        }
    }
}

/// What stands between an instance and the server.
struct Between(Arc<Instance>);

impl Seams for Between {
    fn transport(&self, direct: Transport) -> Transport {
        BoxCloneService::new(Unreliable::new(direct, self.0.clone()))
    }

    fn source(&self, direct: Arc<dyn Source>) -> Arc<dyn Source> {
        Arc::new(SlowSource::new(direct, self.0.clone()))
    }

    fn reads_own_writes(&self) -> bool {
        self.0.chaos.plan().without != Some(Safeguard::ReadYourWrites)
    }
}

/// The same host for an instance.
pub(crate) fn host_for(host: &Host, instance: &Arc<Instance>) -> Host {
    host.with_seams(Arc::new(Between(instance.clone())))
}

/// The parts that may crash and hang, by name.
#[derive(Default)]
pub(crate) struct Instances {
    all: Mutex<Vec<Arc<Supervised>>>,
}

/// A part, whichever instance of it runs.
pub(crate) struct Supervised {
    pub name: &'static str,
    current: Mutex<Option<Arc<Instance>>>,
    crash: Notify,
}

impl Instances {
    /// All of them, in the order of their start.
    pub fn all(&self) -> Vec<Arc<Supervised>> {
        self.all.lock().clone()
    }
}

impl Supervised {
    /// Ends the part at once. Another instance is started after a while.
    pub fn crash(&self) {
        self.crash.notify_one();
    }

    pub fn pause(&self) {
        self.set(State::Paused);
    }

    pub fn resume(&self) {
        self.set(State::Runs);
    }

    fn set(&self, state: State) {
        if let Some(current) = &*self.current.lock() {
            current.set(state);
        }
    }
}

/// A part that is started again when it has crashed. `make` is asked for it at each start.
pub(crate) fn supervised(
    name: &'static str,
    chaos: &Arc<Chaos>,
    instances: &Instances,
    make: impl Fn() -> Part + Send + Sync + 'static,
) -> Part {
    let supervised = Arc::new(Supervised { name, current: Mutex::default(), crash: Notify::new() });
    instances.all.lock().push(supervised.clone());
    let (chaos, make) = (chaos.clone(), Arc::new(make));
    let Part { component, settled, .. } = make();
    let start = move |host: &Host| {
        let mut manager = Manager::new(host.source(rkube_cluster::component_user(name, &[])));
        let host = host.clone();
        manager.add(name, move || lives(host.clone(), chaos.clone(), supervised.clone(), make.clone()));
        manager
    };
    Part { component, start: Box::new(start), settled }
}

async fn lives(
    host: Host,
    chaos: Arc<Chaos>,
    supervised: Arc<Supervised>,
    make: Arc<impl Fn() -> Part + Send + Sync + 'static>,
) {
    loop {
        let instance = Instance::new(supervised.name, chaos.clone());
        *supervised.current.lock() = Some(instance.clone());
        let running = (make().start)(&host_for(&host, &instance));
        supervised.crash.notified().await;
        instance.set(State::Crashed);
        drop(running);
        let down = if chaos.is_active() { chaos.a_while(DOWN_MAX) } else { Duration::from_millis(1) };
        tokio::time::sleep(down).await;
    }
}
