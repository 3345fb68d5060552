//! The recorder of core/v1 Events.

use std::sync::Arc;

use kube::Client;
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, time};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::correlator::{Correlator, Record, Said};
use super::send::{Sent, create, patch};
use super::{EventType, Reference, WAITING_MAX};
use crate::process::held;

/// Writes Events for as long as there is a clone of it.
#[derive(Clone)]
pub struct Recorder {
    sender: mpsc::Sender<Said>,
    clock: Arc<dyn Clock>,
    host: Text,
}

impl Recorder {
    /// `component` is who says it, such as `deployment-controller`.
    pub fn start(client: Client, clock: Arc<dyn Clock>, component: &str) -> Recorder {
        Recorder::start_on(client, clock, component, "")
    }

    /// Of a component that runs on a host: events say on which.
    pub fn start_on(client: Client, clock: Arc<dyn Clock>, component: &str, host: &str) -> Recorder {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        tokio::spawn(held(write_all(client, component.into(), receiver)));
        Recorder { sender, clock, host: host.into() }
    }

    /// The same, on another host: one who writes serves many.
    #[must_use]
    pub fn on(&self, host: &str) -> Recorder {
        Recorder { host: host.into(), ..self.clone() }
    }

    pub fn normal(&self, about: &Reference, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Normal, reason, message);
    }

    pub fn warn(&self, about: &Reference, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Warning, reason, message);
    }

    /// Does not wait.
    pub fn event(&self, about: &Reference, event_type: EventType, reason: &str, message: impl Into<String>) {
        let at_nanos = self.clock.distinct_nanos();
        let (about, reason_text, host) = (about.clone(), reason.into(), self.host.clone());
        let said = Said { about, event_type, reason: reason_text, message: message.into(), at_nanos, host };
        if self.sender.try_send(said).is_err() {
            tracing::debug!(reason, "too many events wait to be written: one is lost");
        }
    }
}

async fn write_all(client: Client, component: Text, mut receiver: mpsc::Receiver<Said>) {
    let mut correlator = Correlator::new();
    while let Some(said) = receiver.recv().await {
        if let Some(record) = correlator.correlate(said) {
            write(&client, &component, &record).await;
        }
    }
}

async fn write(client: &Client, component: &str, record: &Record) {
    let events = format!("/api/v1/namespaces/{}/events", record.said.about.event_namespace());
    if record.count > 1 {
        let again = json!({
            "count": record.count,
            "lastTimestamp": seconds(record.said.at_nanos),
            "message": record.said.message,
        });
        if patch(client, &events, &record.name, &again).await != Sent::NotFound {
            return;
        }
    }
    create(client, &events, &event(component, record)).await;
}

fn event(source: &str, record: &Record) -> Value {
    let Record { said, name, count, first_nanos, is_combined } = record;
    let mut from = json!({ "component": source });
    if !said.host.is_empty() {
        from["host"] = said.host.as_str().into();
    }
    // As upstream has it: who reports what was combined is not said.
    let (component, instance) = if *is_combined { ("", "") } else { (source, said.host.as_str()) };
    json!({
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": { "name": name, "namespace": said.about.event_namespace() },
        "involvedObject": said.about.json(),
        "reason": said.reason.as_str(),
        "message": said.message,
        "source": from,
        "firstTimestamp": seconds(*first_nanos),
        "lastTimestamp": seconds(said.at_nanos),
        "count": count,
        "type": said.event_type.as_str(),
        "reportingComponent": component,
        "reportingInstance": instance,
    })
}

fn seconds(nanos: i64) -> String {
    time::format_seconds(nanos.div_euclid(1_000_000_000))
}
