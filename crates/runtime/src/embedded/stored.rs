//! Images as this node's store has them.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::images::{Images, Prepared};
use crate::api::{Credentials, Error, FilesystemUsage, Image, ImageFilesystem, Result};
use crate::images::{self, Registries, Snapshots, Store};

/// Has an image ready under its reference.
pub type Pull = Arc<dyn Fn(String, Option<Credentials>) -> BoxFuture<'static, Result<Image>> + Send + Sync>;

/// From the registries that names say, or their mirrors.
pub fn pull_from(store: &Store, registries: Registries) -> Pull {
    let store = store.clone();
    Arc::new(move |reference, credentials| {
        let (store, registries) = (store.clone(), registries.clone());
        async move {
            let progress = Arc::new(images::no_progress);
            Ok(store.pull(&reference, credentials, &registries, progress).await?)
        }
        .boxed()
    })
}

pub struct StoredImages {
    store: Store,
    snapshots: Snapshots,
    pull: Pull,
}

impl StoredImages {
    pub fn new(store: Store, pull: Pull) -> Self {
        let snapshots = Snapshots::of(&store);
        Self { store, snapshots, pull }
    }

    /// Leaves what waits for the disk to another thread.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &Snapshots) -> images::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (store, snapshots) = (self.store.clone(), self.snapshots.clone());
        async move {
            let done = tokio::task::spawn_blocking(move || work(&store, &snapshots)).await;
            Ok(done.map_err(|error| Error::Internal(error.to_string()))??)
        }
        .boxed()
    }
}

impl Images for StoredImages {
    fn prepare<'a>(&'a self, container: &'a str, image_id: &'a str) -> BoxFuture<'a, Result<Prepared>> {
        let (container, id) = (container.to_owned(), image_id.to_owned());
        self.with(move |store, snapshots| {
            let config = store.config_of(&id)?;
            let image = store.find(&id)?;
            let root = snapshots.prepare(&container, &id)?;
            let image_ref = image.and_then(|image| image.digests.into_iter().next()).unwrap_or(id);
            Ok(Prepared {
                root,
                entrypoint: config.entrypoint,
                command: config.command,
                environment: config.environment,
                user: config.user,
                working_directory: config.working_directory,
                stop_signal: config.stop_signal,
                image_ref,
            })
        })
    }

    fn release<'a>(&'a self, container: &'a str) -> BoxFuture<'a, Result<()>> {
        let container = container.to_owned();
        self.with(move |_, snapshots| snapshots.remove(&container))
    }

    fn prepared(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.with(|_, snapshots| snapshots.list())
    }

    fn usage<'a>(&'a self, container: &'a str) -> BoxFuture<'a, Result<FilesystemUsage>> {
        let container = container.to_owned();
        self.with(move |_, snapshots| {
            let usage = snapshots.usage(&container)?;
            Ok(FilesystemUsage { used_bytes: usage.bytes, used_inodes: usage.inodes })
        })
    }

    fn pull<'a>(&'a self, reference: &'a str, credentials: Option<Credentials>) -> BoxFuture<'a, Result<Image>> {
        (self.pull)(reference.to_owned(), credentials)
    }

    fn find<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Option<Image>>> {
        futures::future::ready(self.store.find(reference).map_err(Error::from)).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Image>>> {
        futures::future::ready(self.store.list().map_err(Error::from)).boxed()
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        let id = id.to_owned();
        self.with(move |store, _| store.remove(&id))
    }

    fn filesystem(&self) -> BoxFuture<'_, Result<ImageFilesystem>> {
        self.with(|store, _| store.filesystem())
    }
}
