//! Carries out a migration that has its turn.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use rkube_machinery::host::Clock;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Action, Caches, Discovered, Error, Informer, Key};
use serde::Deserialize;
use serde_json::{Value, json};

use super::plan::{self, Found};
use super::view::Migration;
use super::{NAME, status_path};
use crate::requests::{self, escaped, is_conflict, message};

/// How often it is looked whether a resource has come.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Objects are listed in parts of so many.
const PAGE: usize = 500;
/// So many are written at a time.
const WRITES_AT_ONCE: usize = 32;
/// A namespace that cannot be: its list is empty, and still says how far the store has come.
const NO_NAMESPACE: &str = "@fake:svm_ns!";

pub struct Migrator {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub caches: Caches,
    pub migrations: Arc<Informer<Migration>>,
}

impl Migrator {
    pub async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let Some(migration) = self.migrations.get("", &key.name) else { return Ok(Action::done()) };
        if !migration.is_running() || migration.is_over() {
            return Ok(Action::done());
        }
        let served = self.caches.source().resources().await.map_err(Error::text)?;
        let age = self.clock.now_seconds() - migration.created;
        let resource = match plan::find(&migration.of, &served, age) {
            Found::Resource(resource) => resource,
            Found::NotYet => return Ok(Action::done().requeue_after(LOOK_PERIOD)),
            Found::Never(why) => {
                self.write(&migration, |whole, now| plan::fail(whole, &why, now)).await?;
                return Ok(Action::wrote());
            }
        };
        match migration.until {
            None => {
                let revision = self.latest_revision(resource).await?;
                self.write(&migration, |whole, _| whole["status"]["resourceVersion"] = revision.into()).await?;
            }
            Some(until) => match self.migrate(resource, until).await {
                Ok(()) => self.write(&migration, plan::succeed).await?,
                Err(error) if is_temporary(&error) => return Err(error.into()),
                Err(error) => {
                    let why = format!("migration encountered unhandled error: {}", message(&error));
                    self.write(&migration, |whole, now| plan::fail(whole, &why, now)).await?;
                }
            },
        }
        Ok(Action::done())
    }

    async fn latest_revision(&self, resource: &Discovered) -> Result<String, kube::Error> {
        let namespace = if resource.namespaced { NO_NAMESPACE } else { "" };
        let list = requests::list_metadata(&self.client, &format!("{}?limit=1", path(resource, namespace))).await?;
        Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    }

    /// Writes all objects again that were last written at this revision or before.
    async fn migrate(&self, resource: &Discovered, until: u64) -> Result<(), kube::Error> {
        let mut next = String::new();
        loop {
            let query = format!("{}?limit={PAGE}&continue={}", path(resource, ""), escaped(&next));
            let list = requests::list_metadata(&self.client, &query).await?;
            let page: Page = serde_json::from_value(list).map_err(kube::Error::SerdeError)?;
            let old = page.items.into_iter().map(|item| item.metadata).filter(|object| !object.is_newer_than(until));
            let mut written =
                stream::iter(old.map(|object| self.rewrite(resource, object))).buffer_unordered(WRITES_AT_ONCE);
            while let Some(outcome) = written.next().await {
                outcome?;
            }
            next = page.metadata.next;
            if next.is_empty() {
                return Ok(());
            }
        }
    }

    /// Applies nothing. If the object changed or went meanwhile there is no need to.
    async fn rewrite(&self, resource: &Discovered, object: Metadata) -> Result<(), kube::Error> {
        let body = json!({
            "apiVersion": resource.resource.api_version,
            "kind": resource.resource.kind,
            "metadata": { "uid": object.uid, "resourceVersion": object.resource_version },
        });
        let path = format!("{}/{}", path(resource, &object.namespace), escaped(&object.name));
        match requests::apply(&self.client, &path, NAME, &body).await {
            Err(error) if is_conflict(&error) => Ok(()),
            applied => applied.map(drop),
        }
    }

    /// Writes the status. `change` gets the time as well.
    async fn write(&self, migration: &Migration, change: impl FnOnce(&mut Value, i64)) -> Result<(), Error> {
        let mut whole = requests::whole(&migration.item)?;
        change(&mut whole, self.clock.now_seconds());
        requests::replace(&self.client, &status_path(&migration.item.name), &whole).await?;
        Ok(())
    }
}

/// Of a resource, or of its part in a namespace.
fn path(resource: &Discovered, namespace: &str) -> String {
    let kind = &resource.resource;
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{}", escaped(namespace)) };
    format!("/{root}/{}{place}/{}", kind.api_version, kind.plural)
}

/// Whether the same may go well later.
fn is_temporary(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500..),
        _ => true,
    }
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Partial>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Partial {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

impl Metadata {
    fn is_newer_than(&self, until: u64) -> bool {
        self.resource_version.parse::<u64>().is_ok_and(|revision| revision > until)
    }
}
