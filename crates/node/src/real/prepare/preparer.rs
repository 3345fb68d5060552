//! Prepares pods: asks the API, works on files, and leaves what is to be worked out to the others.

use std::collections::{BTreeSet, HashMap};
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Service;
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::{Text, Value};
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::Client;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, NetworkSource, Selection, Source};
use rkube_runtime::api::{ContainerConfig, DnsConfig, Mount, NamespaceMode, SandboxConfig};

use super::env::{self, ObjectKind, Objects, Read, Variables};
use super::expansion::expand_all;
use super::mounts::{Mounted, Mounts};
use super::resources::{self, Machine};
use super::services::{self, ByNamespace, ServiceView};
use super::volumes::{Pass, PodVolumes};
use super::{dns, hostname, hosts, sandbox, security, storage};
use crate::pod::spec::{Role, containers, display_name, is_host_network};
use crate::real::volumes::directory::{self, PodDirectory};
use crate::real::volumes::objects::{Missing, ObjectReader};
use crate::real::volumes::tokens::Tokens;
use crate::real::{ContainerContext, Prepare, Problem, volumes};

const CONFIG_ERROR: &str = "CreateContainerConfigError";
const SANDBOX_ERROR: &str = "FailedCreatePodSandBox";
/// So long a container waits for the list of services.
const SERVICES_WAIT: Duration = Duration::from_secs(10);
const HOST_HOSTS: &str = "/etc/hosts";
/// Whom systemd's resolver asks.
const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

/// What the preparer needs to know of its node.
pub struct Config {
    /// Acts as the node: `system:node:NAME`.
    pub client: Client,
    /// Of this process, under the node's identity: services come from them.
    pub caches: Caches,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Where the kubelet's files are, as `/var/lib/kubelet`.
    pub root: PathBuf,
    /// As `/var/log/pods`.
    pub logs: PathBuf,
    /// The addresses of the cluster's DNS; none: pods ask whom the host asks.
    pub cluster_dns: Vec<IpAddr>,
    /// As `cluster.local`.
    pub cluster_domain: String,
    /// The host's own `resolv.conf`.
    pub resolv_conf: PathBuf,
    /// What the node has for pods, as its status says it.
    pub allocatable: Value,
    pub memory_capacity_bytes: u64,
    /// Tells of what is odd and no reason to stop.
    pub recorder: Option<Recorder>,
}

/// What the parts of it share.
pub(super) struct Shared {
    pub config: Config,
    pub objects: ObjectReader,
    pub tokens: Tokens,
    /// By which single objects are watched: with requests of the node's own, because it may see no others.
    pub watched: Arc<dyn Source>,
}

pub struct Preparer {
    shared: Arc<Shared>,
    volumes: Arc<PodVolumes>,
    services: Informer<ServiceView>,
    machine: Machine,
}

impl Preparer {
    /// Makes the root directory, where it is not there. Must be called on a runtime.
    pub fn start(config: Config) -> std::io::Result<Arc<Preparer>> {
        let watched = Arc::new(NetworkSource::new(config.client.clone()));
        Preparer::start_with(config, watched)
    }

    pub(super) fn start_with(mut config: Config, watched: Arc<dyn Source>) -> std::io::Result<Arc<Preparer>> {
        directory::make(&directory::pods(&config.root), 0o750)?;
        // Mounts are found by their paths, as the kernel writes them.
        config.root = config.root.canonicalize()?;
        let services = config.caches.view(&ApiResource::erase::<Service>(&()), Selection::default(), services::view);
        let objects = ObjectReader::new(config.client.clone());
        let shared = Arc::new(Shared {
            tokens: Tokens::new(objects.clone(), config.clock.clone(), config.entropy.clone()),
            watched,
            objects,
            config,
        });
        Ok(Arc::new(Preparer {
            machine: Machine::read(shared.config.memory_capacity_bytes, Path::new(HUGE_PAGES)),
            volumes: PodVolumes::start(shared.clone()),
            services: services.indexed::<ByNamespace>(),
            shared,
        }))
    }

