//! What an autoscaler scales: anything that has a scale.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use parking_lot::RwLock;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Caches, Discovered};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::horizontal_pod_autoscalers::plan::Target;
use crate::requests;

/// A write that another is faster than is tried so often, with a pause.
const TRIES_MAX: usize = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// Where objects of a kind are, by group and kind, in the version that discovery prefers.
#[derive(Clone, Default)]
pub struct Kinds(Arc<RwLock<BTreeMap<(String, String), Place>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub group: String,
    version: String,
    pub plural: String,
}

impl Kinds {
    /// Learns what is served, for ever. `known` is told when something is.
    pub async fn follow(&self, caches: &Caches, known: &tokio::sync::Notify) {
        let mut discovered = caches.source().discover();
        while let Some(found) = discovered.next().await {
            *self.0.write() = index(&found);
            known.notify_one();
        }
    }

    /// Where the objects of a kind are; or the words for that there are none.
    pub fn place(&self, api_version: &str, kind: &str) -> Result<Place, String> {
        let group = match api_version.split_once('/') {
            Some((_, rest)) if rest.contains('/') => {
                return Err(format!("unexpected GroupVersion string: {api_version}"));
            }
            Some((group, _)) => group,
            None => "",
        };
        self.of_kind(group, kind)
    }

    pub fn of_kind(&self, group: &str, kind: &str) -> Result<Place, String> {
        let found = self.0.read().get(&(group.to_owned(), kind.to_owned())).cloned();
        found.ok_or_else(|| format!("no matches for kind {kind:?} in group {group:?}"))
    }
}

fn index(found: &[Discovered]) -> BTreeMap<(String, String), Place> {
    let mut kinds = BTreeMap::new();
    for Discovered { resource, preferred, .. } in found {
        let place =
            Place { group: resource.group.clone(), version: resource.version.clone(), plural: resource.plural.clone() };
        let key = (resource.group.clone(), resource.kind.clone());
        if *preferred {
            kinds.insert(key, place);
        } else {
            kinds.entry(key).or_insert(place);
        }
    }
    kinds
}

impl Place {
    fn scale_path(&self, namespace: &str, name: &str) -> String {
        let Place { group, version, plural } = self;
        let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        format!("{base}/namespaces/{namespace}/{plural}/{name}/scale")
    }
}

/// The scale of an object, as it was read.
pub struct Scale {
    path: String,
    asked: String,
    text: String,
    read: Read,
}

/// What is read of a scale. What is null is as good as absent.
#[derive(Deserialize)]
struct Read {
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
struct Spec {
    replicas: Option<i32>,
}

#[derive(Default, Deserialize)]
struct Status {
    replicas: Option<i32>,
    selector: Option<String>,
}

impl Scale {
    pub async fn get(client: &Client, place: &Place, namespace: &str, name: &str) -> Result<Scale, String> {
        let path = place.scale_path(namespace, name);
        let asked = format!("{} {name}", place.plural);
        let answer = requests::get_text(client, &path).await.and_then(|text| {
            let read = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
            Ok((text, read))
        });
        match answer {
            Ok((text, read)) => Ok(Scale { path, asked, text, read }),
            Err(error) => Err(requests::message_for(&error, &format!("get {asked}"))),
        }
    }

    pub fn target(&self) -> Target {
        let Read { spec, status } = &self.read;
        let replicas = spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
        let status_replicas = status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
        Target { replicas, status_replicas }
    }

    pub fn selector(&self) -> &str {
        self.read.status.as_ref().and_then(|status| status.selector.as_deref()).unwrap_or_default()
    }

    pub async fn set(&self, client: &Client, replicas: i32) -> Result<(), String> {
        let failed = |error| requests::message_for(&error, &format!("put {}", self.asked));
        let mut latest: Option<String> = None;
        let mut tries = 1;
        loop {
            let text: &str = latest.as_deref().unwrap_or(&self.text);
            let value = with_replicas(text, replicas).map_err(|error| failed(kube::Error::SerdeError(error)))?;
            let Err(error) = requests::replace(client, &self.path, &value).await else { return Ok(()) };
            if !requests::is_conflict(&error) || tries >= TRIES_MAX {
                return Err(failed(error));
            }
            tries += 1;
            latest = requests::get_text(client, &self.path).await.ok().or(latest);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The scale, asking for so many.
fn with_replicas(scale: &str, replicas: i32) -> Result<Value, serde_json::Error> {
    let mut scale: Map<String, Value> = serde_json::from_str(scale)?;
    let spec = scale.remove("spec").unwrap_or_default();
    let mut spec = Option::<Map<String, Value>>::deserialize(spec)?.unwrap_or_default();
    spec.insert("replicas".to_owned(), replicas.into());
    scale.insert("spec".to_owned(), spec.into());
    Ok(scale.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_read_from_whoever_serves_it() {
        // The text, replicas asked for and there, the selector.
        let rows = [
            (r#"{"spec":{"replicas":3},"status":{"replicas":2,"selector":"a=b"}}"#, Some((3, 2, "a=b"))),
            (r#"{"spec":null,"status":{"replicas":null,"selector":null}}"#, Some((0, 0, ""))),
            (r#"{"kind":"Scale"}"#, Some((0, 0, ""))),
            (r#"{"spec":{"replicas":3000000000}}"#, None),
            (r#"{"spec":{"replicas":"3"}}"#, None),
            (r#"{"spec":3}"#, None),
            ("", None),
        ];
        for (text, wanted) in rows {
            let read = serde_json::from_str(text).ok();
            let scale =
                read.map(|read| Scale { path: String::new(), asked: String::new(), text: text.to_owned(), read });
            let found = scale.as_ref().map(|scale| {
                let Target { replicas, status_replicas } = scale.target();
                (replicas, status_replicas, scale.selector())
            });
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn only_the_replicas_of_a_scale_are_changed() {
        let rows = [
            (
                r#"{"kind":"Scale","spec":{"more":1,"replicas":1}}"#,
                Some(r#"{"kind":"Scale","spec":{"more":1,"replicas":5}}"#),
            ),
            (r#"{"spec":null}"#, Some(r#"{"spec":{"replicas":5}}"#)),
            ("{}", Some(r#"{"spec":{"replicas":5}}"#)),
            (r#"{"spec":[1]}"#, None),
            ("[]", None),
        ];
        for (text, wanted) in rows {
            let made = with_replicas(text, 5).ok().map(|made| serde_json::to_string(&made).unwrap());
            assert_eq!(made.as_deref(), wanted, "{text}");
        }
    }
}
