//! The scheduler's events, in upstream's words.

use std::collections::HashMap;
use std::sync::Arc;

use rkube_machinery::Text;
use rkube_machinery::host::Clock;
use rkube_operator::events::{EventType, Reference, Series, SeriesRecorder};
use rkube_operator::kube::Client;

use crate::view::Pod;

/// The longest note that an event may have.
const NOTE_MAX: usize = 1024;

/// One recorder per name of the scheduler: events are said by the one that the pod asked for.
pub struct Events {
    recorders: HashMap<Text, SeriesRecorder>,
}

impl Events {
    pub fn start(client: &Client, clock: &Arc<dyn Clock>, names: &[Text], host_name: &str) -> Events {
        let recorder = |name: &Text| {
            let instance = format!("{name}-{host_name}");
            (name.clone(), SeriesRecorder::start(client.clone(), clock.clone(), name, &instance))
        };
        Events { recorders: names.iter().map(recorder).collect() }
    }

    pub fn scheduled(&self, pod: &Pod, node: &str) {
        let note = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
        self.say(pod, EventType::Normal, "Scheduled", "Binding", note);
    }

    pub fn failed(&self, pod: &Pod, message: &str) {
        self.say(pod, EventType::Warning, "FailedScheduling", "Scheduling", shortened(message));
    }

    pub fn skipped(&self, pod: &Pod) {
        self.failed(pod, &format!("skip schedule deleting pod: {}/{}", pod.namespace, pod.name));
    }

    fn say(&self, pod: &Pod, event_type: EventType, reason: &str, action: &str, note: String) {
        let name = pod.pending.as_ref().map(|pending| &pending.scheduler_name);
        let Some(recorder) = name.and_then(|name| self.recorders.get(name)) else { return };
        let regarding = Reference {
            kind: "Pod".into(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            api_version: "v1".into(),
            resource_version: Text::from(pod.revision.to_string()),
            ..Reference::default()
        };
        let series = Series { regarding, related: None, event_type, reason: reason.into(), action: action.into() };
        recorder.event(series, note);
    }
}

fn shortened(message: &str) -> String {
    const MORE: &str = " ...";
    if message.len() <= NOTE_MAX {
        return message.to_owned();
    }
    let mut end = NOTE_MAX - MORE.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MORE}", &message[..end])
}