    async fn sandbox_config(&self, pod: &Value, attempt: u32) -> Result<SandboxConfig, String> {
        let config = &self.shared.config;
        let cluster = dns::Cluster {
            servers: &config.cluster_dns,
            domain: &config.cluster_domain,
            host: &host_dns(&config.resolv_conf, Path::new(RESOLVED)),
        };
        let (dns, notes) = dns::of(pod, &cluster);
        notes.iter().for_each(|(reason, message)| self.warn(pod, reason, message));
        let found = sandbox::Found {
            attempt,
            dns,
            cluster_domain: &config.cluster_domain,
            logs: &config.logs,
            runtime_handler: self.runtime_handler(pod).await?,
        };
        let made = sandbox::config(pod, found)?;
        directory::make(&made.log_directory, 0o755)
            .map_err(|error| format!("Failed to create log directory for pod {:?}: {error}", display_name(pod)))?;
        Ok(made)
    }

    /// By the pod's runtime class; empty: the default one.
    async fn runtime_handler(&self, pod: &Value) -> Result<String, String> {
        let name = pod.get("spec").str("runtimeClassName");
        if name.is_empty() {
            return Ok(String::new());
        }
        match self.shared.objects.get(&format!("/apis/node.k8s.io/v1/runtimeclasses/{name}")).await {
            Ok(class) => Ok(class.str("handler").to_owned()),
            Err(Missing::NotFound) => Err(format!("runtimeclasses.node.k8s.io {name:?} not found")),
            Err(Missing::Refused(why)) => Err(format!("failed to lookup RuntimeClass {name}: {why}")),
        }
    }

    async fn container_config(
        &self,
        pod: &Value,
        container: &Value,
        context: ContainerContext<'_>,
    ) -> Result<ContainerConfig, String> {
        let config = &self.shared.config;
        let mounted = self.volumes.mounted(pod).await.map_err(|problem| problem.message)?;
        let variables = self.variables(pod, container, &context, &mounted).await?;
        let mut security = security::of_container(pod, container, context.image, &config.root.join("seccomp"))?;
        let extra: BTreeSet<u32> = mounted.values().filter_map(|volume| volume.extra_group).collect();
        security.supplemental_groups.extend(extra);
        let mounts = self.mounts(pod, container, &context, variables.clone(), mounted).await?;
        let role = containers(pod).into_iter().find(|other| other.name() == container.str("name"));
        let role = role.map_or(Role::Main, |other| other.role);
        let mut namespaces = security::namespaces(pod);
        let target = context.target.filter(|_| namespaces.pid == NamespaceMode::Container).map(str::to_owned);
        if target.is_some() {
            namespaces.pid = NamespaceMode::Target;
        }
        let stop_signal = container.get("lifecycle").str("stopSignal");
        Ok(ContainerConfig {
            name: container.str("name").to_owned(),
            attempt: context.attempt,
            image: container.str("image").to_owned(),
            image_id: context.image.id.clone(),
            command: expand_all(container.list("command"), &variables),
            arguments: expand_all(container.list("args"), &variables),
            working_directory: container.str("workingDir").to_owned(),
            environment: variables.entries().to_vec(),
            mounts,
            devices: Vec::new(),
            log_path: PathBuf::from(container.str("name")).join(format!("{}.log", context.attempt)),
            stdin: container.bool("stdin"),
            stdin_once: container.bool("stdinOnce"),
            tty: container.bool("tty"),
            resources: resources::of_container(pod, container, role, &self.machine),
            security,
            namespaces,
            target,
            stop_signal: (!stop_signal.is_empty()).then(|| stop_signal.to_owned()),
            ..ContainerConfig::default()
        })
    }

    async fn variables(
        &self,
        pod: &Value,
        container: &Value,
        context: &ContainerContext<'_>,
        mounted: &HashMap<Text, Mounted>,
    ) -> Result<Variables, String> {
        let namespace = pod.get("metadata").str("namespace");
        let synced = tokio::time::timeout(SERVICES_WAIT, self.services.synced()).await;
        synced.map_err(|_| "services have not yet been read at least once, cannot construct envvars".to_owned())?;
        let links = pod.get("spec").get("enableServiceLinks").as_bool().unwrap_or(true);
        let objects = self.read_objects(namespace, container).await;
        env::make(&env::Sources {
            pod,
            container,
            objects: &objects,
            services: &services::variables(&services::told(&self.services, namespace, links)),
            addresses: context.addresses,
            host_addresses: context.host_addresses,
            allocatable: &self.shared.config.allocatable,
            volume: &|name| mounted.get(name).map(|mounted| mounted.path.clone()),
        })
    }

