//! Starts a container: image, configuration, creation, start.

use std::net::IpAddr;
use std::sync::Arc;

use rkube_machinery::Value;
use rkube_runtime::api::ContainerStatus;
use tokio::sync::watch;

use super::images::{self, PullProblem};
use super::kubelet::Kubelet;
use super::labels;
use super::prepare_api::ContainerContext;
use crate::pod::spec::{self, Container};

/// Which container, and where.
pub struct Start {
    pub kubelet: Arc<Kubelet>,
    pub pod: Arc<Value>,
    /// In the order of [`spec::containers`].
    pub number: usize,
    pub attempt: u32,
    pub sandbox: String,
    pub addresses: Vec<IpAddr>,
    /// The id of the container that an ephemeral one looks at.
    pub target: Option<String>,
    pub stopping: watch::Receiver<bool>,
}

/// Why a container does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Image(PullProblem),
    /// What it waits with.
    Waits {
        reason: String,
        message: String,
    },
    /// It was created, and could not be started; what is left of it.
    NotStarted {
        message: String,
        status: Option<Box<LeftOver>>,
    },
    /// The pod is to stop: nothing was made.
    Cancelled,
}

/// A container that was created and did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    pub id: String,
    pub attempt: u32,
    pub code: i64,
    pub reason: String,
    pub message: String,
    pub finished_micros: i64,
}

impl Start {
    pub async fn run(mut self) -> Result<Box<ContainerStatus>, Failure> {
        let (kubelet, pod) = (self.kubelet.clone(), self.pod.clone());
        let containers = spec::containers(&pod);
        let Some(container) = containers.get(self.number).copied() else { return Err(Failure::Cancelled) };
        let image = tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stopping| *stopping) => return Err(Failure::Cancelled),
            image = images::ensure(&kubelet, &pod, container) => image,
        };
        let image = image.map_err(|problem| {
            self.tell(container, true, "Failed", format!("Error: {}", problem.reason));
            Failure::Image(problem)
        })?;
        let target = container.value.str("targetContainerName");
        if !target.is_empty() && self.target.is_none() {
            let message = format!("unable to find target container {target}");
            self.tell(container, true, "Failed", format!("Error: {message}"));
            return Err(Failure::Waits { reason: "CreateContainerConfigError".to_owned(), message });
        }
        let context = ContainerContext {
            attempt: self.attempt,
            image: &image,
            addresses: &self.addresses,
            host_addresses: &kubelet.config.addresses,
            target: self.target.as_deref(),
        };
        let prepared = kubelet.config.prepare.container(&pod, container.value, context).await;
        let mut config = prepared.map_err(|problem| {
            self.tell(container, true, "Failed", format!("Error: {problem}"));
            Failure::Waits { reason: problem.reason.to_string(), message: problem.message }
        })?;
        labels::mark_container(&mut config, &pod, container, self.attempt);
        if *self.stopping.borrow() {
            return Err(Failure::Cancelled);
        }
        self.create(container, config).await
    }

    async fn create(
        &self,
        container: Container<'_>,
        config: rkube_runtime::api::ContainerConfig,
    ) -> Result<Box<ContainerStatus>, Failure> {
        let runtime = self.kubelet.runtime();
        let created = runtime.create_container(&self.sandbox, config).await;
        let id = created.map_err(|error| {
            self.tell(container, true, "Failed", format!("Error: {error}"));
            Failure::Waits { reason: "CreateContainerError".to_owned(), message: error.to_string() }
        })?;
        self.tell(container, false, "Created", "Container created".to_owned());
        if let Err(error) = runtime.start_container(&id).await {
            self.tell(container, true, "Failed", format!("Error: {error}"));
            let status = runtime.container(&id).await.ok();
            let left_over = status.map(|status| {
                Box::new(LeftOver {
                    id,
                    attempt: self.attempt,
                    code: i64::from(status.exit_code),
                    reason: status.reason,
                    message: status.message,
                    finished_micros: status.finished_micros,
                })
            });
            return Err(Failure::NotStarted { message: error.to_string(), status: left_over });
        }
        self.tell(container, false, "Started", "Container started".to_owned());
        let status = runtime.container(&id).await;
        let status = status.map_err(|error| Failure::NotStarted { message: error.to_string(), status: None })?;
        self.link_log(&status).await;
        Ok(Box::new(status))
    }

    /// Where log agents look that know nothing of pods' directories.
    async fn link_log(&self, status: &ContainerStatus) {
        let metadata = self.pod.get("metadata");
        let name = link_name(metadata.str("name"), metadata.str("namespace"), &status.name, &status.id);
        let link = self.kubelet.config.directories.container_logs.join(name);
        let log = labels::log_file(status, &self.kubelet.config.directories.pod_logs);
        if let Err(error) = tokio::fs::symlink(&log, &link).await {
            tracing::debug!(%error, link = %link.display(), "no link to the log of a container");
        }
    }

    fn tell(&self, container: Container<'_>, warning: bool, reason: &str, message: String) {
        self.kubelet.tell(&self.pod, &container.field_path(), warning, reason, message);
    }
}

/// The longest name of a file, with room for what is behind it.
const LINK_NAME_MAX: usize = 251;

fn link_name(pod: &str, namespace: &str, container: &str, id: &str) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    name.truncate(LINK_NAME_MAX);
    name + ".log"
}
