//! What an autoscaler scales: anything that has a scale.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use parking_lot::RwLock;
use rkube_operator::kube::Client;
use rkube_operator::{Caches, Discovered};
use serde_json::Value;

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
    value: Value,
}

impl Scale {
    pub async fn get(client: &Client, place: &Place, namespace: &str, name: &str) -> Result<Scale, String> {
        let path = place.scale_path(namespace, name);
        let asked = format!("{} {name}", place.plural);
        match requests::get_value(client, &path).await {
            Ok(value) => Ok(Scale { path, asked, value }),
            Err(error) => Err(requests::message_for(&error, &format!("get {asked}"))),
        }
    }

    pub fn target(&self) -> Target {
        let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or(0);
        Target {
            replicas: number(&self.value["spec"]["replicas"]),
            status_replicas: number(&self.value["status"]["replicas"]),
        }
    }

    pub fn selector(&self) -> &str {
        self.value["status"]["selector"].as_str().unwrap_or_default()
    }

    pub async fn set(&mut self, client: &Client, replicas: i32) -> Result<(), String> {
        let mut tries = 1;
        loop {
            self.value["spec"]["replicas"] = replicas.into();
            let Err(error) = requests::replace(client, &self.path, &self.value).await else { return Ok(()) };
            if !requests::is_conflict(&error) || tries >= TRIES_MAX {
                return Err(requests::message_for(&error, &format!("put {}", self.asked)));
            }
            tries += 1;
            if let Ok(latest) = requests::get_value(client, &self.path).await {
                self.value = latest;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
