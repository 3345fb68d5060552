//! Removes from StorageVersions what API servers have written there that are gone, and StorageVersions in which no server is
//! left. Watches StorageVersions and the Leases by which API servers say that they are there. Runs where the gate
//! `StorageVersionAPI` is on and the kind is served.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use rkube_machinery::Text;
use rkube_machinery::host::Clock;
use rkube_operator::kube::Client;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Discovered, Error, Informer, Item, Key, Outcome, Queue, Selection};

use crate::Context;
use crate::requests::{self, is_not_found};
use plan::Change;

const NAME: &str = "storageversion-garbage-collector-controller";
const WORKERS: usize = 1;
const GROUP: &str = "internal.apiserver.k8s.io";
const PLURAL: &str = "storageversions";
const NAMESPACE: &str = "kube-system";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Who has a Lease.
const IDENTITY: &str = "apiserver.kubernetes.io/identity";
const API_SERVER: &str = "kube-apiserver";

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let Some(resource) = served(&caches.source().resources().await.unwrap_or_default()) else {
        tracing::info!("storageversions are not served: there are none to collect");
        return std::future::pending().await;
    };
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    let versions = caches.view(&resource, Selection::default(), |item: &Item| Some(item.clone()));
    let versions = versions.on_change(move |change| {
        if change.new.is_some() {
            adding.add(change.key.clone());
        }
    });
    let versions = Arc::new(versions);
    let (adding, known) = (queue.clone(), versions.clone());
    let selection = Selection {
        namespace: Some(NAMESPACE.into()),
        labels: Some(Text::from(format!("{IDENTITY}={API_SERVER}"))),
        metadata_only: true,
        ..Selection::default()
    };
    let leases =
        caches.view(&ApiResource::erase::<Lease>(&()), selection, |_: &Item| Some(())).on_change(move |change| {
            if change.new.is_none() {
                known.keys().into_iter().for_each(|key| adding.add(key));
            }
        });
    leases.synced().await;
    versions.synced().await;
    let collector = Arc::new(Collector {
        client,
        clock,
        versions,
        leases,
        path: format!("/apis/{}/{PLURAL}", resource.api_version),
    });
    rkube_operator::run(NAME, queue, WORKERS, move |key: Key| {
        let collector = collector.clone();
        async move { collector.reconcile(&key).await }
    })
    .await;
}

fn served(all: &[Discovered]) -> Option<ApiResource> {
    let fits = |found: &&Discovered| found.resource.group == GROUP && found.resource.plural == PLURAL;
    all.iter().find(fits).map(|found| found.resource.clone())
}

struct Collector {
    client: Client,
    clock: Arc<dyn Clock>,
    versions: Arc<Informer<Item>>,
    leases: Informer<()>,
    path: String,
}

impl Collector {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(item) = self.versions.get("", &key.name) else { return Ok(Outcome::Unchanged) };
        let version = requests::whole(&item)?;
        let mut gone = Vec::new();
        for server in plan::servers(&version) {
            // A server that has just come may not be in the cache yet.
            if self.leases.get(NAMESPACE, &server).is_none() && !self.is_there(&server).await? {
                gone.push(server);
            }
        }
        let path = format!("{}/{}", self.path, key.name);
        match plan::without(version, &gone, self.clock.now_seconds()) {
            Change::None => return Ok(Outcome::Unchanged),
            Change::Delete => match requests::delete(&self.client, &path).await {
                Err(error) if is_not_found(&error) => {}
                deleted => drop(deleted?),
            },
            Change::Status(version) => {
                drop(requests::replace(&self.client, &format!("{path}/status"), &version).await?)
            }
        }
        Ok(Outcome::Wrote)
    }

    /// Whether an API server has a Lease of this name.
    async fn is_there(&self, server: &str) -> Result<bool, Error> {
        match requests::get_value(&self.client, &format!("{LEASES}/{}", requests::escaped(server))).await {
            Err(error) if is_not_found(&error) => Ok(false),
            lease => Ok(lease?["metadata"]["labels"][IDENTITY] == API_SERVER),
        }
    }
}
