//! The scheduler at work: informers tell the [`Core`] what changes, one loop asks it what to do, and tasks do that, many
//! at a time.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1 as api;
use parking_lot::{Mutex, MutexGuard};
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Selection};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::Config;
use crate::core::{Bound, Core, Step};
use crate::events::Events;
use crate::view::{Node, Pod};
use crate::writes::{bind, condition_patch, set_condition};

/// So many bindings and conditions are written at a time; the loop waits at it. On a slow disk it is this many that share
/// one wait for it.
const WRITES_MAX: usize = 256;
/// After so many pods the loop lets others have the thread.
const STEPS_AT_ONCE: usize = 8;

/// What the loop, the informers and the tasks share.
struct Shared {
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    core: Core,
    /// Somebody panicked while changing the core: it cannot be relied on.
    is_broken: bool,
}

/// Runs until it is dropped. Panics if the core did: whoever started this starts it anew, with nothing of the old.
pub async fn run(config: Arc<Config>, caches: Caches) {
    let names: Vec<Text> = config.names.iter().map(Text::new).collect();
    let core = Core::new(names.clone(), config.percentage_of_nodes_to_score, config.entropy.next_u64());
    let state = Mutex::new(State { core, is_broken: false });
    let shared = Arc::new(Shared { state, wake: Notify::new() });
    // Handlers last as long as their informers are held.
    let _informers = follow(&shared, &caches).await;
    let events = Arc::new(Events::start(&config.client, &config.clock, &names, &config.host_name));
    let mut writes = JoinSet::new();
    loop {
        for _ in 0..STEPS_AT_ONCE {
            while let Some(ended) = writes.try_join_next() {
                settle(ended);
            }
            if writes.len() >= WRITES_MAX
                && let Some(ended) = writes.join_next().await
            {
                settle(ended);
            }
            let now = Instant::now();
            match shared.with(|core| core.step(now).ok_or_else(|| core.next_deadline())) {
                Ok(step) => {
                    if let Some(write) = act(&config, &shared, &events, step) {
                        writes.spawn(write);
                    }
                }
                Err(deadline) => idle(&shared, &mut writes, deadline).await,
            }
        }
        tokio::task::yield_now().await;
    }
}

/// A write that panicked leaves a pod of which nobody knows what became: everything begins anew.
fn settle(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        panic!("a write failed: {error}");
    }
}

/// Returns when the core knows everything that is there.
async fn follow(shared: &Arc<Shared>, caches: &Caches) -> (Informer<Node>, Informer<Pod>) {
    let (of_nodes, of_pods) = (shared.clone(), shared.clone());
    let nodes = ApiResource::erase::<api::Node>(&());
    let nodes = caches.view(&nodes, Selection::default(), Node::of).on_change(move |change| {
        let (old, new) = (change.old.map(|node| &**node), change.new.map(|node| &**node));
        of_nodes.tell(|core| core.node_changed(old, new, Instant::now()));
    });
    let pods = ApiResource::erase::<api::Pod>(&());
    let pods = caches.view(&pods, Selection::default(), Pod::of).on_change(move |change| {
        of_pods.tell(|core| core.pod_changed(change.old, change.new, Instant::now()));
    });
    nodes.synced().await;
    pods.synced().await;
    // A cache is there before all handlers have heard of it: one more is added behind them.
    (nodes.on_change(|_| {}), pods.on_change(|_| {}))
}

/// Until something has changed, or it is time to look again.
async fn idle(shared: &Shared, writes: &mut JoinSet<()>, deadline: Option<Instant>) {
    tokio::select! {
        biased;
        Some(ended) = writes.join_next() => settle(ended),
        () = shared.wake.notified() => {}
        () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {}
    }
}

/// Does what was decided; what has to be written is written by the future, if there is any.
fn act(config: &Arc<Config>, shared: &Arc<Shared>, events: &Arc<Events>, step: Step) -> Option<BoxFuture<'static, ()>> {
    let (config, shared, events) = (config.clone(), shared.clone(), events.clone());
    match step {
        Step::Bind { pod, node } => Some(bind_pod(config, shared, events, pod, node).boxed()),
        Step::Refused { pod, message } => {
            events.failed(&pod, &message);
            let patch = condition_patch(&*config.clock, &pod, "Unschedulable", &message)?;
            Some(async move { set_condition(&config.client, &pod, patch).await }.boxed())
        }
        Step::Skipped { pod } => {
            events.skipped(&pod);
            None
        }
    }
}

async fn bind_pod(config: Arc<Config>, shared: Arc<Shared>, events: Arc<Events>, pod: Arc<Pod>, node: Text) {
    let binding = bind(&config.client, &pod, &node).await;
    if binding.outcome == Bound::Done {
        events.scheduled(&pod, &node);
    }
    let waits = shared.with(|core| core.bound(&pod.uid, binding.outcome, Instant::now()));
    // Others may fit now where it was to be; and it has a time at which it is tried again.
    if binding.outcome != Bound::Done {
        shared.wake.notify_one();
    }
    let Some(pod) = waits else { return };
    let message = format!("running Bind plugin \"DefaultBinder\": {}", binding.error);
    events.failed(&pod, &message);
    if let Some(patch) = condition_patch(&*config.clock, &pod, "SchedulerError", &message) {
        set_condition(&config.client, &pod, patch).await;
    }
}

impl Shared {
    /// Changes the core, and wakes the loop if there is something to do now.
    fn tell(&self, change: impl FnOnce(&mut Core)) {
        let has_work = self.with(|core| {
            change(core);
            core.has_work()
        });
        if has_work {
            self.wake.notify_one();
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        let mut state: MutexGuard<'_, State> = self.state.lock();
        assert!(!state.is_broken, "the scheduler's state cannot be relied on after a panic");
        state.is_broken = true;
        let _loop_is_told = WakeOnPanic(&self.wake);
        let result = work(&mut state.core);
        state.is_broken = false;
        result
    }
}

/// Wakes the loop when somebody else panics, so that it ends, too.
struct WakeOnPanic<'a>(&'a Notify);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.notify_one();
        }
    }
}
