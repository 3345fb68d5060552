//! What happens to parts, nodes and the clock, at moments that the dice say.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use rkube_operator::kube::{Client, ResourceExt as _};
use serde_json::json;

use super::{Chaos, Instances};
use crate::host::VirtualClock;

const FAULT: &str = "sim.rkube.io/fault";
const PERIOD: &str = "sim.rkube.io/fault-period";
/// How long the clock may be wrong.
const WRONG_MAX: Duration = Duration::from_secs(3600);
const YEAR_SECONDS: i64 = 365 * 24 * 3600;
/// The part whose nodes come back when it is started again.
pub(crate) const NODES: &str = "simulated-nodes";

/// What disasters need.
#[derive(Clone)]
pub(crate) struct Disasters {
    pub chaos: Arc<Chaos>,
    pub instances: Arc<Instances>,
    /// Of one who may do everything, and whose requests arrive.
    pub client: Client,
    /// None: in real time it does not jump.
    pub clock: Option<Arc<VirtualClock>>,
}

/// Has disasters happen for as long as the returned tasks live.
pub(crate) fn strike(disasters: &Disasters) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    let plan = disasters.chaos.plan().clone();
    if let Some(often) = plan.crashes {
        tasks.spawn(disasters.clone().again_and_again(often, Disasters::crash));
    }
    if let Some(often) = plan.pauses {
        tasks.spawn(disasters.clone().again_and_again(often, Disasters::pause));
    }
    if let Some(often) = plan.nodes {
        tasks.spawn(disasters.clone().again_and_again(often, Disasters::lose_node));
    }
    if let Some(often) = plan.clock_jumps {
        tasks.spawn(disasters.clone().again_and_again(often, Disasters::jump));
    }
    tasks
}

impl Disasters {
    async fn again_and_again(self, often: Duration, what: impl AsyncFn(&Disasters)) {
        loop {
            // Twice as long at most, so that it is so often on average.
            let wait = self.chaos.below(u64::try_from(often.as_millis()).unwrap_or(u64::MAX).saturating_mul(2));
            tokio::time::sleep(Duration::from_millis(wait)).await;
            if !self.chaos.is_active() {
                return;
            }
            what(&self).await;
        }
    }

    async fn crash(&self) {
        let parts = self.leaders();
        let Some(part) = parts.get(self.pick(parts.len())) else { return };
        self.chaos.note(&format!("{}: crash", part.name));
        part.crash();
    }

    async fn pause(&self) {
        let parts = self.leaders();
        let Some(part) = parts.get(self.pick(parts.len())) else { return };
        self.chaos.note(&format!("{}: pause", part.name));
        part.pause();
        tokio::time::sleep(self.chaos.a_while(self.chaos.plan().pause_max)).await;
        part.resume();
    }

    /// Those who do what the cluster wants; nodes have faults of their own.
    fn leaders(&self) -> Vec<Arc<super::parts::Supervised>> {
        self.instances.all().into_iter().filter(|part| &*part.name != NODES).collect()
    }

    fn pick(&self, count: usize) -> usize {
        usize::try_from(self.chaos.below(count as u64)).unwrap_or(0)
    }

    async fn lose_node(&self) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let names: Vec<String> = match nodes.list(&ListParams::default()).await {
            Ok(all) => all.items.iter().map(|node| node.name_any()).collect(),
            Err(_) => return,
        };
        let Some(name) = names.get(self.pick(names.len())) else { return };
        let fault = ["lost", "flapping", "not-ready", "deleted"][self.pick(4)];
        self.chaos.note(&format!("node {name}: {fault}"));
        if fault == "deleted" {
            // That it is gone already is as good.
            let _ = nodes.delete(name, &DeleteParams::default()).await;
        } else {
            self.annotate(&nodes, name, Some(fault)).await;
        }
        tokio::time::sleep(self.chaos.a_while(self.chaos.plan().node_fault_max)).await;
        self.heal_node(&nodes, name).await;
    }

    async fn heal_node(&self, nodes: &Api<Node>, name: &str) {
        self.chaos.note(&format!("node {name}: well"));
        match nodes.get_opt(name).await {
            Ok(Some(_)) => self.annotate(nodes, name, None).await,
            // It registers when its kubelet is started again, and so do all: they are one part.
            Ok(None) | Err(_) => {
                self.instances.all().iter().filter(|part| &*part.name == NODES).for_each(|it| it.crash())
            }
        }
    }

    async fn annotate(&self, nodes: &Api<Node>, name: &str, fault: Option<&str>) {
        let period = fault.filter(|fault| *fault == "flapping").map(|_| "90s");
        let patch = json!({ "metadata": { "annotations": { FAULT: fault, PERIOD: period } } });
        // That it is gone already is as good.
        let _ = nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }

    /// The clock goes wrong for a while.
    async fn jump(&self) {
        let Some(clock) = &self.clock else { return };
        let minutes = i64::try_from(self.chaos.below(30)).unwrap_or(0) + 1;
        let seconds = match self.chaos.below(8) {
            0 => YEAR_SECONDS,
            1 => -YEAR_SECONDS,
            2..=4 => minutes * 60,
            _ => -minutes * 60,
        };
        self.chaos.note(&format!("the clock jumps by {seconds} s"));
        clock.jump(seconds);
        if seconds.abs() == YEAR_SECONDS {
            tokio::time::sleep(self.chaos.a_while(WRONG_MAX)).await;
            self.chaos.note("the clock jumps back");
            clock.jump(-seconds);
        }
    }

    /// Everything works again: parts run, nodes are there, and the clock is never again behind what it said once.
    pub async fn end(&self) {
        self.chaos.stop();
        for part in self.instances.all() {
            part.resume();
        }
        if let Some(clock) = &self.clock {
            clock.catch_up();
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        if let Ok(all) = nodes.list(&ListParams::default()).await {
            for node in all.items {
                if node.annotations().contains_key(FAULT) {
                    self.annotate(&nodes, &node.name_any(), None).await;
                }
            }
        }
        self.instances.all().iter().filter(|part| &*part.name == NODES).for_each(|it| it.crash());
    }
}