    async fn read_objects(&self, namespace: &str, container: &Value) -> Objects {
        let mut objects = Objects::new();
        for (kind, name) in env::references(container) {
            let (word, found) = match kind {
                ObjectKind::ConfigMap => ("configmap", self.shared.objects.config_map(namespace, &name).await),
                ObjectKind::Secret => ("secret", self.shared.objects.secret(namespace, &name).await),
            };
            let read = match found {
                Ok(object) => Read::Found(object),
                Err(missing @ Missing::NotFound) => Read::NotFound(missing.say(word, &name)),
                Err(missing) => Read::Failed(missing.say(word, &name)),
            };
            objects.insert((kind, name), read);
        }
        objects
    }

    /// Beside the threads that wait: parts of volumes are mounted, files are written.
    async fn mounts(
        &self,
        pod: &Value,
        container: &Value,
        context: &ContainerContext<'_>,
        variables: Variables,
        mounted: HashMap<Text, Mounted>,
    ) -> Result<Vec<Mount>, String> {
        let uid = pod.get("metadata").str("uid");
        let directory = PodDirectory::new(&self.shared.config.root, uid).ok_or_else(|| format!("{uid:?} is no uid"))?;
        let hosts = self.hosts(pod, context.addresses)?;
        let name = container.str("name");
        let termination_log = (!container.str("terminationMessagePath").is_empty())
            .then(|| self.termination_log(uid, name, context.attempt));
        let logs = self.shared.config.logs.join(sandbox::log_directory(pod)).join(name);
        let container = container.clone();
        let work = move || {
            directory::make(directory.path(), 0o750).map_err(|error| error.to_string())?;
            directory::make(&logs, 0o755).map_err(|error| {
                format!("create container log directory for container {} failed: {error}", container.str("name"))
            })?;
            let hosts_file = hosts.map(|text| write_file(&directory.hosts_file(), &text, 0o644)).transpose()?;
            if let Some(path) = &termination_log {
                write_file(path, "", 0o666)?;
            }
            let volume = |name: &str| mounted.get(name).cloned();
            Mounts {
                container: &container,
                directory: &directory,
                variables: &variables,
                volume: &volume,
                hosts_file,
                termination_log,
            }
            .make()
        };
        self.volumes.hold(uid, work).await
    }

    /// None: the pod has no address yet.
    fn hosts(&self, pod: &Value, addresses: &[IpAddr]) -> Result<Option<String>, String> {
        let aliases = pod.get("spec").list("hostAliases");
        if is_host_network(pod) {
            let of_host = std::fs::read_to_string(HOST_HOSTS).map_err(|error| error.to_string())?;
            return Ok(Some(hosts::on_host(&of_host, aliases)));
        }
        let name = hostname::of(pod, &self.shared.config.cluster_domain)?;
        Ok((!addresses.is_empty()).then(|| hosts::managed(addresses, &name.short, &name.domain, aliases)))
    }

    fn warn(&self, pod: &Value, reason: &str, message: &str) {
        let Some(recorder) = &self.shared.config.recorder else { return };
        let metadata = pod.get("metadata");
        let about = Reference {
            kind: "Pod".into(),
            api_version: "v1".into(),
            namespace: metadata.str("namespace").into(),
            name: metadata.str("name").into(),
            uid: metadata.str("uid").into(),
            resource_version: metadata.str("resourceVersion").into(),
            field_path: "".into(),
        };
        recorder.warn(&about, reason, message);
    }
}

impl Prepare for Preparer {
    fn admit(&self, pod: &Value) -> Result<(), Problem> {
        for volume in volumes::used(pod) {
            let name = volume.str("name");
            let Some(_) = volumes::kind_of(volume) else {
                let kind = volume.as_map().keys().find(|key| *key != "name").map_or("none", |key| key.as_str());
                return Err(Problem::new(
                    "UnsupportedVolume",
                    format!("volume {name:?} is of kind {kind}, which this node does not have"),
                ));
            };
            let sources = volume.get("projected").list("sources");
            if sources.iter().any(|source| source.has("podCertificate")) {
                let message = format!("volume {name:?} projects a podCertificate, which this node does not have");
                return Err(Problem::new("UnsupportedVolume", message));
            }
        }
        let with_device = containers(pod).into_iter().find(|container| container.value.has("volumeDevices"));
        match with_device {
            Some(container) => Err(Problem::new(
                "UnsupportedVolume",
                format!("container {:?} uses volumeDevices, which this node does not have", container.name()),
            )),
            None => Ok(()),
        }
    }

