//! From what a pod asks for and what its image says to what the shim is told.

use std::path::{Path, PathBuf};

use super::images::Prepared;
use crate::api::{ContainerConfig, Error, Mount, NamespaceMode, Result, SandboxConfig};
use crate::launch::{Bundle, DEFAULT_PATH, known_capability, signal_number};

/// The files that the containers of a pod share.
pub(super) const RESOLVER_FILE: &str = "resolv.conf";
pub(super) const HOSTNAME_FILE: &str = "hostname";
/// An empty directory: where roots are mounted.
pub(super) const MOUNT_POINT: &str = "root";
const SIGTERM: i32 = 15;

pub(super) struct Places<'a> {
    pub(super) id: &'a str,
    /// Of the sandbox.
    pub(super) run_directory: &'a Path,
    /// With the files that its containers share.
    pub(super) files_directory: &'a Path,
    pub(super) cgroup: String,
    pub(super) log: PathBuf,
}

pub(super) fn make(
    places: &Places<'_>,
    sandbox: &SandboxConfig,
    config: &ContainerConfig,
    prepared: &Prepared,
) -> Result<Bundle> {
    let mut namespaces = config.namespaces;
    // Network and IPC are the pod's or the host's: no container has its own.
    namespaces.network = sandbox.namespaces.network;
    namespaces.ipc = sandbox.namespaces.ipc;
    if namespaces.pid == NamespaceMode::Pod && sandbox.namespaces.pid != NamespaceMode::Pod {
        namespaces.pid = sandbox.namespaces.pid;
    }
    let names = config.security.capabilities.add.iter().chain(&config.security.capabilities.drop);
    if let Some(name) = names.into_iter().find(|name| !known_capability(name)) {
        return Err(Error::CreateFailed(format!("unknown capability {name:?}")));
    }
    Ok(Bundle {
        id: places.id.to_owned(),
        root: prepared.root.clone(),
        mount_point: places.run_directory.join(MOUNT_POINT),
        arguments: arguments(config, prepared)?,
        environment: environment(sandbox, config, prepared),
        working_directory: working_directory(config, prepared),
        mounts: mounts(places.files_directory, config)?,
        devices: config.devices.clone(),
        resources: config.resources.clone(),
        security: config.security.clone(),
        image_user: prepared.user.clone(),
        namespaces,
        target: config.target.clone(),
        cgroup: places.cgroup.clone(),
        log: (!config.log_path.as_os_str().is_empty()).then(|| places.log.clone()),
        terminal: config.tty,
        stdin: config.stdin,
        stdin_once: config.stdin_once,
    })
}

fn arguments(config: &ContainerConfig, prepared: &Prepared) -> Result<Vec<String>> {
    let mut arguments = config.command.clone();
    if arguments.is_empty() {
        arguments.clone_from(&prepared.entrypoint);
        let rest = if config.arguments.is_empty() { &prepared.command } else { &config.arguments };
        arguments.extend(rest.iter().cloned());
    } else {
        arguments.extend(config.arguments.iter().cloned());
    }
    if arguments.is_empty() {
        return Err(Error::CreateFailed("no command specified".to_owned()));
    }
    // The kernel would take what comes before it for all.
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return Err(Error::CreateFailed("a command with a NUL character cannot be run".to_owned()));
    }
    Ok(arguments)
}

fn environment(sandbox: &SandboxConfig, config: &ContainerConfig, prepared: &Prepared) -> Vec<String> {
    let mut environment = vec![format!("PATH={DEFAULT_PATH}")];
    if config.tty {
        environment.push("TERM=xterm".to_owned());
    }
    if !sandbox.hostname.is_empty() {
        environment.push(format!("HOSTNAME={}", sandbox.hostname));
    }
    environment.extend(prepared.environment.iter().cloned());
    environment.extend(config.environment.iter().map(|(name, value)| format!("{name}={value}")));
    environment.retain(|variable| !variable.contains('\0'));
    environment
}

fn working_directory(config: &ContainerConfig, prepared: &Prepared) -> String {
    let given = [&config.working_directory, &prepared.working_directory];
    let path = given.into_iter().find(|path| !path.is_empty()).map_or("/", String::as_str);
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// The pod's own files first, so that volumes can stand on their places.
fn mounts(files_directory: &Path, config: &ContainerConfig) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for (name, path) in [(HOSTNAME_FILE, "/etc/hostname"), (RESOLVER_FILE, "/etc/resolv.conf")] {
        let host_path = files_directory.join(name);
        if host_path.exists() && !config.mounts.iter().any(|mount| mount.container_path == path) {
            let read_only = config.security.read_only_root;
            mounts.push(Mount { host_path, container_path: path.to_owned(), read_only, ..Default::default() });
        }
    }
    for mount in &config.mounts {
        if !mount.container_path.starts_with('/') || mount.container_path.split('/').all(str::is_empty) {
            return Err(Error::CreateFailed(format!("cannot mount at {:?}", mount.container_path)));
        }
        if !mount.host_path.exists() {
            let path = mount.host_path.display();
            return Err(Error::CreateFailed(format!(
                "failed to generate spec: failed to stat \"{path}\": no such file or directory"
            )));
        }
        mounts.push(mount.clone());
    }
    Ok(mounts)
}

/// The signal that asks a container to end.
pub(super) fn stop_signal(config: &ContainerConfig, prepared: &Prepared) -> Result<i32> {
    if let Some(name) = &config.stop_signal {
        return signal_number(name).ok_or_else(|| Error::CreateFailed(format!("unknown stop signal {name:?}")));
    }
    if prepared.stop_signal.is_empty() {
        return Ok(SIGTERM);
    }
    Ok(signal_number(&prepared.stop_signal).unwrap_or(SIGTERM))
}
