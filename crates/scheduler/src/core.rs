//! The scheduler without time, network or tasks of its own: changes of pods and nodes go in, decisions come out. Whoever
//! drives it tells what became of them.
//!
//! What holds: a pod waits in the queue, or is being bound, or has a node, or is not known; never two of these. A pod is
//! given a node only if it fits there beside all that are known to be there or are on their way. What the API has not
//! confirmed stays assumed until it is known to have failed; that holds for volumes as for nodes.

mod preparations;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rkube_machinery::Text;
use tokio::time::Instant;

pub use preparations::Preparation;
use preparations::Preparations;

use crate::cycle::{Decision, Placer, Refusal};
use crate::plugins::ClusterEvent;
use crate::queue::{Failure, Queue, Queued};
use crate::snapshot::Snapshot;
use crate::snapshot::storage::work::Work;
use crate::view::{Node, Pod};

/// So many sorts of pods that were refused are remembered.
const REFUSED_MAX: usize = 8;

pub struct Core {
    /// The names that pods call this scheduler by.
    names: Vec<Text>,
    snapshot: Snapshot,
    queue: Queue,
    placer: Placer,
    /// The last pods that were refused, while nothing has changed since: of many that are alike one is looked at.
    refused: VecDeque<(Arc<Pod>, Refusal)>,
    /// The snapshot's generation when they were.
    refused_at: u64,
    /// Pods whose binding was decided, and of which it is not known yet whether it was done.
    binding: HashMap<Text, Queued>,
    /// Those of them whose volumes have to be bound first.
    preparations: Preparations,
}

/// What to do.
#[derive(Debug)]
pub enum Step {
    /// The pod is to be bound, once its volumes are; then [`Core::bound`] says what became of it.
    Bind { pod: Arc<Pod>, node: Text, volumes: Option<Arc<Work>> },
    /// No node would have the pod; it waits. Of a claim that it names nothing may be known only because the cache of claims
    /// lags behind that of pods: then the pod is tried again when the claim is there, and nobody needs to be told.
    Refused { pod: Arc<Pod>, message: String, unknown_claim: Option<Text> },
    /// The pod is being deleted, and is not tried.
    Skipped { pod: Arc<Pod> },
}

/// What became of a binding, beyond doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Done,
    /// The pod has no node, or another one.
    Failed,
    /// There is no such pod any more.
    Gone,
}

impl Core {
    pub fn new(names: Vec<Text>, percentage: usize, seed: u64) -> Core {
        Core {
            names,
            snapshot: Snapshot::default(),
            queue: Queue::default(),
            placer: Placer::new(percentage, seed),
            refused: VecDeque::new(),
            refused_at: 0,
            binding: HashMap::new(),
            preparations: Preparations::default(),
        }
    }

    pub fn node_changed(&mut self, old: Option<&Node>, new: Option<&Node>, now: Instant) {
        match (old, new) {
            // Most changes are heartbeats.
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => {
                self.snapshot.set_node(new);
                self.preparations.node_changed(&new.name);
                self.queue.happened(&ClusterEvent::NodeUpdated { old, new }, now);
            }
            (None, Some(new)) => {
                self.snapshot.set_node(new);
                self.queue.happened(&ClusterEvent::NodeAdded(new), now);
            }
            (Some(old), None) => {
                self.snapshot.remove_node(&old.name);
                self.preparations.node_changed(&old.name);
            }
            (None, None) => {}
        }
    }

    pub fn pod_changed(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>, now: Instant) {
        match (old, new) {
            // Everything is told again when a watch was interrupted.
            (Some(old), Some(new)) if old.revision == new.revision && old.uid == new.uid => {}
            (Some(old), Some(new)) if old.uid != new.uid => {
                self.pod_gone(old, now);
                self.pod_is(new, now);
            }
            (_, Some(new)) => self.pod_is(new, now),
            (Some(old), None) => self.pod_gone(old, now),
            (None, None) => {}
        }
    }

