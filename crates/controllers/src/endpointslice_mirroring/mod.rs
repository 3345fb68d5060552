//! Mirrors Endpoints that somebody wrote by hand into EndpointSlices, which is where others look: watches services,
//! Endpoints and slices, and writes the slices that it has labelled as its own. Endpoints of services that select pods
//! are not mirrored: their slices are made of pods.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::{core, discovery};
use rkube_machinery::Text;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::api::DynamicObject;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Caches, Informer, Key, Outcome, Queue};
use serde_json::json;

use crate::Context;
use crate::requests;
use crate::services::endpoints::{self, Endpoints};
use crate::services::slices::{self, BY_MIRRORING, Slice, ports_json};
use crate::services::subsets::Subset;
use crate::services::write::{self, NewSlice, Writer};
use crate::services::{self, Service};
use plan::{Content, Mirrored, Plan};

const NAME: &str = "endpointslice-mirroring-controller";

struct Controller {
    client: Client,
    services: Informer<Service>,
    endpoints: Informer<Endpoints>,
    slices: Informer<Slice>,
    recorder: Recorder,
    /// No more addresses of a subset are mirrored.
    addresses_max: usize,
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let recorder = Recorder::start(client.clone(), clock, "endpoint-slice-mirroring-controller");
    let queue: Queue<Key> = Queue::new();
    let batch = settings.mirroring_endpointslice_updates_batch_period;
    let (services, endpoints, slices) = follow(&caches, &queue, batch);
    services.synced().await;
    endpoints.synced().await;
    slices.synced().await;
    let addresses_max = settings.mirroring_max_endpoints_per_subset;
    let controller = Arc::new(Controller { client, services, endpoints, slices, recorder, addresses_max });
    rkube_operator::run(NAME, queue, settings.mirroring_concurrent_service_endpoint_syncs, move |key: Key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    })
    .await;
}

