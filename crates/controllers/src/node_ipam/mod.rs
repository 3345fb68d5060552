//! Gives each node a part of the cluster's addresses for its pods: watches nodes, and writes `podCIDR` and `podCIDRs`
//! of those that have none.

mod plan;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_machinery::names::address::Subnet;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::api::{Api, Patch, PatchParams};
use rkube_operator::kube::{self, Client};
use rkube_operator::{Change, Informer, Outcome, Queue};
use serde_json::json;

use crate::Context;
use crate::nodes::{self, Node};
use crate::requests;
use plan::{Exhausted, Ranges};

const NAME: &str = "node-ipam-controller";
const WORKERS: usize = 8;

/// What nodes get their addresses from.
#[derive(Clone, Debug)]
pub struct NodeRanges {
    /// Of each family at most one, with the length of what a node gets of it.
    pub ranges: Vec<(Subnet, u8)>,
    /// What is for services is not for pods.
    pub services: Vec<Subnet>,
}

impl Default for NodeRanges {
    /// What most clusters have.
    fn default() -> Self {
        let whole = Subnet { address: Ipv4Addr::new(10, 244, 0, 0).into(), length: 16 };
        NodeRanges { ranges: vec![(whole, 24)], services: Vec::new() }
    }
}

impl NodeRanges {
    /// Says what is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        Ranges::new(&self.ranges, &self.services).map(|_| ())
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("there is no part of the cluster's addresses left for the node")]
    Exhausted,
    #[error(transparent)]
    Client(#[from] kube::Error),
}

/// What is given out, and who waits for it.
struct State {
    ranges: Ranges,
    waiting: BTreeSet<Text>,
}

struct Controller {
    client: Client,
    nodes: Informer<Node>,
    state: Arc<Mutex<State>>,
    recorder: Recorder,
}

pub async fn run(context: Context, ranges: Arc<NodeRanges>) {
    let Context { client, caches, clock, .. } = context;
    let ranges = match Ranges::new(&ranges.ranges, &ranges.services) {
        Ok(ranges) => ranges,
        Err(why) => {
            tracing::error!(why, "nodes get no addresses");
            return std::future::pending().await;
        }
    };
    let recorder = Recorder::start(client.clone(), clock, "cidrAllocator");
    let queue: Queue<Text> = Queue::new();
    let state = Arc::new(Mutex::new(State { ranges, waiting: BTreeSet::new() }));
    let (adding, known) = (queue.clone(), state.clone());
    let nodes = nodes::informer(&caches).on_change(move |change| known.lock().see(change, &adding));
    nodes.synced().await;
    let controller = Arc::new(Controller { client, nodes, state, recorder });
    rkube_operator::run(NAME, queue, WORKERS, move |name: Text| {
        let controller = controller.clone();
        async move { controller.reconcile(&name).await }
    })
    .await;
}

impl State {
    /// What nodes have is known before anything is given out: the cache is told of all of them first.
    fn see(&mut self, change: &Change<'_, Node>, queue: &Queue<Text>) {
        let name = Text::new(&change.key.name);
        match change.new {
            Some(node) => {
                self.ranges.node_is(&name, &node.uid, &node.pod_cidrs);
                if node.pod_cidrs.is_empty() {
                    queue.add(name);
                }
            }
            None => {
                self.ranges.node_gone(&name);
                std::mem::take(&mut self.waiting).into_iter().for_each(|name| queue.add(name));
            }
        }
    }
}

impl Controller {
    async fn reconcile(&self, name: &Text) -> Result<Outcome, Error> {
        let node = self.nodes.get("", name).filter(|node| node.pod_cidrs.is_empty() && !node.deleting);
        let Some(node) = node else { return Ok(Outcome::Unchanged) };
        let allocated = {
            let mut state = self.state.lock();
            let allocated = state.ranges.allocate(name, &node.uid);
            if allocated.is_err() {
                state.waiting.insert(name.clone());
            }
            allocated
        };
        match allocated {
            Ok(cidrs) => self.assign(&node, &cidrs).await,
            Err(Exhausted) => {
                self.say(&node, "CIDRNotAvailable");
                Err(Error::Exhausted)
            }
        }
    }

    async fn assign(&self, node: &Node, cidrs: &[Subnet]) -> Result<Outcome, Error> {
        let cidrs: Vec<String> = cidrs.iter().map(Subnet::to_string).collect();
        // Another node of the same name is another node.
        let patch =
            json!({ "metadata": { "uid": node.uid.as_str() }, "spec": { "podCIDR": cidrs[0], "podCIDRs": cidrs } });
        let api: Api<v1::Node> = Api::all(self.client.clone());
        match api.patch(&node.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(_) => Ok(Outcome::Wrote),
            // The node is gone, or was given others meanwhile: what becomes of it is heard of.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 422) => {
                self.state.lock().ranges.give_back(&node.name, &node.uid);
                Ok(Outcome::Wrote)
            }
            // Somebody was faster, or it is another node: which of them it was shows when it is tried again.
            Err(error) if requests::is_conflict(&error) => {
                self.state.lock().ranges.give_back(&node.name, &node.uid);
                Err(error.into())
            }
            // It may have been written all the same: the node keeps what it has, and gets it next time.
            Err(error) => {
                self.say(node, "CIDRAssignmentFailed");
                Err(error.into())
            }
        }
    }

    fn say(&self, node: &Node, status: &'static str) {
        let about = Reference {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: node.name.clone(),
            uid: node.uid.clone(),
            ..Reference::default()
        };
        self.recorder.normal(&about, status, format!("Node {} status is now: {status}", node.name));
    }
}
