//! Makes the EndpointSlices of services that select pods: watches services, pods, nodes and slices, and writes the slices
//! that it has labelled as its own. (Those of a service that is gone are garbage, and are collected.)

mod plan;
mod topology;
mod zones;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::discovery::v1;
use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use rkube_operator::queue::Options;
use rkube_operator::{Action, Caches, Informer, Key, Queue};
use serde_json::json;

use crate::Context;
use crate::nodes::{self, Node};
use crate::pods::Pod;
use crate::requests;
use crate::services::pause::Pauses;
use crate::services::slices::{self, BY_PODS, Slice, ports_json};
use crate::services::trigger::Seen;
use crate::services::write::{self, NewSlice, Writer};
use crate::services::{self, Family, Service, Traffic};
use plan::{Content, Plan, Unchanged};
use topology::{Told, Topology};

const NAME: &str = "endpointslice-controller";
/// How soon what failed is tried again, at first and at last; upstream's.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(1000);
/// Who changes a slice of ours is given so long to come to an end; upstream's.
const AFTER_OTHERS: Duration = Duration::from_secs(1);

struct Controller {
    client: Client,
    services: Arc<Informer<Service>>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    slices: Informer<Slice>,
    seen: Mutex<Seen>,
    pauses: Mutex<Pauses>,
    without_nodes: Arc<Mutex<BTreeSet<Key>>>,
    topology: Arc<Topology>,
    recorder: Recorder,
    /// So many are in one slice at most.
    endpoints_max: usize,
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let recorder = Recorder::start(client.clone(), clock, "endpoint-slice-controller");
    let retry = Options { backoff_first: RETRY_FIRST, backoff_max: RETRY_MAX, ..Options::default() };
    let queue: Queue<Key> = Queue::with(retry);
    let (services, pods) = services::follow(&caches, &queue, settings.endpointslice_updates_batch_period);
    let slices = follow_slices(&caches, &queue);
    let without_nodes: Arc<Mutex<BTreeSet<Key>>> = Arc::default();
    let topology: Arc<Topology> = Arc::default();
    let nodes = follow_nodes(&caches, &queue, &without_nodes, &topology);
    services.synced().await;
    pods.synced().await;
    slices.synced().await;
    nodes.synced().await;
    topology.look(&nodes);
    let looking = look_at_nodes(topology.clone(), nodes::informer(&caches), queue.clone());
    let controller = Arc::new(Controller {
        client,
        services,
        pods,
        nodes,
        slices,
        seen: Mutex::default(),
        pauses: Mutex::default(),
        without_nodes,
        topology,
        recorder,
        endpoints_max: settings.max_endpoints_per_slice,
    });
    let running = rkube_operator::run(NAME, queue, settings.concurrent_service_endpoint_syncs, move |key: Key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
    futures::future::join(looking, running).await;
}

/// When zones have other parts of the nodes, some services need other hints.
async fn look_at_nodes(topology: Arc<Topology>, nodes: Informer<Node>, queue: Queue<Key>) {
    loop {
        topology.changed.notified().await;
        topology.look(&nodes).into_iter().for_each(|key| queue.add(key));
    }
}

fn follow_slices(caches: &Caches, queue: &Queue<Key>) -> Informer<Slice> {
    let adding = queue.clone();
    slices::informer(caches).on_change(move |change| {
        let ours = change.old.into_iter().chain(change.new).filter(|slice| slice.manager == BY_PODS);
        for slice in ours {
            let key = Key { namespace: slice.namespace.to_string(), name: slice.service.to_string() };
            adding.add_after(key, AFTER_OTHERS);
        }
    })
}

/// A node that comes may be the one that services wait for.
fn follow_nodes(
    caches: &Caches,
    queue: &Queue<Key>,
    without_nodes: &Arc<Mutex<BTreeSet<Key>>>,
    topology: &Arc<Topology>,
) -> Informer<Node> {
    let (adding, waiting, topology) = (queue.clone(), without_nodes.clone(), topology.clone());
    nodes::informer(caches).on_change(move |change| {
        if topology::is_concerned(change.old, change.new) {
            topology.changed.notify_one();
        }
        if change.old.is_none() {
            std::mem::take(&mut *waiting.lock()).into_iter().for_each(|key| adding.add(key));
        }
    })
}

/// Why a service's slices are not as they should be, in upstream's words.
#[derive(Debug)]
struct Failed(Vec<String>);

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => formatter.write_str(one),
            all => write!(formatter, "[{}]", all.join(", ")),
        }
    }
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Action, Failed> {
        let Some(service) = self.services.get(&key.namespace, &key.name) else {
            self.seen.lock().forget(key);
            self.pauses.lock().forget(key);
            self.without_nodes.lock().remove(key);
            self.topology.forget(key);
            return Ok(Action::done());
        };
        if !service.is_selecting() {
            return Ok(Action::done());
        }
        if let Some(left) = self.pauses.lock().left(key) {
            return Ok(Action::done().requeue_after(left));
        }
        let pods = service.pods(&self.pods);
        let existing = slices::of_service(&self.slices, key, BY_PODS);
        let changed = self.seen.lock().since_last(key, &service, &pods);
        self.pauses.lock().begin(key, pods.len());
        let failed = self.apply(&service, &pods, &existing, changed).await;
        if failed.is_empty() {
            return Ok(Action::done());
        }
        let failed = Failed(failed);
        let Service { namespace, name, .. } = &*service;
        let message = format!("Error updating Endpoint Slices for Service {namespace}/{name}: {failed}");
        self.recorder.warn(&about(&service), "FailedToUpdateEndpointSlices", message);
        Err(failed)
    }

    /// What went wrong.
    async fn apply(
        &self,
        service: &Service,
        pods: &[Arc<Pod>],
        existing: &[Arc<Slice>],
        changed: Option<i64>,
    ) -> Vec<String> {
        let writer = Writer::new(&self.client, &service.namespace, ApiResource::erase::<v1::EndpointSlice>(&()));
        let (families, mut failed) = (plan::families(service), Vec::new());
        let zone = |node: &str| self.nodes.get("", node).map(|node| node.zone.clone());
        for family in &families {
            let of_family = existing.iter().filter(|slice| slice.address_type == family.name() && !slice.deleting);
            let of_family = of_family.collect::<Vec<_>>();
            let (mut plan, unchanged) = plan::plan(service, pods, &zone, &of_family, *family, self.endpoints_max);
            let told = self.give_hints(service, *family, &mut plan, unchanged);
            if !plan.left_out.is_empty() {
                self.without_nodes.lock().insert(service.key());
            }
            failed.append(&mut plan.left_out);
            failed.extend(write_plan(&writer, service, *family, plan, changed).await.err());
            told.into_iter().for_each(|told| self.tell(service, &told));
        }
        // Of families that the service has no more.
        for slice in existing.iter().filter(|slice| !families.iter().any(|family| slice.address_type == family.name()))
        {
            if let Err(error) = writer.delete(&slice.name).await {
                let (Service { namespace, name, .. }, why) = (service, requests::message(&error));
                failed
                    .push(format!("error deleting {} EndpointSlice for Service {namespace}/{name}: {why}", slice.name));
            }
        }
        failed.dedup();
        failed
    }

    /// What is to be told of it.
    fn give_hints(
        &self,
        service: &Service,
        family: Family,
        plan: &mut Plan,
        unchanged: Vec<Unchanged<'_>>,
    ) -> Option<Told> {
        if service.traffic == Some(Traffic::ByZones) {
            let given = zones::give(plan, unchanged, self.topology.shares().as_deref());
            return self.topology.remember(&service.key(), family, given);
        }
        plan::give_hints(plan, unchanged, service.traffic);
        self.topology.forget_family(&service.key(), family)
    }

    fn tell(&self, service: &Service, told: &Told) {
        let about = about(service);
        if told.warning {
            self.recorder.warn(&about, told.reason, told.message.as_str());
        } else {
            self.recorder.normal(&about, told.reason, told.message.as_str());
        }
    }
}

