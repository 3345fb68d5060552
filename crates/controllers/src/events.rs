//! Events that controllers write about objects. What is said again is counted, not written again; who says too much is
//! not heard. (Upstream's aggregation of similar events comes with the toolkit's own recorder.)

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, time};
use rkube_operator::kube::api::{Api, Patch, PatchParams, PostParams};
use rkube_operator::kube::{self, Client};
use serde_json::json;
use tokio::sync::mpsc;

/// So many events may wait to be written; more are lost, as with upstream.
const WAITING_MAX: usize = 1000;
/// So many events are remembered, so that they are counted when they come again.
const REMEMBERED_MAX: usize = 4096;

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    pub api_version: Text,
    pub kind: Text,
    /// Empty for cluster-scoped objects.
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
}

pub struct Recorder {
    sender: mpsc::Sender<Told>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Told {
    about: Reference,
    reason: &'static str,
    message: String,
}

/// An event that was written.
struct Written {
    name: String,
    count: u32,
}

impl Recorder {
    /// Writes events for as long as the recorder is there.
    pub fn start(client: Client, clock: Arc<dyn Clock>, component: &'static str) -> Recorder {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        tokio::spawn(write_all(client, clock, component, receiver));
        Recorder { sender }
    }

    /// A warning. Does not wait.
    pub fn warn(&self, about: &Reference, reason: &'static str, message: String) {
        // That it is lost where too many wait is what the bound is for.
        let _ = self.sender.try_send(Told { about: about.clone(), reason, message });
    }
}

async fn write_all(client: Client, clock: Arc<dyn Clock>, component: &'static str, mut receiver: mpsc::Receiver<Told>) {
    let mut known: HashMap<Told, Written> = HashMap::new();
    let mut order: VecDeque<Told> = VecDeque::new();
    let mut number = 0;
    while let Some(told) = receiver.recv().await {
        number += 1;
        let api: Api<Event> = Api::namespaced(client.clone(), namespace_of(&told.about));
        let outcome = match known.get_mut(&told) {
            Some(written) => count(&api, &*clock, written).await,
            None => Ok(false),
        };
        let outcome = match outcome {
            Ok(true) => continue,
            Ok(false) => create(&api, &*clock, component, &told, number).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(name) => {
                if known.insert(told.clone(), Written { name, count: 1 }).is_none() {
                    order.push_back(told);
                }
                if order.len() > REMEMBERED_MAX
                    && let Some(oldest) = order.pop_front()
                {
                    known.remove(&oldest);
                }
            }
            Err(error) => tracing::debug!(%error, reason = told.reason, "an event was not written"),
        }
    }
}

fn namespace_of(about: &Reference) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

/// Says that it happened again; false if the event is gone.
async fn count(api: &Api<Event>, clock: &dyn Clock, written: &mut Written) -> Result<bool, kube::Error> {
    let patch = json!({ "count": written.count + 1, "lastTimestamp": time::format_seconds(clock.now_seconds()) });
    match api.patch(&written.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(_) => {
            written.count += 1;
            Ok(true)
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

async fn create(
    api: &Api<Event>,
    clock: &dyn Clock,
    component: &str,
    told: &Told,
    number: i64,
) -> Result<String, kube::Error> {
    let about = &told.about;
    // Nanoseconds, of which the clock does not know the last three digits.
    let name = format!("{}.{:x}", about.name, clock.now_micros() * 1000 + number % 1000);
    let now = time::format_seconds(clock.now_seconds());
    let mut involved = json!({
        "apiVersion": about.api_version.as_str(), "kind": about.kind.as_str(),
        "name": about.name.as_str(), "uid": about.uid.as_str(),
    });
    if !about.namespace.is_empty() {
        involved["namespace"] = about.namespace.as_str().into();
    }
    let event = json!({
        "metadata": { "name": name, "namespace": namespace_of(about) },
        "involvedObject": involved,
        "reason": told.reason,
        "message": told.message,
        "source": { "component": component },
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
        "reportingComponent": component,
        "reportingInstance": "",
    });
    let event: Event = serde_json::from_value(event).map_err(kube::Error::SerdeError)?;
    api.create(&PostParams::default(), &event).await?;
    Ok(name)
}
