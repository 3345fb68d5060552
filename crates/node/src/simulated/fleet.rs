//! All simulated nodes of a process: one watch of pods and one of nodes, two queues, and no task for a pod or a node.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Text, Value};
use rkube_operator::events::{EventType, Recorder, Reference};
use rkube_operator::kube::Client;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Key, Queue, Selection};

use super::addresses::{self, Addresses};
use super::containers::PodEvent;
use super::images::Images;
use super::template::Template;
use crate::admission::Usage;
use crate::pod::state::PodState;
use crate::views::{self, ByNode, NodeView, PodView};

/// So many events are written at once, and so many each second after that, by all nodes together. What is more is lost.
const EVENTS_AT_ONCE: i64 = 2000;
const EVENTS_PER_SECOND: i64 = 500;

/// What simulated nodes need to know of their cluster.
pub struct Config {
    pub count: usize,
    pub template: Template,
    /// The caches of this process.
    pub caches: Caches,
    /// A client that acts as the kubelet of the node of this name.
    pub client: Box<dyn Fn(&str) -> Client + Send + Sync>,
    /// A client for what no node may do, taints first of all.
    pub keeper: Client,
    pub clock: Arc<dyn Clock>,
    /// Whether somebody gives nodes the ranges of their pods: then they wait a moment for that.
    pub ranges_are_given: bool,
}

pub(super) struct Fleet {
    pub config: Arc<Config>,
    pub nodes: BTreeMap<Text, SimulatedNode>,
    pub pods: Informer<PodView>,
    pub node_views: Informer<NodeView>,
    /// Pods that are to be looked at.
    pub pod_queue: Queue<Key>,
    /// Nodes that are.
    pub node_queue: Queue<Text>,
    pub held: Mutex<HashMap<Key, Held>>,
    pub images: Images,
    pub addresses: Addresses,
    events: Budget,
}

pub(super) struct SimulatedNode {
    pub index: usize,
    pub address: IpAddr,
    pub client: Client,
    pub usage: Mutex<Usage>,
    /// It does nothing, as if it had no power.
    pub is_away: AtomicBool,
    pub posted: Mutex<super::nodes::Posted>,
    recorder: Option<Recorder>,
}

/// What is held of a pod between two looks at it.
pub(super) struct Held {
    pub uid: Text,
    pub node: Text,
    pub state: PodState,
    /// The last patch that was sent, to tell when the same is sent again and again.
    pub last_patch: u64,
    /// The revision that the last write of the status made. As long as the pod is at it, only time changes anything.
    pub written_revision: u64,
    /// When it does.
    pub wake_micros: Option<i64>,
}

impl Fleet {
    pub fn new(config: Arc<Config>) -> Arc<Fleet> {
        let names: Vec<Text> = (0..config.count).map(|index| config.template.name(index)).collect();
        let first = names.first().map(|name| (config.client)(name)).filter(|_| config.template.events);
        let recorder = first.map(|client| Recorder::start(client, config.clock.clone(), "kubelet"));
        let nodes: BTreeMap<Text, SimulatedNode> = names
            .into_iter()
            .enumerate()
            .map(|(index, name)| {
                let node = SimulatedNode {
                    index,
                    address: addresses::host_address(index),
                    client: (config.client)(&name),
                    usage: Mutex::default(),
                    is_away: AtomicBool::new(false),
                    posted: Mutex::default(),
                    recorder: recorder.as_ref().map(|recorder| recorder.on(&name)),
                };
                (name, node)
            })
            .collect();
        let (pod_queue, node_queue) = (Queue::new(), Queue::new());
        let pods = watch_pods(&config.caches, &nodes, &pod_queue);
        let node_views = watch_nodes(&config.caches, &nodes, &node_queue);
        Arc::new(Fleet {
            images: Images::new(config.template.unavailable_images.clone()),
            nodes,
            pods,
            node_views,
            pod_queue,
            node_queue,
            held: Mutex::default(),
            addresses: Addresses::default(),
            events: Budget::new(config.clock.now_micros()),
            config,
        })
    }

    pub fn now_micros(&self) -> i64 {
        self.config.clock.now_micros()
    }

    /// Has all pods of a node looked at.
    pub fn wake_pods(&self, node: &str) {
        self.pods.with_index::<ByNode, str, ()>(node, |pods| {
            pods.keys().for_each(|key| self.pod_queue.add((**key).clone()));
        });
    }

