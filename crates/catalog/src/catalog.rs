//! All that is served, as one thing that changes in steps.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rkube_kinds::Kind;
use rkube_kinds::custom::Definition;
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, changes};
use rkube_store::Store;

use crate::cache::{Cache, Error};
use crate::resource::Resource;
use crate::served::Served;
use crate::versions::{Converter, Versions};

/// What is served, now and later.
pub struct Catalog {
    cache: Arc<Cache>,
    current: ArcSwap<Snapshot>,
    /// Held while kinds are added or removed.
    changing: tokio::sync::Mutex<()>,
    /// The generation of the current snapshot, for those who wait for the next.
    generation: changes::Sender<u64>,
}

/// What is served at one moment, found by group, version and resource.
#[derive(Default)]
pub struct Snapshot {
    /// Raised with every change.
    pub generation: u64,
    all: Vec<Arc<Served>>,
    /// By the name of the resource; few groups and versions share one.
    by_name: HashMap<Text, Vec<Arc<Served>>>,
}

impl Catalog {
    /// Serves these kinds, with what the store holds of them.
    pub async fn start(
        store: Arc<dyn Store>,
        kinds: &[Arc<Kind>],
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Catalog>, Error> {
        let cache = Cache::start(store, storage_kinds(kinds), clock).await?;
        let served = |kind: &Arc<Kind>| Arc::new(Served::new(kind.clone(), cache.resource(&kind.storage_prefix)));
        let snapshot = Snapshot::new(1, kinds.iter().map(served).collect());
        Ok(Arc::new(Catalog {
            cache,
            current: ArcSwap::from_pointee(snapshot),
            changing: tokio::sync::Mutex::default(),
            generation: changes::Sender::new(1),
        }))
    }

    /// What is served now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Tells of every new snapshot.
    pub fn generations(&self) -> changes::Receiver<u64> {
        self.generation.subscribe()
    }

    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// A kind that is served now.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Served>> {
        self.current.load().find(group, version, resource).cloned()
    }

    /// The stored objects of a resource, where it is served and has any.
    pub fn resource(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Resource>> {
        self.current.load().resource(group, version, resource)
    }

    /// Serves the versions of a definition instead of whatever was served of its resource. Watches of what was served
    /// before end. Without a converter versions differ in nothing but their name.
    pub async fn replace(&self, definition: Definition, converter: Option<Arc<dyn Converter>>) -> Result<(), Error> {
        let _changing = self.changing.lock().await;
        let resource = self.cache.add(definition.stored.clone()).await?;
        let versions = Arc::new(Versions::of(&definition, converter));
        let Definition { stored, versions: served, .. } = definition;
        let served = served.into_iter().map(|kind| Arc::new(Served::custom(kind, &resource, &versions)));
        self.exchange(&stored.group, &stored.resource, served.collect());
        Ok(())
    }

    /// Serves a resource no more. Its watches end; its objects stay in the store.
    pub async fn remove(&self, group: &str, resource: &str) {
        let _changing = self.changing.lock().await;
        let before = self.snapshot();
        let served = before.all.iter().find(|served| served.kind.is(group, resource));
        // A custom resource is kept also while none of its versions is served.
        let prefix = served.map(|served| served.kind.storage_prefix.clone());
        let prefix = prefix.unwrap_or_else(|| format!("{group}/{resource}").into());
        self.exchange(group, resource, Vec::new());
        self.cache.remove(&prefix).await;
    }

    fn exchange(&self, group: &str, resource: &str, served: Vec<Arc<Served>>) {
        let before = self.snapshot();
        let kept = before.all.iter().filter(|served| !served.kind.is(group, resource)).cloned();
        let snapshot = Snapshot::new(before.generation + 1, kept.chain(served).collect());
        let generation = snapshot.generation;
        self.current.store(Arc::new(snapshot));
        self.generation.send_replace(generation);
    }
}

/// The kinds in whose form objects are stored, one per place. That version may itself not be served.
fn storage_kinds(kinds: &[Arc<Kind>]) -> Vec<Arc<Kind>> {
    let mut found: Vec<Arc<Kind>> = Vec::new();
    let candidates = || kinds.iter().chain(rkube_kinds::all());
    for kind in kinds.iter().filter(|kind| !kind.storage_prefix.is_empty()) {
        let same = |other: &&Arc<Kind>| other.storage_prefix == kind.storage_prefix;
        if found.iter().any(|known| same(&known)) {
            continue;
        }
        found.extend(candidates().filter(same).find(|other| other.conversion.is_none()).cloned());
    }
    found
}

impl Snapshot {
    /// These kinds without a store: nothing ever comes into their resources.
    pub fn unfed(kinds: &[Arc<Kind>]) -> Snapshot {
        let shared = crate::cache::Shared::new(storage_kinds(kinds));
        let resource = |kind: &Kind| shared.find(&crate::resource::prefix_of(&kind.storage_prefix));
        let served = |kind: &Arc<Kind>| Arc::new(Served::new(kind.clone(), resource(kind)));
        Snapshot::new(0, kinds.iter().map(served).collect())
    }

    fn new(generation: u64, all: Vec<Arc<Served>>) -> Snapshot {
        let mut by_name: HashMap<Text, Vec<Arc<Served>>> = HashMap::with_capacity(all.len());
        for served in &all {
            by_name.entry(served.kind.resource.clone()).or_default().push(served.clone());
        }
        Snapshot { generation, all, by_name }
    }

    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Served>> {
        let mut found = self.by_name.get(resource)?.iter();
        found.find(|served| served.kind.group == group && served.kind.version == version)
    }

    /// All that is served under this name of a resource, in any group and version.
    pub fn named(&self, resource: &str) -> &[Arc<Served>] {
        self.by_name.get(resource).map(Vec::as_slice).unwrap_or_default()
    }

    /// The stored objects of a resource, where it is served and has any.
    pub fn resource(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Resource>> {
        self.find(group, version, resource).and_then(|served| served.cache.clone())
    }

    pub fn all(&self) -> &[Arc<Served>] {
        &self.all
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.all.iter().any(|served| served.kind.group == group && served.kind.version == version)
    }

    /// Whether the group has kinds that are built in.
    pub fn has_builtin_group(&self, group: &str) -> bool {
        self.all.iter().any(|served| served.kind.group == group && !served.is_custom())
    }
}
