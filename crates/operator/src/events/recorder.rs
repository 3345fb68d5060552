//! The recorder of core/v1 Events.

use std::sync::Arc;

use kube::Client;
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, time};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::correlator::{Correlator, Record, Said};
use super::send::{Sent, create, patch};
use super::{EventType, Metadata, Reference, WAITING_MAX};
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
    create(client, &events, &Event::of(component, record)).await;
}

/// As it is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Metadata<'a>,
    involved_object: &'a Reference,
    reason: &'a str,
    message: &'a str,
    source: Source<'a>,
    first_timestamp: String,
    last_timestamp: String,
    count: u32,
    r#type: &'a str,
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
struct Source<'a> {
    component: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
}

impl<'a> Event<'a> {
    fn of(component: &'a str, record: &'a Record) -> Event<'a> {
        let Record { said, name, count, first_nanos, is_combined } = record;
        let source = Source { component, host: &said.host };
        // As upstream has it: who reports what was combined is not said.
        let (reporting_component, reporting_instance) =
            if *is_combined { ("", "") } else { (component, said.host.as_str()) };
        Event {
            kind: "Event",
            api_version: "v1",
            metadata: Metadata { name, namespace: said.about.event_namespace() },
            involved_object: &said.about,
            reason: &said.reason,
            message: &said.message,
            source,
            first_timestamp: seconds(*first_nanos),
            last_timestamp: seconds(said.at_nanos),
            count: *count,
            r#type: said.event_type.as_str(),
            reporting_component,
            reporting_instance,
        }
    }
}

fn seconds(nanos: i64) -> String {
    time::format_seconds(nanos.div_euclid(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_combined_is_reported_by_nobody() {
        let about = Reference { kind: "Pod".into(), namespace: "n".into(), name: "p".into(), ..Reference::default() };
        let said = Said {
            about,
            event_type: EventType::Warning,
            reason: "BackOff".into(),
            message: "again".to_owned(),
            at_nanos: 61_500_000_000,
            host: "node-1".into(),
        };
        let mut record =
            Record { said, name: "p.1".to_owned(), count: 1, first_nanos: 1_000_000_000, is_combined: false };
        let mut wanted = json!({
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": { "name": "p.1", "namespace": "n" },
            "involvedObject": { "kind": "Pod", "namespace": "n", "name": "p" },
            "reason": "BackOff",
            "message": "again",
            "source": { "component": "kubelet", "host": "node-1" },
            "firstTimestamp": "1970-01-01T00:00:01Z",
            "lastTimestamp": "1970-01-01T00:01:01Z",
            "count": 1,
            "type": "Warning",
            "reportingComponent": "kubelet",
            "reportingInstance": "node-1",
        });
        assert_eq!(serde_json::to_value(Event::of("kubelet", &record)).unwrap(), wanted);
        (record.is_combined, record.said.host) = (true, Text::default());
        wanted["source"] = json!({ "component": "kubelet" });
        (wanted["reportingComponent"], wanted["reportingInstance"]) = (json!(""), json!(""));
        assert_eq!(serde_json::to_value(Event::of("kubelet", &record)).unwrap(), wanted);
    }
}
