//! Events about objects, for people to read.
//!
//! [`Recorder`] writes core/v1 Events as most components of Kubernetes do: what is said again is counted, what is said in
//! ever other words is combined, and who says too much about an object is not heard. [`SeriesRecorder`] writes
//! events.k8s.io/v1 Events as the scheduler does: what is said again becomes a series.
//!
//! Neither makes anybody wait: events that cannot be written in time are lost.

mod correlator;
mod lru;
mod recorder;
mod send;
mod series;

pub use recorder::Recorder;
pub use series::{Series, SeriesRecorder};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use kube::Resource;
use rkube_machinery::{Text, names};
use serde::{Serialize, Serializer};

/// So many events may wait to be written; more are lost, as with upstream.
const WAITING_MAX: usize = 1000;

/// What an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reference {
    pub kind: Text,
    /// Empty for cluster-scoped objects.
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub api_version: Text,
    pub resource_version: Text,
    /// The part of the object, such as `spec.containers{name}`.
    pub field_path: Text,
}

impl Reference {
    pub fn of<K: Resource>(object: &K) -> Reference
    where
        K::DynamicType: Default,
    {
        let (metadata, dynamic) = (object.meta(), K::DynamicType::default());
        let text = |value: &Option<String>| Text::from(value.as_deref().unwrap_or_default());
        Reference {
            kind: K::kind(&dynamic).as_ref().into(),
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            api_version: K::api_version(&dynamic).as_ref().into(),
            resource_version: text(&metadata.resource_version),
            field_path: Text::default(),
        }
    }

    /// Where events about it are.
    fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = [
            ("kind", &self.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiVersion", &self.api_version),
            ("resourceVersion", &self.resource_version),
            ("fieldPath", &self.field_path),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
        serializer.collect_map(given.map(|(field, value)| (field, value.as_str())))
    }
}

/// The metadata of a new event.
#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// The object's name and the time; where that is no valid name, something else that is unique.
fn event_name(about: &str, nanos: i64) -> String {
    let name = format!("{about}.{nanos:x}");
    if names::dns1123_subdomain(&name).is_empty() {
        return name;
    }
    let part = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, about, nanos).hash(&mut hasher);
        hasher.finish()
    };
    let (high, low) = (part(0), part(1));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 50),
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_are_valid() {
        assert_eq!(event_name("pod", 0x1234), "pod.1234");
        let strange = event_name("system:node", 0x1234);
        assert!(names::dns1123_subdomain(&strange).is_empty() && strange.len() == 36, "{strange}");
        assert_ne!(strange, event_name("system:node", 0x1235));
    }
}
