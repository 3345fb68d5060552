//! The scheduler in a world where things go wrong by a seed: watches lag and are lost, answers are lost, nodes vanish
//! and come back, pods are deleted, made again and bound by others, and the scheduler itself starts anew. In whatever
//! order that happens, nothing is bound twice, no node gets more than it has, and in the end whoever fits somewhere is
//! somewhere.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rkube_scheduler::DEFAULT_NAME;
use rkube_scheduler::core::{Bound, Core, Step};
use rkube_scheduler::view::{Node, Pod};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{asking, item, node_json, pod_json};

const SEEDS: u64 = 200;
const STEPS: usize = 400;
const NODES: u64 = 5;
const PODS: u64 = 30;
/// Of each node, in thousandths of cores.
const CAPACITY: i64 = 4000;
const PODS_MAX: usize = 10;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A pod as the API has it.
#[derive(Clone)]
struct Truth {
    view: Arc<Pod>,
    cpu: i64,
    terminating: bool,
}

/// What one kind's watch has seen, and what is on the way to it.
struct Watch<V> {
    seen: BTreeMap<String, Arc<V>>,
    coming: VecDeque<(String, Option<Arc<V>>)>,
}

impl<V> Default for Watch<V> {
    fn default() -> Self {
        Watch { seen: BTreeMap::new(), coming: VecDeque::new() }
    }
}

impl<V> Watch<V> {
    fn see(&mut self, name: String, new: Option<Arc<V>>, mut tell: impl FnMut(Option<&Arc<V>>, Option<&Arc<V>>)) {
        let old = match &new {
            Some(object) => self.seen.insert(name, object.clone()),
            None => self.seen.remove(&name),
        };
        if old.is_some() || new.is_some() {
            tell(old.as_ref(), new.as_ref());
        }
    }

    /// What was on the way is lost; what there is is told as a whole.
    fn relist(&mut self, all: BTreeMap<String, Arc<V>>, mut tell: impl FnMut(Option<&Arc<V>>, Option<&Arc<V>>)) {
        self.coming.clear();
        let before = std::mem::replace(&mut self.seen, all);
        for (name, old) in before.iter().filter(|(name, _)| !self.seen.contains_key(*name)) {
            let _ = name;
            tell(Some(old), None);
        }
        for (name, new) in &self.seen {
            tell(before.get(name), Some(new));
        }
    }
}