    fn mount<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Result<(), Problem>> {
        self.volumes.prepare(pod, Pass::All).boxed()
    }

    fn refresh<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Result<(), Problem>> {
        self.volumes.prepare(pod, Pass::Refresh).boxed()
    }

    fn check_storage<'a>(
        &'a self,
        pod: &'a Value,
        containers: &'a [(Text, u64)],
    ) -> BoxFuture<'a, Result<(), Problem>> {
        async move {
            if !storage::is_limited(pod) {
                return Ok(());
            }
            let used = self.volumes.used_bytes(pod).await;
            match storage::excess(pod, &used, containers) {
                Some(why) => Err(Problem::new("Evicted", why)),
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn unmount<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Result<(), Problem>> {
        self.volumes.tear_down(uid).boxed()
    }

    fn known_pods(&self) -> Vec<Text> {
        volumes::known_pods(&self.shared.config.root)
    }

    fn sandbox<'a>(&'a self, pod: &'a Value, attempt: u32) -> BoxFuture<'a, Result<SandboxConfig, Problem>> {
        async move { self.sandbox_config(pod, attempt).await.map_err(|why| Problem::new(SANDBOX_ERROR, why)) }.boxed()
    }

    fn container<'a>(
        &'a self,
        pod: &'a Value,
        container: &'a Value,
        context: ContainerContext<'a>,
    ) -> BoxFuture<'a, Result<ContainerConfig, Problem>> {
        async move {
            let made = self.container_config(pod, container, context).await;
            made.map_err(|why| Problem::new(CONFIG_ERROR, why))
        }
        .boxed()
    }

    fn termination_log(&self, pod_uid: &str, container: &str, attempt: u32) -> PathBuf {
        // Neither is a path: the API server lets no such name pass, and static pods are checked by the same rules.
        let pods = directory::pods(&self.shared.config.root);
        pods.join(pod_uid).join("containers").join(container).join(attempt.to_string())
    }
}

/// In place, because other containers of the pod have it mounted already; with this mode whatever the umask is.
fn write_file(path: &Path, text: &str, mode: u32) -> Result<PathBuf, String> {
    let written = path.parent().map_or(Ok(()), |parent| directory::make(parent, 0o750)).and_then(|()| {
        std::fs::write(path, text)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    });
    written.map(|()| path.to_owned()).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the host asks for names; nothing where that cannot be read. A resolver of the host's own, as systemd's, cannot be
/// reached from pods: then it is whom that one asks.
fn host_dns(path: &Path, behind: &Path) -> DnsConfig {
    let found = read_resolv_conf(path).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), %error, "how the host finds names cannot be read");
        DnsConfig::default()
    });
    let is_local = |server: &String| server.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    if found.servers.is_empty() || !found.servers.iter().all(is_local) {
        return found;
    }
    read_resolv_conf(behind).unwrap_or(found)
}

fn read_resolv_conf(path: &Path) -> std::io::Result<DnsConfig> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(dns::RESOLV_CONF_MAX).read_to_string(&mut text)?;
    Ok(dns::parse_resolv_conf(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_ask_whom_the_hosts_own_resolver_asks() {
        let directory = tempfile::tempdir().unwrap();
        let (path, behind) = (directory.path().join("resolv.conf"), directory.path().join("behind"));
        let servers = || host_dns(&path, &behind).servers;
        assert!(servers().is_empty());
        std::fs::write(&path, "nameserver 127.0.0.53\n").unwrap();
        assert_eq!(servers(), ["127.0.0.53"]);
        std::fs::write(&behind, "nameserver 192.0.2.1\n").unwrap();
        assert_eq!(servers(), ["192.0.2.1"]);
        std::fs::write(&path, "nameserver 127.0.0.53\nnameserver 192.0.2.2\n").unwrap();
        assert_eq!(servers(), ["127.0.0.53", "192.0.2.2"]);
    }
}
