//! The source over the network: watches and discovery through a client.

mod answers;
mod lines;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use kube::core::ApiResource;
use kube::discovery::{Discovery, Scope};

use crate::source::{Discovered, Event, Selection, Source};
use watch::Watch;

/// How often discovery is asked; upstream's.
const DISCOVER_PERIOD: Duration = Duration::from_secs(30);

pub struct NetworkSource {
    client: Client,
    /// Whether the server can send what is there as events of a watch; so until it says otherwise.
    streams_lists: Arc<AtomicBool>,
}

impl NetworkSource {
    pub fn new(client: Client) -> NetworkSource {
        NetworkSource { client, streams_lists: Arc::new(AtomicBool::new(true)) }
    }
}

impl Source for NetworkSource {
    fn follow(&self, resource: &ApiResource, selection: &Selection) -> BoxStream<'static, Event> {
        let watch = Watch::new(self.client.clone(), resource, selection, self.streams_lists.clone());
        stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) }).boxed()
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
