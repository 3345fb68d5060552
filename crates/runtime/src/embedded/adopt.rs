//! What an earlier life of this process left: found again, or cleared away.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::client;
use super::sandbox::internal;
use super::state::{
    CONTAINER_FILE, Container, ContainerFile, ContainerLife, SANDBOX_FILE, Sandbox, SandboxFile, read_json,
};
use crate::api::Result;
use crate::remove_tree;
use crate::shim::Request;

/// How long a shim may take to answer when it is found again; one that takes longer counts as gone.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

impl Inner {
    pub(super) async fn adopt(self: &Arc<Self>) -> Result<()> {
        for directory in [self.sandboxes_directory(), self.containers_directory(), self.config.run_directory.clone()] {
            std::fs::create_dir_all(&directory).map_err(internal("make the runtime's directories"))?;
        }
        private(&self.config.run_directory).map_err(internal("close the run directory to others"))?;
        private(&self.config.data_directory).map_err(internal("close the data directory to others"))?;
        self.load();
        let sandboxes: Vec<_> = self.sandboxes.lock().values().cloned().collect();
        for sandbox in &sandboxes {
            let watched = tokio::time::timeout(ANSWER_PATIENCE, self.watch_shim(sandbox)).await;
            if !matches!(watched, Ok(Ok(()))) {
                // What it was cannot be brought back: whoever asks is told, and removes it.
                sandbox.life.lock().stopping = true;
                self.shim_lost(sandbox).await;
            }
        }
        self.clear_strangers().await?;
        let alive = sandboxes.iter().filter(|sandbox| sandbox.pause().is_some());
        self.config.network.retain(alive.map(|sandbox| sandbox.id.clone()).collect()).await
    }

    fn load(&self) {
        for id in names(&self.sandboxes_directory()) {
            let directory = self.sandboxes_directory().join(&id);
            match read_json::<SandboxFile>(&directory.join(SANDBOX_FILE)).filter(|file| file.id == id) {
                Some(file) => {
                    let run_directory = self.config.run_directory.join(&id);
                    self.sandboxes.lock().insert(id, Arc::new(Sandbox::new(file, run_directory)));
                }
                // Its maker did not get as far as to write it down: so nothing else was made.
                None => drop(remove_tree(&directory)),
            }
        }
        for id in names(&self.containers_directory()) {
            let directory = self.containers_directory().join(&id);
            match read_json::<ContainerFile>(&directory.join(CONTAINER_FILE)).filter(|file| file.id == id) {
                Some(file) => {
                    let container = Container::new(file, ContainerLife::without_shim(&directory));
                    self.containers.lock().insert(id, Arc::new(container));
                }
                None => drop(remove_tree(&directory)),
            }
        }
    }

    /// Roots and shims of which nothing is written down.
    async fn clear_strangers(&self) -> Result<()> {
        let known: BTreeSet<String> = self.containers.lock().keys().cloned().collect();
        for id in self.config.images.prepared().await?.into_iter().filter(|id| !known.contains(id)) {
            self.config.images.release(&id).await?;
        }
        let known: BTreeSet<String> = self.sandboxes.lock().keys().cloned().collect();
        for id in names(&self.config.run_directory).into_iter().filter(|id| !known.contains(id)) {
            let directory = self.config.run_directory.join(&id);
            let asked = client::ask(&directory, &Request::Shutdown);
            let _gone_already = tokio::time::timeout(ANSWER_PATIENCE, asked).await;
            remove_tree(&directory).map_err(internal("remove what a sandbox left"))?;
        }
        Ok(())
    }
}

/// What is in a directory under a name that is an id.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())).collect()
}

fn private(directory: &Path) -> std::io::Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(directory, mode)
}
