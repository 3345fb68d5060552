//! Node ports: each that is taken is a key in the store, whose creation is the taking. Upstream keeps all of them in one
//! record, by which writers everywhere get in each other's way; what a key per port costs is a few bytes.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use rkube_kinds::service::pools::{PoolError, PortRange};
use rkube_machinery::host::Entropy;
use rkube_store::{self as store, Change, Expect, RangeQuery, Store, Write};

use super::addresses::Owner;

/// Each key is this and a port; its value is the service that has it, as `namespace/name`.
const PREFIX: &str = "/registry/ranges/servicenodeports/";

pub struct NodePorts {
    pub range: PortRange,
    /// Ports that are probably taken: where to look last for a free one. The store alone knows.
    known: Mutex<BTreeSet<u16>>,
}

impl NodePorts {
    pub fn new(range: PortRange) -> NodePorts {
        NodePorts { range, known: Mutex::default() }
    }

    /// Takes this port.
    pub async fn take(&self, store: &dyn Store, port: i64, owner: &Owner) -> Result<(), PoolError> {
        let port = self.range.check(port)?;
        self.create(store, port, owner).await
    }

    /// Takes any port.
    pub async fn take_any(&self, store: &dyn Store, entropy: &dyn Entropy, owner: &Owner) -> Result<i64, PoolError> {
        let mut is_current = false;
        loop {
            let picked = {
                let known = self.known.lock();
                self.range.pick(entropy.next_u64(), |port| !known.contains(&port))
            };
            match picked {
                Some(port) => match self.create(store, port, owner).await {
                    Ok(()) => return Ok(i64::from(port)),
                    Err(PoolError::PortTaken) => {}
                    Err(error) => return Err(error),
                },
                None if is_current => return Err(PoolError::Full),
                None => {
                    self.load(store).await?;
                    is_current = true;
                }
            }
        }
    }

    /// Frees the port if this service has it.
    pub async fn release(&self, store: &dyn Store, port: i64, owner: &Owner) {
        let Ok(number) = u16::try_from(port) else { return };
        let freed = async {
            let (found, _) = store.get(&key(number)).await?;
            match found.filter(|item| item.value == text(owner)) {
                Some(item) => remove(store, number, Expect::Revision(item.mod_revision)).await,
                None => Ok(()),
            }
        };
        match freed.await {
            Ok(()) => drop(self.known.lock().remove(&number)),
            Err(error) => tracing::warn!(port, %error, "cannot free a service's node port"),
        }
    }

    /// Frees the port whoever has it.
    pub async fn clean(&self, store: &dyn Store, port: u16) -> store::Result<()> {
        remove(store, port, Expect::Anything).await?;
        self.known.lock().remove(&port);
        Ok(())
    }

    /// Who has the port.
    pub async fn owner(&self, store: &dyn Store, port: i64) -> Result<Option<String>, PoolError> {
        let Ok(port) = u16::try_from(port) else { return Ok(None) };
        let (found, _) = store.get(&key(port)).await.map_err(failed)?;
        Ok(found.map(|item| String::from_utf8_lossy(&item.value).into_owned()))
    }

    /// All ports that are taken, and who has them.
    pub async fn load(&self, store: &dyn Store) -> Result<BTreeMap<u16, String>, PoolError> {
        let range = store.range(RangeQuery::prefix(PREFIX)).await.map_err(failed)?;
        let ports = range.items.iter().filter_map(|item| {
            let port = item.key.strip_prefix(PREFIX)?.parse().ok()?;
            Some((port, String::from_utf8_lossy(&item.value).into_owned()))
        });
        let ports: BTreeMap<u16, String> = ports.collect();
        *self.known.lock() = ports.keys().copied().collect();
        Ok(ports)
    }

    pub async fn create(&self, store: &dyn Store, port: u16, owner: &Owner) -> Result<(), PoolError> {
        let change = Change::Put { value: text(owner).into(), lease: None, note: None };
        let made = store.write(Write { key: key(port).into(), expect: Expect::Absent, change, guard: None }).await;
        if matches!(made, Ok(_) | Err(store::Error::Conflict { .. })) {
            self.known.lock().insert(port);
        }
        match made {
            Ok(_) => Ok(()),
            Err(store::Error::Conflict { .. }) => Err(PoolError::PortTaken),
            Err(error) => Err(failed(error)),
        }
    }
}

async fn remove(store: &dyn Store, port: u16, expect: Expect) -> store::Result<()> {
    match store.write(Write { key: key(port).into(), expect, change: Change::Delete, guard: None }).await {
        Ok(_) | Err(store::Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn failed(error: store::Error) -> PoolError {
    PoolError::Failed(error.to_string())
}

fn key(port: u16) -> String {
    format!("{PREFIX}{port}")
}

fn text(owner: &Owner) -> String {
    format!("{}/{}", owner.namespace, owner.name)
}