struct World {
    seed: u64,
    random: Random,
    now: Instant,
    revision: u64,
    pods: BTreeMap<String, Truth>,
    nodes: BTreeMap<String, Arc<Node>>,
    core: Core,
    pod_watch: Watch<Pod>,
    node_watch: Watch<Node>,
    /// Bindings that were sent: the pod, the node, and what became of it if it was carried out already.
    flying: Vec<(Arc<Pod>, String, Option<Bound>)>,
    bindings: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed));
        let core = Core::new(vec![DEFAULT_NAME.into()], 0, random.below(u64::MAX));
        World {
            seed,
            random,
            now: Instant::now(),
            revision: 0,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            core,
            pod_watch: Watch::default(),
            node_watch: Watch::default(),
            flying: Vec::new(),
            bindings: 0,
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=2 => self.write_pod(),
            3 => self.delete_pod(),
            4 => self.change_node(),
            5..=9 => self.schedule(),
            10..=12 => self.answer(),
            13..=16 => self.deliver(),
            17 => self.now += Duration::from_millis(self.random.below(4000)),
            18 if self.random.one_in(4) => self.relist(),
            19 if self.random.one_in(12) => self.restart(),
            _ => self.deliver(),
        }
        self.core.snapshot().check().unwrap();
    }

    fn set_pod(&mut self, name: &str, uid: &str, cpu: i64, node: Option<&str>, terminating: bool) {
        self.revision += 1;
        let mut json = pod_json(name, asking(json!({ "cpu": format!("{cpu}m") })));
        json["metadata"]["uid"] = json!(uid);
        if let Some(node) = node {
            json["spec"]["nodeName"] = json!(node);
        }
        if terminating {
            json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let view = Arc::new(Pod::of(&item(&json, self.revision)).unwrap());
        self.pods.insert(name.to_owned(), Truth { view: view.clone(), cpu, terminating });
        self.pod_watch.coming.push_back((name.to_owned(), Some(view)));
    }

    /// Makes a pod; or another binds it, one that takes nothing, so that what it does is no excuse for ours.
    fn write_pod(&mut self) {
        let name = format!("p{}", self.random.below(PODS));
        match self.pods.get(&name).cloned() {
            None => {
                let cpu = [0, 500, 1000, 2500, 5000][self.random.below(5) as usize];
                let uid = format!("{name}-{}", self.revision);
                self.set_pod(&name, &uid, cpu, None, false);
            }
            Some(pod) if pod.cpu == 0 && !pod.view.is_assigned() && self.random.one_in(3) => {
                let node = format!("n{}", self.random.below(NODES));
                self.set_pod(&name, &pod.view.uid, 0, Some(&node), pod.terminating);
            }
            // Something that makes no difference, or that it is to go.
            Some(pod) => {
                let node = pod.view.node.clone();
                let node = (!node.is_empty()).then_some(node.as_str());
                let terminating = pod.terminating || self.random.one_in(5);
                self.set_pod(&name, &pod.view.uid, pod.cpu, node, terminating);
            }
        }
    }

    fn delete_pod(&mut self) {
        let name = format!("p{}", self.random.below(PODS));
        if self.pods.remove(&name).is_some() {
            self.pod_watch.coming.push_back((name, None));
        }
    }

    fn change_node(&mut self) {
        let name = format!("n{}", self.random.below(NODES));
        if self.nodes.remove(&name).is_some() {
            self.node_watch.coming.push_back((name, None));
            return;
        }
        self.revision += 1;
        let more =
            json!({ "status": { "allocatable": { "cpu": format!("{CAPACITY}m"), "pods": PODS_MAX.to_string() } } });
        let node = Arc::new(Node::of(&item(&node_json(&name, more), self.revision)).unwrap());
        self.nodes.insert(name.clone(), node.clone());
        self.node_watch.coming.push_back((name, Some(node)));
    }

    fn schedule(&mut self) {
        if let Some(Step::Bind { pod, node, .. }) = self.core.step(self.now) {
            assert!(
                self.flying.iter().all(|(known, _, _)| known.uid != pod.uid),
                "seed {}: {} is bound already",
                self.seed,
                pod.name
            );
            self.flying.push((pod, node.to_string(), None));
        }
    }

    /// A binding arrives at the API, or what became of it at the scheduler.
    fn answer(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        let place = self.random.below(self.flying.len() as u64) as usize;
        let (pod, node, outcome) = self.flying[place].clone();
        match outcome {
            None if self.random.one_in(10) => self.flying[place].2 = Some(Bound::Failed),
            None => self.flying[place].2 = Some(self.bind(&pod, &node)),
            Some(outcome) => {
                self.flying.swap_remove(place);
                self.core.bound(&pod.uid, outcome, self.now);
            }
        }
    }

    /// What the API does with a binding.
    fn bind(&mut self, pod: &Pod, node: &str) -> Bound {
        let Some(known) = self.pods.get(pod.name.as_str()).cloned() else { return Bound::Gone };
        if known.view.uid != pod.uid {
            return Bound::Gone;
        }
        if known.view.is_assigned() || known.terminating {
            return Bound::Failed;
        }
        self.set_pod(&pod.name, &pod.uid, known.cpu, Some(node), false);
        self.bindings += 1;
        let there: Vec<&Truth> = self.pods.values().filter(|pod| pod.view.node == node).collect();
        let taken: i64 = there.iter().map(|pod| pod.cpu).sum();
        assert!(taken <= CAPACITY, "seed {}: {node} has {CAPACITY}, and {taken} is asked of it", self.seed);
        Bound::Done
    }

    fn deliver(&mut self) {
        let (core, now) = (&mut self.core, self.now);
        if self.random.one_in(3) {
            if let Some((name, node)) = self.node_watch.coming.pop_front() {
                self.node_watch.see(name, node, |old, new| {
                    core.node_changed(old.map(|node| &**node), new.map(|node| &**node), now);
                });
            }
        } else if let Some((name, pod)) = self.pod_watch.coming.pop_front() {
            self.pod_watch.see(name, pod, |old, new| core.pod_changed(old, new, now));
        }
    }

    fn relist(&mut self) {
        let (core, now) = (&mut self.core, self.now);
        self.node_watch.relist(self.nodes.clone(), |old, new| {
            core.node_changed(old.map(|node| &**node), new.map(|node| &**node), now);
        });
        let pods = self.pods.iter().map(|(name, pod)| (name.clone(), pod.view.clone())).collect();
        self.pod_watch.relist(pods, |old, new| core.pod_changed(old, new, now));
    }

    /// The scheduler ends, and another one begins with what the API has. What was sent may have arrived.
    fn restart(&mut self) {
        for (pod, node, outcome) in std::mem::take(&mut self.flying) {
            if outcome.is_none() && self.random.one_in(2) {
                self.bind(&pod, &node);
            }
        }
        self.core = Core::new(vec![DEFAULT_NAME.into()], 0, self.random.below(u64::MAX));
        (self.pod_watch, self.node_watch) = (Watch::default(), Watch::default());
        self.relist();
    }

    /// Nothing goes wrong any more: everything arrives.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            while !self.pod_watch.coming.is_empty() || !self.node_watch.coming.is_empty() {
                self.deliver();
            }
            if !self.flying.is_empty() {
                self.answer();
            } else if let Some(step) = self.core.step(self.now) {
                if let Step::Bind { pod, node, .. } = step {
                    self.flying.push((pod, node.to_string(), None));
                }
            } else if self.core.counts().1 > 0 {
                self.now += Duration::from_secs(1);
            } else {
                return;
            }
        }
        panic!("the scheduler does not come to rest");
    }

    /// Whoever waits fits nowhere.
    fn check_end(&self) {
        for pod in self.pods.values().filter(|pod| !pod.view.is_assigned() && !pod.terminating) {
            for node in self.nodes.keys() {
                let there: Vec<&Truth> = self.pods.values().filter(|pod| pod.view.node == node.as_str()).collect();
                let taken: i64 = there.iter().map(|pod| pod.cpu).sum();
                let fits = there.len() < PODS_MAX && (pod.cpu == 0 || taken + pod.cpu <= CAPACITY);
                assert!(!fits, "seed {}: {} waits and would fit on {node}", self.seed, pod.view.name);
            }
        }
    }
}

#[test]
fn nothing_is_bound_twice_or_where_there_is_no_room() {
    let mut bindings = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.settle();
        world.check_end();
        bindings += world.bindings;
    }
    assert!(bindings > 2000, "the world was lively: {bindings}");
}
