//! The node of this machine, from flags to a part of the control plane.
//!
//! Its network and its port come before the API server, which listens on the network's gateway and is told to pods by it.
//! Everything else comes with the control plane.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use rkube_cluster::certificates::tls;
use rkube_cluster::parts::{LocalMachine, LocalPath, NodeRanges};
use rkube_cluster::{Part, RealNode as RealNodePart};
use rkube_machinery::host::{Clock as _, Entropy as _};
use rkube_network::Network;
use rkube_node::real::Directories;
use rkube_runtime::api::PodNetwork;
use rkube_runtime::embedded::{self, Embedded, StoredImages};
use rkube_runtime::images::{Registries, Store};

use super::{Decision, Machine, Places, Wishes, decide, network};
use crate::cli::Up;
use crate::flags::StoreChoice;
use crate::host::{SystemClock, SystemEntropy};
use crate::node_flags::NodeChoice;
use crate::pki::{self, ServerNames};
use crate::{advertise, listening, mounts};

/// The cgroup of all pods, as upstream's.
pub const CGROUP: &str = "kubepods";

pub struct RealNode {
    name: String,
    places: Places,
    network: Option<Network>,
    listener: TcpListener,
    addresses: Vec<IpAddr>,
}

impl RealNode {
    /// None: this machine is no node; why, people are told. `ranges`: where pods get their addresses from.
    pub async fn prepare(
        options: &Up,
        ranges: Option<&NodeRanges>,
        api_port: u16,
        directory: &Path,
    ) -> anyhow::Result<Option<RealNode>> {
        let wishes = Wishes {
            choice: options.real.node,
            simulated: options.nodes.sim_nodes,
            store_is_shared: matches!(options.store, StoreChoice::Etcd(_)),
        };
        match decide(wishes, &Machine::read()) {
            Decision::Real => {}
            Decision::None(why) => {
                why.iter().for_each(|why| tracing::info!("{why}"));
                return Ok(None);
            }
            Decision::Refuse(why) => bail!(why),
        }
        let port = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), options.real.kubelet_port);
        let listener = match listening::bind(port, "another node may run here; --kubelet-port takes another port") {
            Ok((listener, _)) => listener,
            Err(error) if wishes.choice == NodeChoice::Auto => {
                tracing::warn!("this machine is no node: {error:#}");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let places = Places::of(directory);
        let network = network::start(options, ranges, api_port, &places).await;
        let addresses = addresses(options, network.as_ref());
        let name = options.real.node_name.clone().unwrap_or_else(host_name);
        Ok(Some(RealNode { name, places, network, listener, addresses }))
    }

    /// Where pods reach the API server, if they have a network.
    pub fn gateway(&self) -> Option<IpAddr> {
        self.network.as_ref()?.api_addresses().first().map(SocketAddr::ip)
    }

    /// For the API server: where pods reach it.
    pub fn api_listeners(&self, listen: SocketAddr) -> Vec<TcpListener> {
        self.network.iter().flat_map(|network| network::listeners(network, listen)).collect()
    }

    /// Where claims get volumes from that are directories of this machine.
    pub fn local_path(&self) -> LocalPath {
        let directory = self.places.volumes.to_string_lossy().into_owned();
        let remove = |path: &Path| mounts::remove_tree(path).map_err(std::io::Error::other);
        let (make, remove) = (Arc::new(make_open_directory), Arc::new(remove));
        LocalPath { directory, machine: Some(LocalMachine { node: self.name.clone(), make, remove }) }
    }

    /// `pki`: the directory of certificates.
    pub async fn part(self, options: &Up, pki: &Path, client_authorities: &str) -> anyhow::Result<Part> {
        let mut names = ServerNames::default();
        names.add_dns("localhost");
        names.add_address(Ipv4Addr::LOCALHOST.into());
        self.addresses.iter().for_each(|address| names.add_address(*address));
        let pair = pki::node(pki, &self.name, names, SystemClock.now_seconds(), &SystemEntropy)?.server;
        let flags = &options.real;
        let registries = Registries { directory: flags.registry_config.clone(), ..Registries::default() };
        let runtime = runtime(&self.places, registries, self.network.clone()).await?;
        let logs = flags.pod_log_dir.clone();
        Ok(RealNodePart {
            name: self.name,
            runtime: Arc::new(runtime),
            network: self.network,
            addresses: self.addresses,
            labels: flags.node_labels.0.clone().into_iter().collect(),
            pods_max: flags.max_pods,
            root: self.places.kubelet,
            directories: Directories {
                container_logs: logs.parent().unwrap_or(Path::new("/")).join("containers"),
                pod_logs: logs,
                static_pods: flags.pod_manifest_path.clone(),
            },
            cluster_dns: flags.cluster_dns.clone(),
            cluster_domain: flags.cluster_domain.clone(),
            listener: self.listener,
            tls: tls::server_config(&pair, Some(client_authorities))?,
            client_authorities: client_authorities.to_owned(),
        }
        .into())
    }
}

/// What runs the containers, with those that an earlier life left. No network: pods have none of their own.
pub async fn runtime(places: &Places, registries: Registries, network: Option<Network>) -> anyhow::Result<Embedded> {
    let images = Store::open(&places.images).context("cannot open the images")?;
    let pull = embedded::pull_from(&images, registries);
    let config = embedded::Config {
        run_directory: places.run.clone(),
        data_directory: places.containers.clone(),
        images: Arc::new(StoredImages::new(images, pull)),
        network: network
            .map_or_else(|| Arc::new(network::NoNetwork) as Arc<dyn PodNetwork>, |network| Arc::new(network)),
        cgroup_root: CGROUP.to_owned(),
        shim_program: std::env::current_exe().context("cannot find this program's own file")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Arc::new(|| u64::try_from(SystemClock.now_micros()).unwrap_or(0) * 1000),
        entropy: Arc::new(|bytes| SystemEntropy.fill(bytes)),
        log_file_max_bytes: embedded::LOG_FILE_MAX_BYTES,
        log_files_max: embedded::LOG_FILES_MAX,
    };
    Embedded::open(config).await.context("cannot start the container runtime")
}

/// One that every user may write to: nobody knows as whom a pod will run. What is above it is closed to others. A link is
/// not followed.
fn make_open_directory(path: &Path) -> std::io::Result<()> {
    use std::fs::{DirBuilder, OpenOptions, Permissions};
    use std::io::ErrorKind;
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};

    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    let directory = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    directory.set_permissions(Permissions::from_mode(0o777))
}

/// What was asked for, or the host's own, or, where it has none, the gateway's.
fn addresses(options: &Up, network: Option<&Network>) -> Vec<IpAddr> {
    if let Some(asked) = options.real.node_ip {
        return vec![asked];
    }
    let own: Vec<IpAddr> = [true, false].into_iter().filter_map(advertise::of_default_route).collect();
    if !own.is_empty() {
        return own;
    }
    let gateway = network.and_then(|network| network.api_addresses().first().map(SocketAddr::ip));
    vec![gateway.unwrap_or(Ipv4Addr::LOCALHOST.into())]
}

/// As upstream's kubelets make a node's name of it.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase()
}
