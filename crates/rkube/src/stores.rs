//! Opening the store that `--store` names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rkube_store::embedded::OpenOptions;
use rkube_store::etcd::EtcdOptions;
use rkube_store::{Embedded, Etcd, Memory, Store};

use crate::cli::{EtcdFiles, Up};
use crate::flags::StoreChoice;

/// Where the embedded store lies in a data directory.
pub fn directory(data_directory: &Path) -> PathBuf {
    data_directory.join("store")
}

/// `url` is where this process serves, for whoever finds the directory in use.
pub async fn open(options: &Up, data_directory: &Path, url: &str) -> anyhow::Result<Arc<dyn Store>> {
    match &options.store {
        StoreChoice::Memory => Ok(Arc::new(Memory::new())),
        StoreChoice::Embedded => {
            let directory = directory(data_directory);
            let open = OpenOptions { holder: format!("pid {}, {url}", std::process::id()), ..OpenOptions::default() };
            let store = Embedded::open(&directory, open)
                .await
                .with_context(|| format!("cannot open the store in {}", directory.display()))?;
            Ok(Arc::new(store))
        }
        StoreChoice::Etcd(urls) => etcd(urls, &options.etcd).await,
    }
}

pub async fn etcd(urls: &[String], files: &EtcdFiles) -> anyhow::Result<Arc<dyn Store>> {
    let store = Etcd::connect(&etcd_options(urls, files)?).await;
    Ok(Arc::new(store.with_context(|| format!("cannot use the etcd at {}", urls.join(", ")))?))
}

fn etcd_options(urls: &[String], files: &EtcdFiles) -> anyhow::Result<EtcdOptions> {
    let read = |path: &Option<PathBuf>| {
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        path.as_ref().map(read).transpose()
    };
    Ok(EtcdOptions {
        endpoints: urls.to_vec(),
        certificate_authority: read(&files.etcd_cafile)?,
        certificate: read(&files.etcd_certfile)?,
        key: read(&files.etcd_keyfile)?,
        ..EtcdOptions::default()
    })
}
