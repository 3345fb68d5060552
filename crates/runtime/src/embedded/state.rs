//! What the runtime knows of sandboxes and containers, in memory and on disk.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::api::{ContainerConfig, ContainerState, ContainerStatus, SandboxConfig, SandboxState, SandboxStatus};
use crate::shim::{RECORD_FILE, Record};

pub(super) const SANDBOX_FILE: &str = "sandbox.json";
pub(super) const CONTAINER_FILE: &str = "container.json";

/// A sandbox as it is on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SandboxFile {
    pub(super) id: String,
    pub(super) config: SandboxConfig,
    pub(super) created_micros: i64,
    pub(super) addresses: Vec<IpAddr>,
    /// All of it was made, and nobody has asked for its end.
    pub(super) complete: bool,
}

pub(super) struct Sandbox {
    pub(super) file: Mutex<SandboxFile>,
    /// With its socket.
    pub(super) run_directory: PathBuf,
    pub(super) life: Mutex<SandboxLife>,
    /// Held by whoever makes, stops or removes it.
    pub(super) guard: tokio::sync::Mutex<()>,
    pub(super) id: String,
}

#[derive(Debug, Default)]
pub(super) struct SandboxLife {
    /// The process that holds its namespaces, while its shim is there.
    pub(super) pause: Option<u32>,
    /// Its end was asked for: that its shim goes is no surprise.
    pub(super) stopping: bool,
}

impl Sandbox {
    pub(super) fn new(file: SandboxFile, run_directory: PathBuf) -> Self {
        let id = file.id.clone();
        Self { file: Mutex::new(file), run_directory, life: Mutex::default(), guard: tokio::sync::Mutex::default(), id }
    }

    pub(super) fn is_ready(&self) -> bool {
        let life = self.life.lock();
        life.pause.is_some() && !life.stopping && self.file.lock().complete
    }

    pub(super) fn pause(&self) -> Option<u32> {
        self.life.lock().pause
    }

    pub(super) fn status(&self) -> SandboxStatus {
        let state = if self.is_ready() { SandboxState::Ready } else { SandboxState::NotReady };
        let file = self.file.lock().clone();
        SandboxStatus {
            id: file.id,
            config: file.config,
            state,
            created_micros: file.created_micros,
            addresses: file.addresses,
        }
    }
}

/// A container as it is on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ContainerFile {
    pub(super) id: String,
    pub(super) sandbox: String,
    pub(super) config: ContainerConfig,
    pub(super) created_micros: i64,
    pub(super) image_ref: String,
    pub(super) stop_signal: i32,
    pub(super) cgroup: String,
    pub(super) log_path: PathBuf,
}

pub(super) struct Container {
    pub(super) file: ContainerFile,
    pub(super) life: watch::Sender<ContainerLife>,
}

#[derive(Clone, Debug)]
pub(super) struct ContainerLife {
    pub(super) state: ContainerState,
    pub(super) record: Record,
}

impl Container {
    pub(super) fn new(file: ContainerFile, life: ContainerLife) -> Self {
        Self { file, life: watch::Sender::new(life) }
    }

    pub(super) fn state(&self) -> ContainerState {
        self.life.borrow().state
    }

    pub(super) fn status(&self) -> ContainerStatus {
        let life = self.life.borrow().clone();
        let ContainerFile { id, sandbox, config, created_micros, image_ref, log_path, .. } = self.file.clone();
        ContainerStatus {
            id,
            sandbox,
            name: config.name,
            attempt: config.attempt,
            state: life.state,
            created_micros,
            started_micros: life.record.started_micros,
            finished_micros: life.record.finished_micros,
            exit_code: life.record.exit_code,
            reason: life.record.reason,
            message: life.record.message,
            image: config.image,
            image_ref,
            labels: config.labels,
            annotations: config.annotations,
            log_path,
            mounts: config.mounts,
            tty: config.tty,
            stdin: config.stdin,
            user: life.record.user.map(|user| (user.user, user.group, user.groups)),
            pid: life.record.pid,
        }
    }
}

impl ContainerLife {
    pub(super) fn created() -> Self {
        Self { state: ContainerState::Created, record: Record::default() }
    }

    /// By what a shim recorded.
    pub(super) fn of(record: Record) -> Self {
        let state = if record.finished_micros > 0 { ContainerState::Exited } else { ContainerState::Running };
        Self { state, record }
    }

    /// By what is left on disk of one whose shim is gone.
    pub(super) fn without_shim(directory: &Path) -> Self {
        match read_json::<Record>(&directory.join(RECORD_FILE)) {
            Some(record) if record.finished_micros > 0 => Self::of(record),
            Some(record) => Self { state: ContainerState::Unknown, record: Record { pid: None, ..record } },
            None => Self::created(),
        }
    }
}

pub(super) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    crate::shim::write_atomically(path, &serde_json::to_vec(value)?)
}
