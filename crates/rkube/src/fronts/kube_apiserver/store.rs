//! Where objects are kept: where the `etcd` beside us says, or in a real etcd.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rkube_store::embedded::OpenOptions;
use rkube_store::{Embedded, Store};

use crate::cli::EtcdFiles;
use crate::fronts::flags::Given;
use crate::fronts::handover::{self, Handover};
use crate::host::SystemEntropy;
use crate::stores;

/// So long a server waits for the one before it to let go of the store: that one may just be ending.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Opened {
    pub store: Arc<dyn Store>,
    /// Whether others write to it, too.
    pub is_shared: bool,
}

pub async fn open(given: &Given) -> anyhow::Result<Opened> {
    let urls = given.list("etcd-servers");
    let first = urls.first().context("--etcd-servers must be specified")?;
    match handover::ask(first, &SystemEntropy).await? {
        Some(handover) => Ok(Opened { store: embedded(&handover).await?, is_shared: false }),
        None => {
            let path = |name| given.text(name).map(Into::into);
            let files = EtcdFiles {
                etcd_cafile: path("etcd-cafile"),
                etcd_certfile: path("etcd-certfile"),
                etcd_keyfile: path("etcd-keyfile"),
            };
            Ok(Opened { store: stores::etcd(&urls, &files).await?, is_shared: true })
        }
    }
}

async fn embedded(handover: &Handover) -> anyhow::Result<Arc<dyn Store>> {
    let directory = handover.store_directory();
    let options = OpenOptions {
        is_synced: handover.is_synced,
        lock_timeout: RELEASE_TIMEOUT,
        // Test environments are thrown away: nobody has to find room in them.
        reserve_bytes: 0,
        ..OpenOptions::default()
    };
    let opened = Embedded::open(&directory, options).await;
    Ok(Arc::new(opened.with_context(|| format!("cannot open the store in {}", directory.display()))?))
}
