//! Looks at all nodes, again and again: who is silent, which zones are in trouble, and whose pods are to leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::Informer;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::api::{Api, Patch, PatchParams};
use rkube_operator::kube::{self, Client};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::plan::{self, Evicting, Ready};
use super::pods::Marker;
use super::taints;
use super::view::{LEASES, LeaseView, NodeView};
use super::zones::{Count, Next, Verdict, Zones};
use crate::metadata::seconds;
use crate::pods::{ByNode, Pod};
use crate::settings::{self, Settings};

/// So many nodes are worked on at a time, as upstream.
const NODES_AT_ONCE: usize = 8;

pub struct Monitor {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub settings: Arc<Settings>,
    pub events: Recorder,
    pub nodes: Arc<Informer<NodeView>>,
    pub leases: Informer<LeaseView>,
    pub pods: Arc<Informer<Pod>>,
    pub marker: Arc<Marker>,
    pub zones: Mutex<Zones>,
    /// Somebody may be tainted.
    pub wake: Notify,
}

/// What is remembered from one look to the next.
#[derive(Default)]
struct Memory {
    heard: BTreeMap<String, Heard>,
    /// Nodes whose pods could not all be marked as not ready.
    unmarked: BTreeSet<String>,
}

/// What was last heard of a node, and when that was. Whose clock is right does not matter: what counts is when
/// something new is seen.
#[derive(Clone)]
struct Heard {
    uid: String,
    heartbeat: Option<String>,
    renewed: Option<i64>,
    at: Instant,
}

/// A node after a look at it.
struct Seen {
    node: Arc<NodeView>,
    heard: Heard,
    /// What it said before the look, and what is said of it since; None: it could not be written.
    before: Option<Ready>,
    now: Option<Option<Ready>>,
}

impl Monitor {
    pub async fn watch_over(&self) {
        let mut memory = Memory::default();
        loop {
            self.look(&mut memory).await;
            settings::pause(self.settings.node_monitor_period).await;
        }
    }

