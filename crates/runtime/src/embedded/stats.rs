//! What sandboxes and containers use.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Inner;
use super::sandbox::{blocking, internal};
use super::state::{Container, Sandbox};
use crate::api::{
    ContainerState, ContainerStats, Cpu, FilesystemUsage, Interface, NamespaceMode, Result, SandboxStats,
};
use crate::cgroups::Usage;

/// How old a measure of a container's files may be.
const ROOT_USAGE_MICROS: i64 = 60_000_000;

impl Inner {
    pub(super) async fn sandbox_stats(self: &Arc<Self>) -> Result<Vec<SandboxStats>> {
        let sandboxes: Vec<_> = self.sandboxes.lock().values().filter(|sandbox| sandbox.is_ready()).cloned().collect();
        let mut found = Vec::with_capacity(sandboxes.len());
        for sandbox in sandboxes {
            let containers = self.containers_of(&sandbox.id);
            let running = containers.into_iter().filter(|container| container.state() == ContainerState::Running);
            let running: Vec<_> = running.collect();
            let mut roots = Vec::with_capacity(running.len());
            for container in &running {
                roots.push(self.root_usage(&container.file.id).await);
            }
            let inner = self.clone();
            let read = blocking(move || Ok(inner.stats_of(&sandbox, &running, &roots)));
            found.push(read.await.map_err(internal("read what pods use"))?);
        }
        Ok(found)
    }

    /// What a container wrote, as it was measured not long ago: files are counted one by one.
    async fn root_usage(&self, id: &str) -> FilesystemUsage {
        let now = self.now_micros();
        let known = self.root_usage.lock().get(id).copied();
        if let Some((at, usage)) = known
            && now.saturating_sub(at) < ROOT_USAGE_MICROS
        {
            return usage;
        }
        // One that is just being removed has none.
        let usage = self.config.images.usage(id).await.unwrap_or_default();
        self.root_usage.lock().insert(id.to_owned(), (now, usage));
        usage
    }

    fn stats_of(&self, sandbox: &Sandbox, running: &[Arc<Container>], roots: &[FilesystemUsage]) -> SandboxStats {
        let config = sandbox.file.lock().config.clone();
        let Usage { cpu_nanos, memory, processes } = self.cgroups.usage(&self.pod_cgroup(&config));
        let pause = sandbox.pause().filter(|_| config.namespaces.network != NamespaceMode::Node);
        let interfaces = pause.and_then(|pause| std::fs::read_to_string(format!("/proc/{pause}/net/dev")).ok());
        let container = |(container, root): (&Arc<Container>, &FilesystemUsage)| {
            let Usage { cpu_nanos, memory, .. } = self.cgroups.usage(&container.file.cgroup);
            ContainerStats {
                id: container.file.id.clone(),
                name: container.file.config.name.clone(),
                at_micros: self.now_micros(),
                started_micros: container.life.borrow().record.started_micros,
                cpu: Cpu { usage_core_nanos: cpu_nanos },
                memory,
                root: *root,
                logs: log_usage(&container.file.log_path).unwrap_or_default(),
            }
        };
        SandboxStats {
            id: sandbox.id.clone(),
            at_micros: self.now_micros(),
            cpu: Cpu { usage_core_nanos: cpu_nanos },
            memory,
            processes,
            interfaces: interfaces.map(|text| parse_interfaces(&text)).unwrap_or_default(),
            containers: running.iter().zip(roots).map(container).collect(),
            pod_name: config.pod_name,
            pod_namespace: config.pod_namespace,
            pod_uid: config.pod_uid,
        }
    }
}

/// A container's log with those that were rotated.
fn log_usage(path: &Path) -> io::Result<FilesystemUsage> {
    let mut usage = FilesystemUsage::default();
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(usage);
    };
    for entry in std::fs::read_dir(directory)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(name) {
            usage.used_bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            usage.used_inodes += 1;
        }
    }
    Ok(usage)
}

/// From `/proc/net/dev`: all but the loopback.
fn parse_interfaces(text: &str) -> Vec<Interface> {
    let parse = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let figures: Vec<u64> = rest.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        Some(Interface {
            name: name.trim().to_owned(),
            received_bytes: *figures.first()?,
            received_errors: *figures.get(2)?,
            sent_bytes: *figures.get(8)?,
            sent_errors: *figures.get(10)?,
        })
    };
    text.lines().filter_map(parse).filter(|interface| interface.name != "lo").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_from_the_kernels_table() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
            lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0\n  \
            eth0:    1234      10    1    0    0     0          0         0     5678      20    2    0    0     0       0          0\n";
        let found = parse_interfaces(text);
        let expected = Interface {
            name: "eth0".to_owned(),
            received_bytes: 1234,
            received_errors: 1,
            sent_bytes: 5678,
            sent_errors: 2,
        };
        assert_eq!(found, [expected]);
    }
}