/// What changes about Endpoints is looked at after the given time, in which more may change.
fn follow(
    caches: &Caches,
    queue: &Queue<Key>,
    batch: Duration,
) -> (Informer<Service>, Informer<Endpoints>, Informer<Slice>) {
    let adding = queue.clone();
    let services = services::informer(caches).on_change(move |change| {
        let selects = |service: Option<&Arc<Service>>| service.is_some_and(|service| service.selector.is_some());
        if !selects(change.old) || !selects(change.new) {
            adding.add(change.key.clone());
        }
    });
    let adding = queue.clone();
    let endpoints = endpoints::informer(caches).on_change(move |change| {
        if change.old.into_iter().chain(change.new).any(|endpoints| endpoints.is_mirrored()) {
            if batch.is_zero() {
                adding.add(change.key.clone());
            } else {
                adding.add_after(change.key.clone(), batch);
            }
        }
    });
    let adding = queue.clone();
    let slices = slices::informer(caches).on_change(move |change| {
        for slice in change.old.into_iter().chain(change.new).filter(|slice| slice.manager == BY_MIRRORING) {
            adding.add(Key { namespace: slice.namespace.to_string(), name: slice.service.to_string() });
        }
    });
    (services, endpoints, slices)
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, kube::Error> {
        let slices = slices::of_service(&self.slices, key, BY_MIRRORING);
        let writer = |resource| Writer::new(&self.client, &key.namespace, resource);
        let to_slices = writer(ApiResource::erase::<discovery::v1::EndpointSlice>(&()));
        let service = self.services.get(&key.namespace, &key.name).filter(|service| service.selector.is_none());
        let endpoints = self.endpoints.get(&key.namespace, &key.name).filter(|endpoints| endpoints.is_mirrored());
        let live = match (service, endpoints) {
            (Some(_), Some(_)) => writer(ApiResource::erase::<core::v1::Endpoints>(&())).get(&key.name).await?,
            _ => None,
        };
        let Some(live) = live else {
            for slice in &slices {
                to_slices.delete(&slice.name).await?;
            }
            return Ok(Outcome::Unchanged);
        };
        self.mirror(&to_slices, live, &slices).await
    }

    async fn mirror(
        &self,
        writer: &Writer,
        mut live: DynamicObject,
        slices: &[Arc<Slice>],
    ) -> Result<Outcome, kube::Error> {
        let subsets: Vec<Subset> = serde_json::from_value(live.data["subsets"].take()).unwrap_or_default();
        let metadata = &live.metadata;
        let (labels, annotations) =
            (metadata.labels.clone().unwrap_or_default(), metadata.annotations.clone().unwrap_or_default());
        let mirrored = Mirrored {
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            labels: &labels,
            annotations: &annotations,
            subsets: &subsets,
            addresses_max: self.addresses_max,
        };
        let plan = plan::plan(&mirrored, slices);
        self.say(&mirrored, metadata.namespace.as_deref().unwrap_or_default(), &plan);
        if plan.create.is_empty() && plan.update.is_empty() && plan.recycle.is_empty() && plan.delete.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        // Of Endpoints that go, the garbage collector deletes what this would replace.
        let creating = plan.create.iter().filter(|_| metadata.deletion_timestamp.is_none());
        for content in creating {
            match writer.create_slice(mirrored.name, new_slice(&mirrored, content)).await {
                Err(error) if requests::is_namespace_terminating(&error) => return Ok(Outcome::Unchanged),
                other => other?,
            }
        }
        for (name, content) in &plan.update {
            // It is written as one that has its name.
            update(writer, &mirrored, name, content, None).await?;
        }
        for (name, content) in &plan.recycle {
            update(writer, &mirrored, name, content, Some(write::prefix(mirrored.name))).await?;
        }
        for name in &plan.delete {
            writer.delete(name).await?;
        }
        // Whoever keeps Endpoints by hand may do it every second, and is mirrored as often.
        Ok(Outcome::Unchanged)
    }

    fn say(&self, mirrored: &Mirrored<'_>, namespace: &str, plan: &Plan) {
        let about = Reference {
            api_version: "v1".into(),
            kind: "Endpoints".into(),
            namespace: namespace.into(),
            name: mirrored.name.into(),
            uid: mirrored.uid.into(),
            ..Reference::default()
        };
        if plan.invalid > 0 {
            let count = plan.invalid;
            let message = format!("Skipped {count} invalid IP addresses when mirroring to EndpointSlices");
            self.recorder.warn(&about, "InvalidIPAddress", message);
        }
        if plan.skipped > plan.invalid {
            let message = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. {} \
                 addresses were skipped",
                self.addresses_max, plan.skipped
            );
            self.recorder.warn(&about, "TooManyAddressesToMirror", message);
        }
    }
}

fn new_slice<'a>(mirrored: &Mirrored<'_>, content: &'a Content) -> NewSlice<'a> {
    NewSlice {
        labels: plan::labels(mirrored),
        annotations: plan::annotations(mirrored),
        owner: write::controlled_by("Endpoints", &Text::new(mirrored.name), &Text::new(mirrored.uid)),
        address_type: content.family.name(),
        ports: &content.ports,
        endpoints: &content.endpoints,
    }
}

async fn update(
    writer: &Writer,
    mirrored: &Mirrored<'_>,
    name: &Text,
    content: &Content,
    generate_name: Option<String>,
) -> Result<(), kube::Error> {
    let Some(mut live) = writer.get(name).await? else { return Ok(()) };
    let slice = new_slice(mirrored, content);
    live.metadata.generate_name = generate_name;
    live.metadata.labels = Some(slice.labels);
    live.metadata.annotations = Some(slice.annotations);
    live.metadata.owner_references = Some(vec![slice.owner]);
    live.data["endpoints"] = json!(content.endpoints);
    live.data["ports"] = ports_json(&content.ports);
    writer.replace(name, &live).await
}
