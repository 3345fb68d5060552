//! The scheduler at work: informers tell the [`Core`] what changes, one loop asks it what to do, and tasks do that, many
//! at a time.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;
use parking_lot::{Mutex, MutexGuard};
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Selection};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Config;
use crate::core::{Bound, Core, Step};
use crate::events::Events;
use crate::view::{Node, Pod};
use crate::writes::{bind, set_condition};

/// So many bindings and conditions are written at a time; the loop waits at it. It stays well below the number of
/// requests that a server has in flight.
const WRITES_MAX: usize = 64;
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
    let (nodes, pods) = follow(&shared, &caches).await;
    let events = Arc::new(Events::start(&config.client, &config.clock, &names, &config.host_name));
    let mut writes = JoinSet::new();
    loop {
        for _ in 0..STEPS_AT_ONCE {
            while writes.len() >= WRITES_MAX {
                writes.join_next().await;
            }
            while writes.try_join_next().is_some() {}
            let (step, deadline) = {
                let now = Instant::now();
                let step = shared.with(|core| core.step(now));
                let deadline = if step.is_none() { shared.with(|core| core.next_deadline()) } else { None };
                (step, deadline)
            };
            match step {
                Some(step) => drop(writes.spawn(act(config.clone(), shared.clone(), events.clone(), step))),
                None => idle(&shared, deadline).await,
            }
        }
        tokio::task::yield_now().await;
        debug_assert!(Arc::strong_count(&shared) > 1, "{} nodes, {} pods", nodes.len(), pods.len());
    }
}

/// Returns when the core knows everything that is there.
async fn follow(shared: &Arc<Shared>, caches: &Caches) -> (Informer<Node>, Informer<Pod>) {
    let (of_nodes, of_pods) = (shared.clone(), shared.clone());
    let nodes = ApiResource::erase::<api::Node>(&());
    let nodes = caches.view(&nodes, Selection::default(), Node::of).on_change(move |change| {
        let (old, new) = (change.old.map(|node| &**node), change.new.map(|node| &**node));
        of_nodes.with(|core| core.node_changed(old, new, Instant::now()));
        of_nodes.wake.notify_one();
    });
    let pods = ApiResource::erase::<api::Pod>(&());
    let pods = caches.view(&pods, Selection::default(), Pod::of).on_change(move |change| {
        of_pods.with(|core| core.pod_changed(change.old, change.new, Instant::now()));
        of_pods.wake.notify_one();
    });
    nodes.synced().await;
    pods.synced().await;
    // A cache is there before all handlers have heard of it: one more is added behind them.
    (nodes.on_change(|_| {}), pods.on_change(|_| {}))
}

/// Until something has changed, or it is time to look again.
async fn idle(shared: &Shared, deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => {
            tokio::select! {
                () = shared.wake.notified() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
        None => shared.wake.notified().await,
    }
}

async fn act(config: Arc<Config>, shared: Arc<Shared>, events: Arc<Events>, step: Step) {
    let Config { client, clock, .. } = &*config;
    match step {
        Step::Bind { pod, node } => {
            let binding = bind(client, &pod, &node).await;
            if binding.outcome == Bound::Done {
                events.scheduled(&pod, &node);
            }
            let waits = shared.with(|core| core.bound(&pod.uid, binding.outcome, Instant::now()));
            shared.wake.notify_one();
            if let Some(pod) = waits {
                let message = format!("running Bind plugin \"DefaultBinder\": {}", binding.error);
                events.failed(&pod, &message);
                set_condition(client, &**clock, &pod, "SchedulerError", &message).await;
            }
        }
        Step::Refused { pod, message } => {
            events.failed(&pod, &message);
            set_condition(client, &**clock, &pod, "Unschedulable", &message).await;
        }
        Step::Skipped { pod } => events.skipped(&pod),
    }
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        let mut state: MutexGuard<'_, State> = self.state.lock();
        assert!(!state.is_broken, "the scheduler's state cannot be relied on after a panic");
        state.is_broken = true;
        let result = work(&mut state.core);
        state.is_broken = false;
        result
    }
}
