//! Sandboxes: made, stopped, removed.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Inner;
use super::bundle::{HOSTNAME_FILE, MOUNT_POINT, RESOLVER_FILE};
use super::client::{self, Connection};
use super::state::{ContainerLife, SANDBOX_FILE, Sandbox, SandboxFile, write_json};
use crate::api::{
    Attachment, ContainerState, DnsConfig, Error, Event, NamespaceMode, Resources, Result, SandboxConfig,
};
use crate::cgroups;
use crate::remove_tree;
use crate::shim::{Answer, COMMAND, CONFIGURATION_FILE, Configuration, Record, Request};

/// How long a shim may take for what it does at once otherwise.
const SHIM_PATIENCE: Duration = Duration::from_secs(30);
/// Names of hosts are no longer in Linux.
const HOSTNAME_MAX_BYTES: usize = 64;
/// Pods that ask for nothing have a group of their own.
const BEST_EFFORT: &str = "besteffort";
const BEST_EFFORT_SHARES: u64 = 2;
/// Below the cgroup of all pods: where shims are, out of reach of what pods do to their own.
const SHIMS: &str = "rkube-shims";

impl Inner {
    pub(super) async fn run_sandbox(self: &Arc<Self>, config: SandboxConfig) -> Result<String> {
        check(&config)?;
        let id = self.new_id();
        let created_micros = self.now_micros();
        let file = SandboxFile { id: id.clone(), config, created_micros, addresses: Vec::new(), complete: false };
        let sandbox = Arc::new(Sandbox::new(file, self.config.run_directory.join(&id)));
        let _guard = sandbox.guard.lock().await;
        self.save(&sandbox).map_err(internal("write down the sandbox"))?;
        self.sandboxes.lock().insert(id.clone(), sandbox.clone());
        match self.make_sandbox(&sandbox).await {
            Ok(()) => Ok(id),
            Err(error) => {
                self.end_sandbox(&sandbox).await?;
                self.forget_sandbox(&sandbox).await?;
                Err(error)
            }
        }
    }

