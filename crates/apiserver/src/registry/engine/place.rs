//! Where an object is in the store, and the only ways to read it past the cache, to put it and to remove it there. Dry
//! runs, leases, the largest size and conflicts are known here and nowhere else.

use std::sync::Arc;

use rkube_catalog::{Entry, Object, Resource};
use rkube_machinery::host::Clock;
use rkube_machinery::{Status, Value};
use rkube_store::{self as store, Expect, Guard, Revision, Store};

use super::lease::Leases;
use super::{Seen, Verdict};

/// Objects may not be larger in the store than a request may be.
const VALUE_MAX: usize = 3 * 1024 * 1024;

/// What objects are written with.
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Whether others write to the store, too: then the cache may lag behind it.
    cache_may_lag: bool,
    leases: Leases,
}

impl Engine {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, cache_may_lag: bool) -> Engine {
        Engine { store, clock, cache_may_lag, leases: Leases::default() }
    }
}

/// One object's place among those of its kind, whether it is there or not.
pub struct Place<'a> {
    engine: &'a Engine,
    resource: &'a Resource,
    key: Arc<str>,
    /// Whether writes are only tried.
    dry_run: bool,
}

impl<'a> Place<'a> {
    pub fn new(engine: &'a Engine, resource: &'a Resource, key: String, dry_run: bool) -> Place<'a> {
        Place { engine, resource, key: key.into(), dry_run }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// What holds while this entry is the object's.
    pub fn guard(&self, entry: &Entry) -> Guard {
        Guard { key: self.key.clone(), revision: entry.revision }
    }

    /// What a first attempt starts from.
    pub fn cached(&self) -> Seen {
        Seen { entry: self.resource.get(&self.key), is_current: !self.engine.cache_may_lag }
    }

    /// The object: from the cache, or from the store where the cache may not have it yet.
    pub async fn find(&self) -> Result<Option<Entry>, Status> {
        match self.resource.get(&self.key) {
            None if self.engine.cache_may_lag => self.read().await,
            found => Ok(found),
        }
    }

    /// The object as the store has it now, past any cache.
    pub async fn read(&self) -> Result<Option<Entry>, Status> {
        let (found, _) = self.engine.store.get(&self.key).await.map_err(store_error)?;
        let Some(item) = found else { return Ok(None) };
        let object = Object::parse(&item.value, &self.resource.kind)
            .map_err(|error| Status::internal(format!("the stored object cannot be read: {error}")))?;
        Ok(Some(Entry::new(Arc::new(object), item.mod_revision)))
    }

    /// An object (in the stored version) as it is kept.
    pub fn kept_form(&self, value: &Value) -> Arc<Object> {
        Arc::new(Object::new(value, &self.resource.kind))
    }

    /// Puts an object (in the stored version) there.
    pub async fn put(&self, value: Value, expect: Expect) -> Result<Verdict<Entry>, Status> {
        let object = self.kept_form(&value);
        // The tree is still in this core's cache, and another request can use its memory while this one waits.
        drop(value);
        self.put_object(object, expect).await
    }

    /// Puts an object there. A dry run leaves it at the revision of the one that it would replace.
    pub async fn put_object(&self, object: Arc<Object>, expect: Expect) -> Result<Verdict<Entry>, Status> {
        let put = self.put_guarded(object, expect, None).await?;
        Ok(put.unwrap_or(Verdict::Overtaken))
    }

    /// The same; `None` if what guards it has changed.
    pub async fn put_guarded(
        &self,
        object: Arc<Object>,
        expect: Expect,
        guard: Option<Guard>,
    ) -> Result<Option<Verdict<Entry>>, Status> {
        if self.dry_run {
            return self.try_put(object, expect).await.map(Some);
        }
        if object.size() > VALUE_MAX {
            return Err(Status::request_too_large("limit is 3145728"));
        }
        let lease = match self.resource.kind.time_to_live_seconds {
            Some(seconds) => {
                let Engine { store, clock, leases, .. } = self.engine;
                Some(leases.current(&**store, seconds, clock.now_seconds()).await.map_err(store_error)?)
            }
            None => None,
        };
        let change = store::Change::Put { value: object.stored(), lease, note: Some(object.clone()) };
        let written = self.commit(expect, change, guard).await?;
        Ok(written.map(|written| written.map(|revision| Entry::new(object, revision))))
    }

    async fn try_put(&self, object: Arc<Object>, expect: Expect) -> Result<Verdict<Entry>, Status> {
        let revision = match expect {
            Expect::Revision(revision) => revision,
            Expect::Anything => 0,
            Expect::Absent => {
                let other = if self.engine.cache_may_lag { self.read().await? } else { self.resource.get(&self.key) };
                if other.is_some() {
                    return Ok(Verdict::Overtaken);
                }
                0
            }
        };
        Ok(Verdict::Decided(Entry::new(object, revision)))
    }

    /// Removes the object if it still has this revision. Gives that of the removal.
    pub async fn remove(&self, revision: Revision) -> Result<Verdict<Revision>, Status> {
        if self.dry_run {
            return Ok(Verdict::Decided(revision));
        }
        let removed = self.commit(Expect::Revision(revision), store::Change::Delete, None).await?;
        Ok(removed.unwrap_or(Verdict::Overtaken))
    }

    /// `None` if what guards the object has changed.
    async fn commit(
        &self,
        expect: Expect,
        change: store::Change,
        guard: Option<Guard>,
    ) -> Result<Option<Verdict<Revision>>, Status> {
        match self.engine.store.write(store::Write { key: self.key.clone(), expect, change, guard }).await {
            Ok(revision) => Ok(Some(Verdict::Committed(revision))),
            Err(store::Error::Conflict { .. }) => Ok(Some(Verdict::Overtaken)),
            Err(store::Error::Guarded { .. }) => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }
}

/// The store's errors as clients see them. Conflicts are handled where they arise.
pub fn store_error(error: store::Error) -> Status {
    match error {
        store::Error::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        store::Error::Unavailable(_) => Status::service_unavailable(error.to_string()).with_retry_after(1),
        other => Status::internal(other.to_string()),
    }
}
