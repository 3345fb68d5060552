//! Makes the Endpoints of services that select pods: watches services, pods and Endpoints, and writes Endpoints of the
//! service's name. Of a service that is gone they are deleted.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::api::{DynamicObject, ObjectMeta};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Action, Informer, Key, Queue};
use serde_json::json;

use crate::Context;
use crate::metadata::Labels;
use crate::pods::Pod;
use crate::requests;
use crate::services::endpoints::{self, Endpoints, OVER_CAPACITY, digest};
use crate::services::pause::Pauses;
use crate::services::subsets::{Subset, repack};
use crate::services::trigger::Seen;
use crate::services::write::Writer;
use crate::services::{self, Service};
use plan::Desired;

const NAME: &str = "endpoints-controller";

struct Controller {
    client: Client,
    services: Arc<Informer<Service>>,
    pods: Informer<Pod>,
    endpoints: Informer<Endpoints>,
    seen: Mutex<Seen>,
    pauses: Mutex<Pauses>,
    recorder: Recorder,
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let recorder = Recorder::start(client.clone(), clock, "endpoint-controller");
    let queue: Queue<Key> = Queue::new();
    let (services, pods) = services::follow(&caches, &queue, settings.endpoint_updates_batch_period);
    let adding = queue.clone();
    let endpoints = endpoints::informer(&caches).on_change(move |change| {
        if change.new.is_none() {
            adding.add(change.key.clone());
        }
    });
    services.synced().await;
    pods.synced().await;
    endpoints.synced().await;
    // Those whose services went while nobody looked.
    endpoints.all().iter().filter(|endpoints| !endpoints.is_lock).for_each(|endpoints| queue.add(endpoints.key()));
    let controller = Arc::new(Controller {
        client,
        services,
        pods,
        endpoints,
        seen: Mutex::default(),
        pauses: Mutex::default(),
        recorder,
    });
    rkube_operator::run(NAME, queue, settings.concurrent_endpoint_syncs, move |key: Key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Action, kube::Error> {
        let writer = Writer::new(&self.client, &key.namespace, ApiResource::erase::<v1::Endpoints>(&()));
        let current = self.endpoints.get(&key.namespace, &key.name);
        let Some(service) = self.services.get(&key.namespace, &key.name) else {
            self.seen.lock().forget(key);
            self.pauses.lock().forget(key);
            // The server's own are the server's.
            if current.is_some() && !services::is_own_of_server(key) {
                writer.delete(&key.name).await?;
            }
            return Ok(Action::done());
        };
        if !service.is_selecting() {
            return Ok(Action::done());
        }
        if let Some(left) = self.pauses.lock().left(key) {
            return Ok(Action::done().requeue_after(left));
        }
        let pods = service.pods(&self.pods);
        self.pauses.lock().begin(key, pods.len());
        let changed = self.seen.lock().since_last(key, &service, &pods);
        let desired = plan::desired(&service, &pods);
        if let Some(current) = current {
            let same = current.subsets == digest(&desired.subsets)
                && current.says_truncated == desired.truncated
                && plan::labels_fit(&current.labels, &service);
            if same {
                return Ok(Action::done());
            }
            if let Some(live) = writer.get(&key.name).await? {
                return self.update(&writer, &service, live, desired, changed).await;
            }
        }
        self.create(&writer, &service, desired, changed).await
    }

    async fn create(
        &self,
        writer: &Writer,
        service: &Service,
        desired: Desired,
        changed: Option<i64>,
    ) -> Result<Action, kube::Error> {
        let mut metadata = ObjectMeta { name: Some(service.name.to_string()), ..ObjectMeta::default() };
        plan::annotate(metadata.annotations.get_or_insert_default(), changed, desired.truncated);
        metadata.labels = Some(plan::labels(service));
        match writer.create(metadata, json!({ "subsets": desired.subsets })).await {
            Ok(()) => Ok(Action::done()),
            Err(error) if requests::is_namespace_terminating(&error) => Ok(Action::done()),
            Err(error) => {
                let (Service { namespace, name, .. }, why) = (service, requests::message(&error));
                let message = format!("Failed to create endpoint for service {namespace}/{name}: {why}");
                self.recorder.warn(&about(service, ""), "FailedToCreateEndpoint", message);
                Err(error)
            }
        }
    }

    async fn update(
        &self,
        writer: &Writer,
        service: &Service,
        mut live: DynamicObject,
        desired: Desired,
        changed: Option<i64>,
    ) -> Result<Action, kube::Error> {
        let subsets: Vec<Subset> = serde_json::from_value(live.data["subsets"].take()).unwrap_or_default();
        let annotations = live.metadata.annotations.get_or_insert_default();
        let labels = live.metadata.labels.get_or_insert_default();
        let pairs = labels.iter().map(|(key, value)| (Text::new(key), Text::new(value)));
        // Others may order what is the same in another way.
        let same = (subsets == desired.subsets || repack(&subsets) == desired.subsets)
            && annotations.contains_key(OVER_CAPACITY) == desired.truncated
            && plan::labels_fit(&Labels::new(pairs), service);
        if same {
            return Ok(Action::done());
        }
        plan::annotate(annotations, changed, desired.truncated);
        *labels = plan::labels(service);
        live.data["subsets"] = json!(desired.subsets);
        if let Err(error) = writer.replace(&service.name, &live).await {
            let (Service { namespace, name, .. }, why) = (service, requests::message(&error));
            let message = format!("Failed to update endpoint {namespace}/{name}: {why}");
            let uid = live.metadata.uid.as_deref().unwrap_or_default();
            self.recorder.warn(&about(service, uid), "FailedToUpdateEndpoint", message);
            return Err(error);
        }
        Ok(Action::done())
    }
}

fn about(service: &Service, uid: &str) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Endpoints".into(),
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        uid: uid.into(),
        ..Reference::default()
    }
}