    async fn make_sandbox(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<()> {
        let config = sandbox.file.lock().config.clone();
        self.write_files(sandbox, &config).map_err(internal("write the sandbox's files"))?;
        let inner = self.clone();
        let (pod, limits) = (self.pod_cgroup(&config), config.resources.clone());
        let pause = format!("{pod}/{}", sandbox.id);
        let best_effort = format!("{}/{BEST_EFFORT}", self.config.cgroup_root);
        blocking(move || {
            if pod.starts_with(&format!("{best_effort}/")) {
                // All of them together get what others leave.
                let limits = Resources { cpu_shares: Some(BEST_EFFORT_SHARES), ..Default::default() };
                inner.cgroups.create(&best_effort, &limits, false)?;
            }
            inner.cgroups.create(&pod, &limits, false)?;
            inner.cgroups.create(&pause, &Resources::default(), true)?;
            inner.cgroups.create(&inner.shim_cgroup(), &Resources::default(), true)
        })
        .await
        .map_err(internal("make the pod's cgroup"))?;
        self.start_shim(sandbox).map_err(internal("start the pod's shim"))?;
        let watched = tokio::time::timeout(SHIM_PATIENCE, self.watch_shim(sandbox)).await;
        watched.map_err(|_| Error::TimedOut("the pod's shim did not answer".to_owned()))??;
        let addresses = self.attach_network(sandbox, &config).await?;
        {
            let mut file = sandbox.file.lock();
            file.addresses = addresses;
            file.complete = true;
        }
        self.save(sandbox).map_err(internal("write down the sandbox"))
    }

    async fn attach_network(&self, sandbox: &Sandbox, config: &SandboxConfig) -> Result<Vec<IpAddr>> {
        if config.namespaces.network == NamespaceMode::Node {
            return Ok(Vec::new());
        }
        let pause = sandbox.pause().ok_or_else(|| Error::Internal("the pod's shim is gone".to_owned()))?;
        let network_namespace = format!("/proc/{pause}/ns/net").into();
        let attachment = Attachment { sandbox: sandbox.id.clone(), network_namespace, ports: config.ports.clone() };
        self.config.network.attach(attachment).await
    }

    pub(super) fn save(&self, sandbox: &Sandbox) -> io::Result<()> {
        let directory = self.sandboxes_directory().join(&sandbox.id);
        std::fs::create_dir_all(&directory)?;
        write_json(&directory.join(SANDBOX_FILE), &*sandbox.file.lock())
    }

    fn write_files(&self, sandbox: &Sandbox, config: &SandboxConfig) -> io::Result<()> {
        let directory = &sandbox.run_directory;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        std::fs::create_dir_all(directory.join(MOUNT_POINT))?;
        let hostname = if config.hostname.is_empty() || config.namespaces.network == NamespaceMode::Node {
            rustix::system::uname().nodename().to_string_lossy().into_owned()
        } else {
            config.hostname.clone()
        };
        // On the disk and not in memory, as containers may write to them.
        let files = self.sandboxes_directory().join(&sandbox.id);
        for (name, text) in [(HOSTNAME_FILE, format!("{hostname}\n")), (RESOLVER_FILE, resolver(&config.dns))] {
            std::fs::write(files.join(name), text)?;
            std::fs::set_permissions(files.join(name), std::fs::Permissions::from_mode(0o644))?;
        }
        let configuration = Configuration {
            sandbox: sandbox.id.clone(),
            hierarchies: self.hierarchies.clone(),
            namespaces: config.namespaces,
            hostname: config.hostname.clone(),
            sysctls: config.sysctls.clone(),
            pause_cgroup: format!("{}/{}", self.pod_cgroup(config), sandbox.id),
            shim_cgroup: self.shim_cgroup(),
            pause_mount_point: directory.join(MOUNT_POINT),
            containers_directory: self.containers_directory(),
            log_file_max_bytes: self.config.log_file_max_bytes,
            log_files_max: self.config.log_files_max,
        };
        std::fs::write(directory.join(CONFIGURATION_FILE), serde_json::to_vec(&configuration)?)
    }

    fn shim_cgroup(&self) -> String {
        format!("{}/{SHIMS}", self.config.cgroup_root)
    }

    /// Starts a shim that outlives this process. Its socket is there before it is.
    fn start_shim(&self, sandbox: &Sandbox) -> io::Result<()> {
        let (_held, path) = client::short_path(&sandbox.run_directory)?;
        let listener = UnixListener::bind(path)?;
        let log = std::fs::File::create(sandbox.run_directory.join("shim.log"))?;
        let mut child = tokio::process::Command::new(self.program.path())
            .arg0("rkube")
            .arg(COMMAND)
            .arg(&sandbox.run_directory)
            .current_dir("/")
            .env_clear()
            .stdin(OwnedFd::from(listener))
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(false)
            .spawn()?;
        tokio::spawn(async move {
            let _how_it_ended_is_seen_by_its_socket = child.wait().await;
        });
        Ok(())
    }

    /// Connects to a shim, learns what it has, and follows it from then on.
    pub(super) async fn watch_shim(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<()> {
        let mut connection = client::connect(&sandbox.run_directory).await?;
        connection.send(&Request::Watch, &[]).await.map_err(internal("ask the pod's shim"))?;
        let Answer::State { pause, records } = connection.expect().await? else {
            return Err(Error::Internal("the pod's shim said something else".to_owned()));
        };
        sandbox.life.lock().pause = Some(pause);
        for (id, record) in records {
            self.update(&id, record);
        }
        tokio::spawn(follow(Arc::downgrade(self), sandbox.clone(), connection));
        Ok(())
    }

    /// Takes note of what a shim says of a container.
    fn update(&self, id: &str, record: Record) {
        let Ok(container) = self.container(id) else { return };
        let life = ContainerLife::of(record);
        let before = container.life.borrow().state;
        let state = life.state;
        container.life.send_replace(life);
        let (sandbox, container) = (container.file.sandbox.clone(), id.to_owned());
        match state {
            _ if state == before => {}
            ContainerState::Running => self.tell(Event::Started { sandbox, container }),
            _ => self.tell(Event::Stopped { sandbox, container }),
        }
    }

    /// A shim is gone: what is left of its containers goes, too.
    pub(super) async fn shim_lost(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        let expected = {
            let mut life = sandbox.life.lock();
            life.pause = None;
            life.stopping
        };
        self.clear_cgroups(sandbox).await;
        for container in self.containers_of(&sandbox.id) {
            let before = container.state();
            let life = ContainerLife::without_shim(&self.containers_directory().join(&container.file.id));
            let state = life.state;
            container.life.send_replace(life);
            if state != before {
                self.tell(Event::Stopped { sandbox: sandbox.id.clone(), container: container.file.id.clone() });
            }
        }
        if !expected {
            self.tell(Event::SandboxLost { sandbox: sandbox.id.clone() });
        }
    }

    /// Kills what may be left in a sandbox's cgroups, and removes them.
    async fn clear_cgroups(self: &Arc<Self>, sandbox: &Sandbox) {
        let pod = self.pod_cgroup(&sandbox.file.lock().config);
        let mut paths = vec![format!("{pod}/{}", sandbox.id)];
        paths.extend(self.containers_of(&sandbox.id).iter().map(|container| container.file.cgroup.clone()));
        let inner = self.clone();
        let cleared = blocking(move || {
            for path in &paths {
                if cgroups::kill_all(inner.cgroups.as_ref(), path) {
                    cgroups::remove_all(inner.cgroups.as_ref(), path)?;
                }
            }
            Ok(())
        });
        if let Err(error) = cleared.await {
            tracing::warn!(sandbox = sandbox.id, %error, "cgroups of a pod are left");
        }
    }

    pub(super) async fn stop_sandbox(self: &Arc<Self>, id: &str) -> Result<()> {
        let Some(sandbox) = self.sandbox(id) else { return Ok(()) };
        let _guard = sandbox.guard.lock().await;
        self.end_sandbox(&sandbox).await
    }

    async fn end_sandbox(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<()> {
        sandbox.life.lock().stopping = true;
        if std::mem::replace(&mut sandbox.file.lock().complete, false) {
            self.save(sandbox).map_err(internal("write down the sandbox"))?;
        }
        let asked = client::ask(&sandbox.run_directory, &Request::Shutdown);
        // An error: it is gone already.
        let answered = tokio::time::timeout(SHIM_PATIENCE, asked).await;
        answered.map(drop).map_err(|_| Error::TimedOut("the pod's shim did not end".to_owned()))?;
        self.shim_lost(sandbox).await;
        self.config.network.detach(&sandbox.id).await?;
        remove_tree(&sandbox.run_directory).map_err(internal("remove the sandbox's files"))
    }

    pub(super) async fn remove_sandbox(self: &Arc<Self>, id: &str) -> Result<()> {
        let Some(sandbox) = self.sandbox(id) else { return Ok(()) };
        let _guard = sandbox.guard.lock().await;
        self.end_sandbox(&sandbox).await?;
        for container in self.containers_of(id) {
            self.remove_container(&container.file.id).await?;
        }
        self.forget_sandbox(&sandbox).await
    }

    pub(super) async fn clear(self: &Arc<Self>) -> Result<()> {
        let ids: Vec<String> = self.sandboxes.lock().keys().cloned().collect();
        for id in ids {
            self.remove_sandbox(&id).await?;
        }
        // Those whose sandbox was never written down, or is gone.
        let ids: Vec<String> = self.containers.lock().keys().cloned().collect();
        for id in ids {
            self.remove_container(&id).await?;
        }
        let inner = self.clone();
        // What only holds others together; whatever else there is in it is somebody else's.
        let _in_use = blocking(move || {
            let cgroups = inner.cgroups.as_ref();
            let root = &inner.config.cgroup_root;
            // A shim takes a moment to be gone after it has said so.
            let _in_use = cgroups::remove_all(cgroups, &inner.shim_cgroup());
            for name in cgroups.children(root) {
                let _in_use = cgroups.remove_one(&format!("{root}/{name}"));
            }
            cgroups.remove_one(root)
        })
        .await;
        Ok(())
    }

    async fn forget_sandbox(self: &Arc<Self>, sandbox: &Sandbox) -> Result<()> {
        remove_tree(&self.sandboxes_directory().join(&sandbox.id)).map_err(internal("remove the sandbox"))?;
        self.sandboxes.lock().remove(&sandbox.id);
        let pod = self.pod_cgroup(&sandbox.file.lock().config);
        let inner = self.clone();
        // Another sandbox of the same pod may be in it; the last one takes it along.
        let _in_use = blocking(move || inner.cgroups.remove_one(&pod)).await;
        Ok(())
    }
}

async fn follow(inner: Weak<Inner>, sandbox: Arc<Sandbox>, mut connection: Connection) {
    loop {
        let answer = connection.next().await;
        let Some(inner) = inner.upgrade() else { return };
        match answer {
            Ok(Some(Answer::Changed { id, record })) => inner.update(&id, record),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                // Whoever stops it does the rest.
                if !sandbox.life.lock().stopping {
                    inner.shim_lost(&sandbox).await;
                }
                return;
            }
        }
    }
}

fn check(config: &SandboxConfig) -> Result<()> {
    if !config.runtime_handler.is_empty() {
        return Err(Error::Unsupported(format!("no runtime for {:?} is configured", config.runtime_handler)));
    }
    if config.hostname.len() > HOSTNAME_MAX_BYTES {
        return Err(Error::CreateFailed(format!("the hostname {:?} is too long", config.hostname)));
    }
    let parent = config.cgroup_parent.trim_matches('/');
    if !parent.is_empty() && !cgroups::is_inside(parent) {
        return Err(Error::CreateFailed(format!("{:?} is no path of a cgroup", config.cgroup_parent)));
    }
    Ok(())
}

fn resolver(dns: &DnsConfig) -> String {
    if *dns == DnsConfig::default() {
        return std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    }
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    for server in &dns.servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    text
}

/// Leaves something that waits for the kernel to another thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

pub(super) fn internal(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Internal(format!("{what}: {error}"))
}