    /// Where the pods of a node get their addresses from. Empty: nowhere, yet.
    pub fn ranges(&self, node: &SimulatedNode, view: Option<&NodeView>, now_micros: i64) -> Vec<Subnet> {
        let given = view.map_or(&[][..], |view| view.object.get("spec").list("podCIDRs"));
        let given: Vec<Subnet> = given.iter().filter_map(|range| Subnet::parse_sloppy(range.as_str())).collect();
        let waits = || self.config.ranges_are_given && now_micros < node.waits_until();
        match given.is_empty() {
            true if !waits() => vec![addresses::fallback_range(node.index)],
            _ => given,
        }
    }

    /// Lets go of what a pod had.
    pub fn forget(&self, key: &Key) {
        if let Some(held) = self.held.lock().remove(key) {
            self.release(&held);
        }
    }

    pub fn release(&self, held: &Held) {
        let Some(node) = self.nodes.get(&held.node) else { return };
        node.usage.lock().remove(&held.uid);
        if held.state.addresses.first() != Some(&node.address) {
            self.addresses.release(&held.state.addresses);
        }
    }

    /// Tells about a pod, within the budget.
    pub fn tell(&self, node: &SimulatedNode, pod: &Value, events: &[PodEvent]) {
        let Some(recorder) = &node.recorder else { return };
        let metadata = pod.get("metadata");
        for event in events {
            if !self.events.take(self.now_micros()) {
                return;
            }
            let about = Reference {
                kind: "Pod".into(),
                api_version: "v1".into(),
                namespace: metadata.str("namespace").into(),
                name: metadata.str("name").into(),
                uid: metadata.str("uid").into(),
                resource_version: metadata.str("resourceVersion").into(),
                field_path: event.field_path.as_str().into(),
            };
            let kind = if event.warning { EventType::Warning } else { EventType::Normal };
            recorder.event(&about, kind, &event.reason, event.message.as_str());
        }
    }
}

fn watch_pods(caches: &Caches, nodes: &BTreeMap<Text, SimulatedNode>, queue: &Queue<Key>) -> Informer<PodView> {
    let (names, queue): (Vec<Text>, _) = (nodes.keys().cloned().collect(), queue.clone());
    let names: std::collections::HashSet<Text> = names.into_iter().collect();
    caches.view(&ApiResource::erase::<Pod>(&()), Selection::default(), views::pod).indexed::<ByNode>().on_change(
        move |change| {
            let mut known = [change.old, change.new].into_iter().flatten();
            if known.any(|pod| names.contains(&pod.node)) {
                queue.add(change.key.clone());
            }
        },
    )
}

fn watch_nodes(caches: &Caches, nodes: &BTreeMap<Text, SimulatedNode>, queue: &Queue<Text>) -> Informer<NodeView> {
    let names: std::collections::HashSet<Text> = nodes.keys().cloned().collect();
    let queue = queue.clone();
    caches.view(&ApiResource::erase::<Node>(&()), Selection::default(), views::node).on_change(move |change| {
        if names.contains(change.key.name.as_str()) {
            queue.add(change.key.name.as_str().into());
        }
    })
}

impl SimulatedNode {
    /// Until when it waits for the range of its pods; nobody may have one left.
    pub fn waits_until(&self) -> i64 {
        self.posted.lock().waits_until_micros
    }

    pub fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }
}

/// So many, and so many more each second.
struct Budget {
    /// The time at which all of it would be there again: each one that is taken moves it on.
    full_at_micros: AtomicI64,
}

impl Budget {
    fn new(now_micros: i64) -> Budget {
        Budget { full_at_micros: AtomicI64::new(now_micros) }
    }

    fn take(&self, now_micros: i64) -> bool {
        const EACH_MICROS: i64 = 1_000_000 / EVENTS_PER_SECOND;
        let taken = self.full_at_micros.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            let next = full_at.max(now_micros) + EACH_MICROS;
            (next - now_micros <= EVENTS_AT_ONCE * EACH_MICROS).then_some(next)
        });
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_a_budget() {
        let budget = Budget::new(0);
        let taken = |now: i64| (0..5000).filter(|_| budget.take(now)).count() as i64;
        assert_eq!(taken(0), EVENTS_AT_ONCE);
        assert_eq!(taken(1_000_000), EVENTS_PER_SECOND);
        assert_eq!(taken(3_600_000_000), EVENTS_AT_ONCE);
    }
}
