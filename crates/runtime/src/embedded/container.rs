//! Containers: created, started, stopped, removed.

use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::bundle::{self, Places};
use super::client;
use super::sandbox::{blocking, internal};
use super::state::{CONTAINER_FILE, Container, ContainerFile, ContainerLife, Sandbox, write_json};
use crate::api::{ContainerConfig, ContainerState, Error, Result};
use crate::cgroups;
use crate::remove_tree;
use crate::shim::{BUNDLE_FILE, Request};

/// How long a container may take to be gone after it was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(30);
/// How long a shim may take to start one.
const START_PATIENCE: Duration = Duration::from_secs(120);

impl Inner {
    pub(super) async fn create_container(self: &Arc<Self>, sandbox: &str, config: ContainerConfig) -> Result<String> {
        let not_found = || Error::NotFound(format!("failed to find sandbox id {sandbox:?}: not found"));
        let sandbox = self.sandbox(sandbox).ok_or_else(not_found)?;
        if !sandbox.is_ready() {
            return Err(Error::WrongState(format!("sandbox {:?} is not running", sandbox.id)));
        }
        let id = self.new_id();
        match self.make_container(&sandbox, &id, config).await {
            Ok(()) => Ok(id),
            Err(error) => {
                let _left_to_the_next_start = self.config.images.release(&id).await;
                let _left_to_the_next_start = remove_tree(&self.containers_directory().join(&id));
                Err(error)
            }
        }
    }

    async fn make_container(self: &Arc<Self>, sandbox: &Sandbox, id: &str, config: ContainerConfig) -> Result<()> {
        let directory = self.containers_directory().join(id);
        std::fs::create_dir_all(&directory).map_err(internal("make the container's directory"))?;
        let sandbox_config = sandbox.file.lock().config.clone();
        let log_path = sandbox_config.log_directory.join(&config.log_path);
        let cgroup = format!("{}/{id}", self.pod_cgroup(&sandbox_config));
        let mut file = ContainerFile {
            id: id.to_owned(),
            sandbox: sandbox.id.clone(),
            config,
            created_micros: self.now_micros(),
            image_ref: String::new(),
            stop_signal: 0,
            cgroup: cgroup.clone(),
            log_path: log_path.clone(),
        };
        let write = |file: &ContainerFile| {
            write_json(&directory.join(CONTAINER_FILE), file).map_err(internal("write down the container"))
        };
        write(&file)?;
        let prepared = self.config.images.prepare(id, &file.config.image_id).await?;
        file.stop_signal = bundle::stop_signal(&file.config, &prepared)?;
        file.image_ref.clone_from(&prepared.image_ref);
        let files_directory = self.sandboxes_directory().join(&sandbox.id);
        let run_directory = &sandbox.run_directory;
        let places = Places { id, run_directory, files_directory: &files_directory, cgroup, log: log_path };
        let bundle = bundle::make(&places, &sandbox_config, &file.config, &prepared)?;
        write_json(&directory.join(BUNDLE_FILE), &bundle).map_err(internal("write down the container"))?;
        write(&file)?;
        let container = Arc::new(Container::new(file, ContainerLife::created()));
        self.containers.lock().insert(id.to_owned(), container);
        Ok(())
    }

    pub(super) async fn start_container(&self, id: &str) -> Result<()> {
        let container = self.container(id)?;
        if container.state() != ContainerState::Created {
            return Err(Error::WrongState(format!("container {id:?} was started before")));
        }
        let (directory, request) = (self.run_directory_of(&container)?, Request::Start { id: id.to_owned() });
        let asked = client::ask(&directory, &request);
        let answered = tokio::time::timeout(START_PATIENCE, asked).await;
        let result = answered.map_err(|_| Error::TimedOut(format!("container {id:?} did not start in time")))?;
        if matches!(result, Ok(_) | Err(Error::StartFailed(_))) {
            // What the shim told us is seen by whoever looks from now on.
            wait_until(&container, KILL_PATIENCE, |state| state != ContainerState::Created).await;
        }
        result.map(drop)
    }

    pub(super) async fn stop_container(&self, id: &str, grace: Duration) -> Result<()> {
        let Ok(container) = self.container(id) else { return Ok(()) };
        if container.state() != ContainerState::Running {
            return Ok(());
        }
        if !grace.is_zero() {
            let signal = container.file.stop_signal;
            self.ask_of(&container, &Request::Signal { id: id.to_owned(), signal }).await?;
            if wait_until(&container, grace, is_over).await {
                return Ok(());
            }
        }
        self.ask_of(&container, &Request::Kill { id: id.to_owned() }).await?;
        if wait_until(&container, KILL_PATIENCE, is_over).await {
            return Ok(());
        }
        Err(Error::TimedOut(format!("container {id:?} did not end after it was killed")))
    }

    /// Asks something about a container that may end meanwhile, with its shim.
    async fn ask_of(&self, container: &Container, request: &Request) -> Result<()> {
        match client::ask(&self.run_directory_of(container)?, request).await {
            Ok(_) | Err(Error::WrongState(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn remove_container(self: &Arc<Self>, id: &str) -> Result<()> {
        let Ok(container) = self.container(id) else { return Ok(()) };
        self.stop_container(id, Duration::ZERO).await?;
        if let Ok(directory) = self.run_directory_of(&container) {
            // Where there is no shim, nobody has to forget it.
            let _gone = client::ask(&directory, &Request::Forget { id: id.to_owned() }).await;
        }
        let (inner, cgroup) = (self.clone(), container.file.cgroup.clone());
        blocking(move || cgroups::remove_all(inner.cgroups.as_ref(), &cgroup))
            .await
            .map_err(internal("remove the container's cgroup"))?;
        self.config.images.release(id).await?;
        remove_tree(&self.containers_directory().join(id)).map_err(internal("remove the container"))?;
        self.containers.lock().remove(id);
        self.root_usage.lock().remove(id);
        Ok(())
    }

    pub(super) fn run_directory_of(&self, container: &Container) -> Result<std::path::PathBuf> {
        let sandbox = self.sandbox(&container.file.sandbox);
        let sandbox = sandbox.ok_or_else(|| Error::WrongState("the container's sandbox is gone".to_owned()))?;
        Ok(sandbox.run_directory.clone())
    }
}

fn is_over(state: ContainerState) -> bool {
    matches!(state, ContainerState::Exited | ContainerState::Unknown)
}

/// Whether it came so within this time.
async fn wait_until(container: &Container, time: Duration, wanted: impl Fn(ContainerState) -> bool) -> bool {
    let mut life = container.life.subscribe();
    tokio::time::timeout(time, life.wait_for(|life| wanted(life.state))).await.is_ok()
}
