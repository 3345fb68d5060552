//! The scheduler at work: informers tell the [`Core`] what changes, one loop asks it what to do, and tasks do that, many
//! at a time.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rkube_machinery::Text;
use rkube_operator::Caches;
use rkube_operator::process::held;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::core::{Bound, Core, Step};
use crate::events::Events;
use crate::follow::follow;
use crate::shared::Shared;
use crate::snapshot::storage::work::Work;
use crate::view::Pod;
use crate::writes::{bind, condition_patch, is_claim_there, set_condition, without_nomination};
use crate::{Config, prepare};

/// So many bindings and conditions are written at a time; the loop waits at it. On a slow disk it is this many that share
/// one wait for it.
const WRITES_MAX: usize = 256;
/// After so many pods the loop lets others have the thread.
const STEPS_AT_ONCE: usize = 8;

/// Runs until it is dropped. Panics if the core did: whoever started this starts it anew, with nothing of the old.
pub async fn run(config: Arc<Config>, caches: Caches) {
    let names: Vec<Text> = config.names.iter().map(Text::new).collect();
    let core = Core::new(names.clone(), config.percentage_of_nodes_to_score, config.entropy.next_u64());
    let shared = Arc::new(Shared::new(core, prepare::semaphore()));
    // Handlers last as long as their informers are held.
    let _informers = follow(&shared, &caches).await;
    let events = Arc::new(Events::start(&config.client, &config.clock, &names, &config.host_name));
    let mut writes = JoinSet::new();
    // Pods whose volumes have to be bound first: they may wait for minutes, and nobody waits for them.
    let mut preparing = JoinSet::new();
    loop {
        for _ in 0..STEPS_AT_ONCE {
            while let Some(ended) = writes.try_join_next().or_else(|| preparing.try_join_next()) {
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
                    let is_long = matches!(step, Step::Bind { volumes: Some(_), .. });
                    if let Some(write) = act(&config, &shared, &events, step) {
                        if is_long {
                            preparing.spawn(held(write))
                        } else {
                            writes.spawn(held(write))
                        };
                    }
                }
                Err(deadline) => idle(&shared, &mut writes, &mut preparing, deadline).await,
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

/// Until something has changed, or it is time to look again.
async fn idle(shared: &Shared, writes: &mut JoinSet<()>, preparing: &mut JoinSet<()>, deadline: Option<Instant>) {
    tokio::select! {
        biased;
        Some(ended) = writes.join_next() => settle(ended),
        Some(ended) = preparing.join_next() => settle(ended),
        () = shared.wake.notified() => {}
        () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {}
    }
}

/// Does what was decided; what has to be written is written by the future, if there is any.
fn act(config: &Arc<Config>, shared: &Arc<Shared>, events: &Arc<Events>, step: Step) -> Option<BoxFuture<'static, ()>> {
    let (config, shared, events) = (config.clone(), shared.clone(), events.clone());
    match step {
        Step::Bind { pod, node, volumes } => Some(bind_pod(config, shared, events, pod, node, volumes).boxed()),
        Step::Refused { pod, message, unknown_claim: None } => {
            events.failed(&pod, &message);
            let patch = condition_patch(&*config.clock, &pod, "Unschedulable", &message)?;
            shared.with(|core| core.writing(&pod.uid));
            let write = async move {
                set_condition(&config.client, &pod, patch).await;
                shared.with(|core| core.written(&pod.uid, Instant::now()));
            };
            Some(write.boxed())
        }
        Step::Refused { pod, message, unknown_claim: Some(claim) } => Some(
            async move {
                if is_claim_there(&config.client, &pod.namespace, &claim).await {
                    return;
                }
                events.failed(&pod, &message);
                if let Some(patch) = condition_patch(&*config.clock, &pod, "Unschedulable", &message) {
                    set_condition(&config.client, &pod, patch).await;
                }
            }
            .boxed(),
        ),
        Step::Skipped { pod } => {
            events.skipped(&pod);
            None
        }
    }
}

async fn bind_pod(
    config: Arc<Config>,
    shared: Arc<Shared>,
    events: Arc<Events>,
    pod: Arc<Pod>,
    node: Text,
    volumes: Option<Arc<Work>>,
) {
    let mut is_nominated = volumes.is_some();
    let prepared = match &volumes {
        Some(work) => prepare::prepare(&config.client, &shared, &pod, work).await,
        None => Some(Ok(())),
    };
    let (outcome, why) = match prepared {
        None => (Bound::Gone, String::new()),
        Some(Err(error)) => (Bound::Failed, format!("running PreBind plugin \"VolumeBinding\": {error}")),
        Some(Ok(())) => {
            let binding = bind(&config.client, &pod, &node).await;
            (binding.outcome, format!("running Bind plugin \"DefaultBinder\": {}", binding.error))
        }
    };
    if outcome == Bound::Done {
        events.scheduled(&pod, &node);
    }
    let waits = shared.with(|core| core.bound(&pod.uid, outcome, Instant::now()));
    // Others may fit now where it was to be; and it has a time at which it is tried again.
    if outcome != Bound::Done {
        shared.wake.notify_one();
    }
    let Some(pod) = waits else { return };
    is_nominated |= pod.pending.as_ref().is_some_and(|pending| !pending.nominated_node.is_empty());
    events.failed(&pod, &why);
    let mut patch = condition_patch(&*config.clock, &pod, "SchedulerError", &why);
    if is_nominated {
        patch = Some(without_nomination(patch, &pod));
    }
    if let Some(patch) = patch {
        set_condition(&config.client, &pod, patch).await;
    }
}
