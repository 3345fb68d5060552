//! Says of nodes what they cannot say themselves: taints by their conditions and by `unschedulable`, the older names of
//! labels, and `Unknown` of a node that is silent. Watches nodes and their leases; writes taints, labels and conditions of
//! nodes. Evicting pods (taints with `NoExecute`, zones) comes later.

mod plan;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::kube::api::{Api, Patch, PatchParams};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Informer, Item, Outcome, Queue, Selection};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Context;
use plan::Condition;

const NAME: &str = "node-lifecycle-controller";
const WORKERS: usize = 8;
const LEASES: &str = "kube-node-lease";
/// How often all nodes are looked at.
const PERIOD: Duration = Duration::from_secs(5);
/// How long a node may be silent.
const GRACE: Duration = Duration::from_secs(50);
/// The same for one that never said how it is.
const GRACE_AT_START: Duration = Duration::from_secs(60);

/// What is to be known of a node.
#[derive(Deserialize)]
struct NodeView {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
    #[serde(skip)]
    revision: u64,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    uid: String,
    #[serde(default, rename = "creationTimestamp")]
    created: String,
    #[serde(default)]
    labels: HashMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    taints: Vec<Value>,
    #[serde(default)]
    unschedulable: bool,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

impl NodeView {
    fn make(item: &Item) -> Option<NodeView> {
        let node: NodeView = item.parse().ok()?;
        Some(NodeView { revision: item.revision, ..node })
    }

    fn heartbeat(&self) -> Option<&str> {
        self.status.conditions.iter().find(|one| one.kind == "Ready").map(|one| one.heartbeat.as_deref().unwrap_or(""))
    }
}

/// When a node last said that it lives.
struct LeaseView {
    renewed: String,
}

impl LeaseView {
    fn make(item: &Item) -> Option<LeaseView> {
        #[derive(Deserialize)]
        struct Parsed {
            spec: ParsedSpec,
        }
        #[derive(Deserialize)]
        struct ParsedSpec {
            #[serde(default, rename = "renewTime")]
            renewed: String,
        }
        if &*item.namespace != LEASES {
            return None;
        }
        item.parse::<Parsed>().ok().map(|lease| LeaseView { renewed: lease.spec.renewed })
    }
}

pub async fn run(context: Context) {
    let Context { client, caches, clock } = context;
    let queue: Queue<String> = Queue::new();
    let adding = queue.clone();
    let nodes = caches
        .view(&ApiResource::erase::<Node>(&()), Selection::default(), NodeView::make)
        .on_change(move |change| adding.add(change.key.name.clone()));
    let leases = caches.view(&ApiResource::erase::<Lease>(&()), Selection::default(), LeaseView::make);
    nodes.synced().await;
    leases.synced().await;
    let nodes = Arc::new(nodes);
    let monitor = monitor(client.clone(), clock.clone(), nodes.clone(), leases);
    let reconciling = rkube_operator::run(NAME, queue, WORKERS, move |name: String| {
        let (client, clock, nodes) = (client.clone(), clock.clone(), nodes.clone());
        async move {
            match nodes.get("", &name) {
                Some(node) => settle(reconcile(&client, &*clock, &node).await),
                None => Ok(Outcome::Unchanged),
            }
        }
    });
    tokio::select! {
        () = monitor => {}
        () = reconciling => {}
    }
}

/// Taints and labels.
async fn reconcile(client: &Client, clock: &dyn Clock, node: &NodeView) -> Result<Outcome, kube::Error> {
    let now = time::format_seconds(clock.now_seconds());
    let taints = plan::taints(&node.status.conditions, node.spec.unschedulable, &node.spec.taints, &now);
    let labels = plan::labels(|key| node.metadata.labels.get(key).map(String::as_str));
    if taints.is_none() && labels.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let mut patch = json!({"metadata": {"uid": node.metadata.uid}});
    if let Some(taints) = taints {
        // A list of taints is written as a whole: of no other state than the one that was seen.
        patch["metadata"]["resourceVersion"] = node.revision.to_string().into();
        patch["spec"]["taints"] = taints.into();
    }
    for (key, value) in labels {
        patch["metadata"]["labels"][key] = value.into();
    }
    let api: Api<Node> = Api::all(client.clone());
    api.patch(&node.metadata.name, &PatchParams::default(), &Patch::Strategic(&patch)).await?;
    Ok(Outcome::Wrote)
}

/// What was last heard of a node, and when that was.
struct Heard {
    uid: String,
    heartbeat: Option<String>,
    renewed: Option<String>,
    at: Instant,
}

/// Looks at all nodes, again and again. Whose clock is right does not matter: what counts is when something new is seen.
async fn monitor(client: Client, clock: Arc<dyn Clock>, nodes: Arc<Informer<NodeView>>, leases: Informer<LeaseView>) {
    let mut heard: HashMap<String, Heard> = HashMap::new();
    loop {
        let all = nodes.all();
        let now = Instant::now();
        let mut next = HashMap::with_capacity(all.len());
        for node in &all {
            let name = &node.metadata.name;
            let lease = leases.get(LEASES, name);
            let last = hear(heard.remove(name), node, lease.as_deref(), now);
            let grace = if last.heartbeat.is_some() { GRACE } else { GRACE_AT_START };
            if now.duration_since(last.at) > grace
                && let Err(error) = say_unknown(&client, &*clock, node).await
            {
                tracing::debug!(node = name, %error, "that a node is silent cannot be written; trying again");
            }
            next.insert(name.clone(), last);
        }
        heard = next;
        tokio::time::sleep(PERIOD).await;
    }
}

/// Takes note of what the node says now.
fn hear(last: Option<Heard>, node: &NodeView, lease: Option<&LeaseView>, now: Instant) -> Heard {
    let heartbeat = node.heartbeat().map(str::to_owned);
    let renewed = lease.map(|lease| lease.renewed.clone());
    let uid = node.metadata.uid.clone();
    match last {
        Some(last) if last.uid == uid && last.heartbeat == heartbeat && last.renewed == renewed => last,
        _ => Heard { uid, heartbeat, renewed, at: now },
    }
}

async fn say_unknown(client: &Client, clock: &dyn Clock, node: &NodeView) -> Result<(), kube::Error> {
    let now = time::format_seconds(clock.now_seconds());
    let Some(conditions) = plan::unknown(&node.status.conditions, &node.metadata.created, &now) else {
        return Ok(());
    };
    let patch = json!({"metadata": {"uid": node.metadata.uid}, "status": {"conditions": conditions}});
    let api: Api<Node> = Api::all(client.clone());
    let written = api.patch_status(&node.metadata.name, &PatchParams::default(), &Patch::Strategic(&patch)).await;
    settle(written.map(|_| Outcome::Wrote)).map(|_| ())
}

/// That the node is gone, or another one, is no failure.
fn settle(outcome: Result<Outcome, kube::Error>) -> Result<Outcome, kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::Wrote),
        other => other,
    }
}