    /// Tries the next pod. None: there is nothing to do before [`Core::next_deadline`].
    pub fn step(&mut self, now: Instant) -> Option<Step> {
        let queued = self.queue.pop(now)?;
        let pod = queued.pod.clone();
        if pod.is_terminating {
            return Some(Step::Skipped { pod });
        }
        match self.decide(&pod) {
            Decision::Place(node) => {
                let name = self.snapshot.node(node).details.name.clone();
                let volumes = self.prepare(&pod, node);
                self.snapshot.assume(pod.clone(), node);
                self.binding.insert(pod.uid.clone(), queued);
                Some(Step::Bind { pod, node: name, volumes })
            }
            Decision::Refuse(refusal) => {
                self.queue.failed(queued, &Failure::Refused(refusal.plugins), now);
                let unknown_claim = self.unknown_claim(&pod);
                Some(Step::Refused { pod, message: refusal.message, unknown_claim })
            }
        }
    }

    /// Something is being written of a pod that was refused: it is not tried before that is [written](Core::written), or
    /// what is said of it later could be overwritten by it.
    pub fn writing(&mut self, uid: &Text) {
        self.queue.hold(uid);
    }

    pub fn written(&mut self, uid: &str, now: Instant) {
        self.queue.release(uid, now);
    }

    /// Whether [`Core::step`] has something to do.
    pub fn has_work(&self) -> bool {
        self.queue.has_work()
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.queue.next_deadline()
    }

    /// What became of a binding. The pod as it is now, if it waits again.
    pub fn bound(&mut self, uid: &str, outcome: Bound, now: Instant) -> Option<Arc<Pod>> {
        // If not: the API has shown the pod on a node, or gone.
        let queued = self.end_binding(uid, now)?;
        if outcome == Bound::Done {
            return None;
        }
        if let Some(pod) = self.snapshot.remove_pod(uid) {
            self.queue.happened(&ClusterEvent::PodRemoved(&pod), now);
        }
        if outcome == Bound::Gone {
            return None;
        }
        let pod = queued.pod.clone();
        self.queue.failed(queued, &Failure::Error, now);
        Some(pod)
    }

    /// How many pods are to be tried, wait after a failure, are refused, and are being bound.
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let (active, backoff, unschedulable) = self.queue.counts();
        (active, backoff, unschedulable, self.binding.len())
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The first claim that the pod names and of which nothing is known.
    fn unknown_claim(&self, pod: &Pod) -> Option<Text> {
        let storage = self.snapshot.storage();
        let mut names = pod.volumes.iter().flat_map(|volumes| volumes.named_claims());
        names.find(|name| storage.claim(&pod.namespace, name).is_none()).cloned()
    }

    fn end_binding(&mut self, uid: &str, now: Instant) -> Option<Queued> {
        self.end_preparation(uid, now);
        self.binding.remove(uid)
    }

    fn decide(&mut self, pod: &Arc<Pod>) -> Decision {
        if self.refused_at != self.snapshot.generation() {
            self.refused.clear();
            self.refused_at = self.snapshot.generation();
        }
        if let Some((_, refusal)) = self.refused.iter().find(|(known, _)| known.is_refused_like(pod)) {
            return Decision::Refuse(refusal.clone());
        }
        let decision = self.placer.place(pod, &mut self.snapshot);
        if let Decision::Refuse(refusal) = &decision
            && pod.volumes.is_none()
        {
            self.refused.truncate(REFUSED_MAX - 1);
            self.refused.push_front((pod.clone(), refusal.clone()));
        }
        decision
    }

    fn pod_is(&mut self, pod: &Arc<Pod>, now: Instant) {
        if pod.is_assigned() {
            self.queue.remove(&pod.uid);
            self.end_binding(&pod.uid, now);
            let before = self.snapshot.pod(&pod.uid).cloned();
            self.snapshot.assign(pod);
            if let Some(before) = before {
                self.queue.happened(&ClusterEvent::PodUpdated { old: &before, new: pod }, now);
            }
            return;
        }
        if let Some(queued) = self.binding.get_mut(&pod.uid) {
            queued.pod = pod.clone();
            return;
        }
        let is_ours = pod.pending.as_ref().is_some_and(|pending| self.names.contains(&pending.scheduler_name));
        // One that is bound may be shown as it was before for a while; none loses its node.
        if is_ours && self.snapshot.pod(&pod.uid).is_none() {
            self.queue.update(pod, now);
        }
    }

    fn pod_gone(&mut self, pod: &Arc<Pod>, now: Instant) {
        self.queue.remove(&pod.uid);
        self.end_binding(&pod.uid, now);
        if let Some(pod) = self.snapshot.remove_pod(&pod.uid) {
            self.queue.happened(&ClusterEvent::PodRemoved(&pod), now);
        }
    }
}
