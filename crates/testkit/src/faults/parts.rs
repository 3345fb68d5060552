//! Parts of the control plane that crash and hang.
//!
//! A part runs in instances, one after the other or, where they elect a leader, several at a time. One that has crashed
//! is heard of no more, whatever of it still runs: its requests never arrive. One that is paused goes on later where it
//! was, with what it knew then: it does not know that time has passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rkube_cluster::{Host, Part, Seams, Transport};
use rkube_operator::process::Process;
use rkube_operator::{Manager, Source};
use tokio::sync::Notify;
use tower::util::BoxCloneService;

use super::plan::Safeguard;
use super::{Chaos, SlowSource, Unreliable};

/// How long until a part that crashed is started again.
const DOWN_MAX: Duration = Duration::from_secs(60);

/// One life of a part.
pub(crate) struct Instance {
    pub name: Arc<str>,
    /// Unlike that of any other.
    pub identity: String,
    /// By whose Lease it acts; None: it need not be elected.
    pub lease: Option<&'static str>,
    chaos: Arc<Chaos>,
    process: Process,
    has_crashed: AtomicBool,
}

impl Instance {
    pub fn new(name: Arc<str>, lease: Option<&'static str>, life: u64, chaos: Arc<Chaos>) -> Arc<Instance> {
        let identity = format!("{name}_{life}");
        let (process, has_crashed) = (Process::default(), AtomicBool::new(false));
        Arc::new(Instance { name, identity, lease, chaos, process, has_crashed })
    }

    pub fn chaos(&self) -> &Arc<Chaos> {
        &self.chaos
    }

    /// Returns at once, or never if it has crashed.
    pub async fn lives(&self) {
        if self.has_crashed.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

/// What stands between an instance and the server.
struct Between(Arc<Instance>);

impl Seams for Between {
    fn transport(&self, user: &str, direct: Transport) -> Transport {
        BoxCloneService::new(Unreliable::new(direct, self.0.clone(), user))
    }

    fn source(&self, direct: Arc<dyn Source>) -> Arc<dyn Source> {
        Arc::new(SlowSource::new(direct, self.0.clone()))
    }

    fn reads_own_writes(&self) -> bool {
        self.0.chaos.plan().without != Some(Safeguard::ReadYourWrites)
    }

    fn fences(&self) -> bool {
        self.0.chaos.plan().without != Some(Safeguard::Fencing)
    }
}

/// The same host for an instance.
pub(crate) fn host_for(host: &Host, instance: &Arc<Instance>) -> Host {
    host.with_seams(Arc::new(Between(instance.clone())))
}

/// The parts that may crash and hang, in the order of their start.
#[derive(Default)]
pub(crate) struct Instances {
    all: Mutex<Vec<Arc<Supervised>>>,
}

/// A part, whichever instance of it runs.
pub(crate) struct Supervised {
    pub name: Arc<str>,
    current: Mutex<Option<Arc<Instance>>>,
    crash: Notify,
}

impl Instances {
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
        if let Some(current) = &*self.current.lock() {
            current.process.stop();
        }
    }

    pub fn resume(&self) {
        let current = self.current.lock().clone();
        if let Some(current) = current {
            current.process.wake();
        }
    }
}

/// A part that is started again when it has crashed. `make` is asked for it at each start, and told who it is.
pub(crate) fn supervised(
    name: &str,
    lease: Option<&'static str>,
    chaos: &Arc<Chaos>,
    instances: &Instances,
    make: impl Fn(&str) -> Part + Send + Sync + 'static,
) -> Part {
    let supervised = Arc::new(Supervised { name: name.into(), current: Mutex::default(), crash: Notify::new() });
    instances.all.lock().push(supervised.clone());
    let Part { component, settled, .. } = make(name);
    let (chaos, make) = (chaos.clone(), Arc::new(make));
    let start = move |host: &Host| {
        let mut manager = Manager::new(host.source(rkube_cluster::component_user("supervisor", &[])));
        let host = host.clone();
        manager.add("supervisor", move || lives(host.clone(), chaos.clone(), supervised.clone(), lease, make.clone()));
        manager
    };
    Part { component, start: Box::new(start), settled }
}

async fn lives(
    host: Host,
    chaos: Arc<Chaos>,
    supervised: Arc<Supervised>,
    lease: Option<&'static str>,
    make: Arc<impl Fn(&str) -> Part + Send + Sync + 'static>,
) {
    for life in 1.. {
        let instance = Instance::new(supervised.name.clone(), lease, life, chaos.clone());
        *supervised.current.lock() = Some(instance.clone());
        let running = instance.process.scope(|| (make(&instance.identity).start)(&host_for(&host, &instance)));
        supervised.crash.notified().await;
        instance.has_crashed.store(true, Ordering::Relaxed);
        drop(running);
        let down = if chaos.is_active() { chaos.a_while(DOWN_MAX) } else { Duration::from_millis(1) };
        tokio::time::sleep(down).await;
    }
}