    /// Taints those whose turn has come.
    pub async fn taint(&self) {
        loop {
            let next = self.zones.lock().next(Instant::now());
            match next {
                Next::Node(name) => self.taint_one(&name).await,
                Next::At(at) => tokio::select! {
                    biased;
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                Next::Nobody => self.wake.notified().await,
            }
        }
    }

    async fn taint_one(&self, name: &str) {
        let Some(node) = self.nodes.get("", name) else { return };
        // One that is ready again is left alone.
        let Some(ready) = node.ready().filter(|ready| *ready != Ready::True) else {
            self.zones.lock().give_back(&node.zone());
            return;
        };
        if let Err(error) = taints::set_evicting(&self.client, &*self.clock, &node, ready).await {
            tracing::warn!(node = name, %error, "a node cannot be tainted; trying again");
            self.zones.lock().add(&node.zone(), name);
        }
    }

    async fn look(&self, memory: &mut Memory) {
        let nodes = self.nodes.all();
        let known = std::mem::take(&mut memory.heard);
        self.greet(&known, &nodes).await;
        let looking = nodes.into_iter().map(|node| self.look_at(known.get(&node.metadata.name).cloned(), node));
        let mut seen: Vec<Seen> = futures::stream::iter(looking).buffered(NODES_AT_ONCE).collect().await;
        let counts = count(&seen);
        let lost = seen.iter().filter(|one| self.is_newly_lost(one, memory)).map(|one| one.node.metadata.name.clone());
        let lost: Vec<String> = lost.collect();
        for one in &seen {
            self.evict(one).await;
        }
        let verdict = self.zones.lock().settle(&counts, Instant::now());
        match verdict {
            Verdict::GoOn => {}
            Verdict::AllLost => {
                tracing::warn!("all nodes are lost: no pod leaves any of them");
                for one in &seen {
                    self.stop_evicting(&one.node.metadata.name).await;
                }
            }
            Verdict::SomeBack => {
                tracing::info!("some nodes are there again");
                seen.iter_mut().for_each(|one| one.heard.at = Instant::now());
            }
        }
        self.wake.notify_one();
        memory.heard = seen.into_iter().map(|one| (one.node.metadata.name.clone(), one.heard)).collect();
        memory.unmarked = self.mark_pods(lost).await;
    }

    /// Tells of nodes that came and went.
    async fn greet(&self, known: &BTreeMap<String, Heard>, nodes: &[Arc<NodeView>]) {
        let tell = |name: &str, uid: &str, reason: &str, what: String| {
            self.events.normal(&about(name, uid), reason, format!("Node {name} event: {what}"));
        };
        for node in nodes.iter().filter(|node| !known.contains_key(&node.metadata.name)) {
            let name = &node.metadata.name;
            tell(name, &node.metadata.uid, "RegisteredNode", format!("Registered Node {name} in Controller"));
            // It is to be seen anew how it is.
            self.stop_evicting(name).await;
        }
        for (name, heard) in known.iter().filter(|(name, _)| self.nodes.get("", name).is_none()) {
            tell(name, &heard.uid, "RemovingNode", format!("Removing Node {name} from Controller"));
            self.zones.lock().remove(name);
        }
    }

    async fn look_at(&self, last: Option<Heard>, node: Arc<NodeView>) -> Seen {
        let lease = self.leases.get(LEASES, &node.metadata.name);
        let mut heard = hear(last, &node, lease.as_deref(), &*self.clock);
        let grace = match heard.heartbeat {
            Some(_) => self.settings.node_monitor_grace_period,
            None => self.settings.node_startup_grace_period,
        };
        let before = node.ready();
        if Instant::now().duration_since(heard.at) <= grace {
            return Seen { node, heard, before, now: Some(before) };
        }
        let now = match self.say_unknown(&node).await {
            Ok(()) => Some(Some(Ready::Unknown)),
            Err(error) => {
                tracing::debug!(node = node.metadata.name, %error, "that a node is silent cannot be written; trying again");
                None
            }
        };
        if now.is_some() {
            // What was written is not something that the node said.
            heard.heartbeat.get_or_insert_with(|| node.metadata.created.clone());
        }
        Seen { node, heard, before, now }
    }

    async fn say_unknown(&self, node: &NodeView) -> Result<(), kube::Error> {
        let now = time::format_seconds(self.clock.now_seconds());
        let Some(conditions) = plan::unknown(&node.status.conditions, &node.metadata.created, &now) else {
            return Ok(());
        };
        // If it says something just now, that counts.
        let metadata = json!({"uid": node.metadata.uid, "resourceVersion": node.metadata.version});
        let patch = json!({"metadata": metadata, "status": {"conditions": conditions}});
        let api: Api<Node> = Api::all(self.client.clone());
        api.patch_status(&node.metadata.name, &PatchParams::default(), &Patch::Strategic(&patch)).await.map(drop)
    }

    /// Has the taints by which pods leave a node begin, change or go.
    async fn evict(&self, one: &Seen) {
        let (node, name) = (&one.node, &one.node.metadata.name);
        let Some(Some(ready)) = one.now else { return };
        if ready == Ready::True {
            self.zones.lock().remove(name);
        }
        match plan::evicting(ready, &node.spec.taints) {
            Evicting::Keep => {}
            Evicting::Begin => self.zones.lock().add(&node.zone(), name),
            Evicting::Change => {
                if let Err(error) = taints::set_evicting(&self.client, &*self.clock, node, ready).await {
                    tracing::debug!(node = name, %error, "taints of a node cannot be changed; trying again");
                }
            }
        }
    }

    async fn stop_evicting(&self, name: &str) {
        self.zones.lock().remove(name);
        let Some(node) = self.nodes.get("", name) else { return };
        if let Err(error) = taints::set_evicting(&self.client, &*self.clock, &node, Ready::True).await {
            tracing::debug!(node = name, %error, "taints of a node cannot be removed");
        }
    }

    /// Whether the node was ready until this look; or until an earlier one, after which not all was said.
    fn is_newly_lost(&self, one: &Seen, memory: &Memory) -> bool {
        let name = &one.node.metadata.name;
        let Some(Some(now)) = one.now else { return false };
        if now != Ready::True && one.before == Some(Ready::True) {
            let message = format!("Node {name} status is now: NodeNotReady");
            self.events.normal(&about(name, &one.node.metadata.uid), "NodeNotReady", message);
            return true;
        }
        one.before != Some(Ready::True) && memory.unmarked.contains(name)
    }

    /// Those of these nodes that have pods which still say that they are ready.
    async fn mark_pods(&self, nodes: Vec<String>) -> BTreeSet<String> {
        let marking = nodes.into_iter().map(|name| async move {
            let pods = self.pods.by_index::<ByNode, _>(&*name);
            (self.marker.mark_all(pods).await, name)
        });
        let marked: Vec<(bool, String)> = futures::stream::iter(marking).buffered(NODES_AT_ONCE).collect().await;
        marked.into_iter().filter(|(marked, _)| !marked).map(|(_, name)| name).collect()
    }
}

/// A node as events name it.
fn about(name: &str, uid: &str) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.into(),
        uid: uid.into(),
        ..Reference::default()
    }
}

/// How many nodes of each zone are ready.
fn count(seen: &[Seen]) -> BTreeMap<String, Count> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for one in seen.iter().filter(|one| !one.node.is_excluded()) {
        let Some(now) = one.now else { continue };
        let count = counts.entry(one.node.zone()).or_default();
        match now {
            Some(Ready::True) => count.ready += 1,
            _ => count.lost += 1,
        }
    }
    counts
}

/// Takes note of what the node says now.
fn hear(last: Option<Heard>, node: &NodeView, lease: Option<&LeaseView>, clock: &dyn Clock) -> Heard {
    let heartbeat = node.heartbeat().map(str::to_owned);
    let renewed = lease.map(|lease| lease.renewed);
    let (uid, now) = (node.metadata.uid.clone(), Instant::now());
    match last {
        Some(last) if last.uid == uid => {
            let is_renewed = renewed > last.renewed;
            let at = if last.heartbeat == heartbeat && !is_renewed { last.at } else { now };
            Heard { uid, heartbeat, renewed: renewed.max(last.renewed), at }
        }
        // One that has said nothing yet has had its time since it was made.
        _ if heartbeat.is_none() && renewed.is_none() => {
            let age = seconds(Some(&node.metadata.created)).map_or(0, |made| clock.now_seconds().saturating_sub(made));
            let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
            Heard { uid, heartbeat, renewed, at: now.checked_sub(age).unwrap_or(now) }
        }
        _ => Heard { uid, heartbeat, renewed, at: now },
    }
}
