//! The source over the network: watches and discovery through a client.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, Stream, StreamExt as _};
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::discovery::{Discovery, Scope};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt};
use serde::Serialize;

use crate::source::{Discovered, Event, Item, Selection, Source};

/// How often discovery is asked; upstream's.
const DISCOVER_PERIOD: Duration = Duration::from_secs(30);

pub struct NetworkSource {
    client: Client,
}

impl NetworkSource {
    pub fn new(client: Client) -> NetworkSource {
        NetworkSource { client }
    }
}

impl Source for NetworkSource {
    fn follow(&self, resource: &ApiResource, selection: &Selection) -> BoxStream<'static, Event> {
        let client = self.client.clone();
        let config = match selection.name {
            Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
            None => watcher::Config::default(),
        };
        if selection.metadata_only {
            let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, resource);
            told(watcher(api, config).default_backoff())
        } else {
            let api: Api<DynamicObject> = Api::all_with(client, resource);
            told(watcher(api, config).default_backoff())
        }
    }

    fn discover(&self) -> BoxStream<'static, Vec<Discovered>> {
        let client = self.client.clone();
        let asked = stream::unfold((client, None::<Vec<Discovered>>), |(client, last)| async move {
            let mut wait = last.is_some();
            loop {
                if wait {
                    tokio::time::sleep(DISCOVER_PERIOD).await;
                }
                wait = true;
                match all_resources(&client).await {
                    Ok(found) if Some(&found) == last.as_ref() => {}
                    Ok(found) => return Some((found.clone(), (client, Some(found)))),
                    Err(error) => tracing::debug!(%error, "discovery failed, and is tried again"),
                }
            }
        });
        asked.boxed()
    }

    fn resources(&self) -> BoxFuture<'static, Result<Vec<Discovered>, String>> {
        let client = self.client.clone();
        async move { all_resources(&client).await.map_err(|error| error.to_string()) }.boxed()
    }
}

/// Events come from a watch in pieces; a list is told as one.
fn told<K: ResourceExt + Serialize + Send + 'static>(
    events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static,
) -> BoxStream<'static, Event> {
    let events = events.scan(Vec::new(), |listed: &mut Vec<Item>, event| {
        let told = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                None
            }
            Ok(watcher::Event::InitApply(object)) => {
                listed.extend(item(&object));
                None
            }
            Ok(watcher::Event::InitDone) => Some(Event::Listed(std::mem::take(listed))),
            Ok(watcher::Event::Apply(object)) => item(&object).map(Event::Applied),
            Ok(watcher::Event::Delete(object)) => item(&object).map(Event::Deleted),
            Err(error) => {
                tracing::debug!(%error, "a watch was interrupted and goes on");
                // A resource that is gone does not come back to this watch.
                return std::future::ready(if is_gone(&error) { None } else { Some(None) });
            }
        };
        std::future::ready(Some(told))
    });
    events.filter_map(std::future::ready).boxed()
}

fn is_gone(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

fn item(object: &(impl ResourceExt + Serialize)) -> Option<Item> {
    let json = serde_json::to_vec(object).ok()?;
    Some(Item {
        namespace: object.namespace().unwrap_or_default().into(),
        name: object.name_any().into(),
        uid: object.uid().unwrap_or_default().into(),
        revision: object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0),
        json: json.into(),
    })
}

/// All resources of all versions. The first version of a group that has a resource is the preferred one for it.
async fn all_resources(client: &Client) -> Result<Vec<Discovered>, kube::Error> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut found: Vec<Discovered> = Vec::new();
    for group in discovery.groups() {
        let first = found.len();
        let preferred = group.preferred_version();
        let mut versions: Vec<&str> = group.versions().collect();
        versions.sort_by_key(|version| Some(*version) != preferred);
        for version in versions {
            for (resource, able) in group.versioned_resources(version) {
                let known = found[first..].iter().any(|other| other.resource.plural == resource.plural);
                found.push(Discovered {
                    namespaced: able.scope == Scope::Namespaced,
                    verbs: able.operations.iter().map(|verb| verb.as_str().into()).collect(),
                    preferred: !known,
                    resource,
                });
            }
        }
    }
    Ok(found)
}