async fn write_plan(
    writer: &Writer,
    service: &Service,
    family: Family,
    plan: Plan,
    changed: Option<i64>,
) -> Result<(), String> {
    let Service { namespace, name, .. } = service;
    // Of a service that goes, the garbage collector deletes what this would replace.
    for content in plan.create.iter().filter(|_| !service.deleting) {
        match create(writer, service, family, content, changed).await {
            Err(error) if requests::is_namespace_terminating(&error) => return Ok(()),
            Err(error) => {
                let why = requests::message(&error);
                return Err(format!("failed to create EndpointSlice for Service {namespace}/{name}: {why}"));
            }
            Ok(()) => {}
        }
    }
    for (slice, content) in &plan.update {
        update(writer, service, slice, content, changed).await.map_err(|error| {
            let why = requests::message(&error);
            format!("failed to update {slice} EndpointSlice for Service {namespace}/{name}: {why}")
        })?;
    }
    for slice in &plan.delete {
        writer.delete(slice).await.map_err(|error| {
            let why = requests::message(&error);
            format!("failed to delete {slice} EndpointSlice for Service {namespace}/{name}: {why}")
        })?;
    }
    Ok(())
}

async fn create(
    writer: &Writer,
    service: &Service,
    family: Family,
    content: &Content,
    changed: Option<i64>,
) -> Result<(), kube::Error> {
    let mut slice = NewSlice {
        labels: plan::labels(service),
        annotations: Default::default(),
        owner: write::controlled_by("Service", &service.name, &service.uid),
        address_type: family.name(),
        ports: &content.ports,
        endpoints: &content.endpoints,
    };
    write::set_trigger_time(&mut slice.annotations, changed);
    writer.create_slice(&service.name, slice).await
}

/// One that is gone is not made again here: that it went is heard of.
async fn update(
    writer: &Writer,
    service: &Service,
    name: &Text,
    content: &Content,
    changed: Option<i64>,
) -> Result<(), kube::Error> {
    let Some(mut live) = writer.get(name).await? else { return Ok(()) };
    live.metadata.labels = Some(plan::labels(service));
    write::set_trigger_time(live.metadata.annotations.get_or_insert_default(), changed);
    live.data["endpoints"] = json!(content.endpoints);
    live.data["ports"] = ports_json(&content.ports);
    writer.replace(name, &live).await
}

fn about(service: &Service) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Service".into(),
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        uid: service.uid.clone(),
        ..Reference::default()
    }
}
