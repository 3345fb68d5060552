//! `rkube up`: from flags to a running cluster, and back to nothing.
//!
//! The text's order is the order of the start. The directory is locked before anything is written to it, the address
//! is bound before certificates are made for it, an authority is agreed on with who else is on the store before it signs
//! any, and the kubeconfig is there before `ready` is said.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rkube_access::authorize::Mode;
use rkube_apiserver::{Config, InFlightMax, KubeletClient};
use rkube_cluster::certificates::tls;
use rkube_cluster::parts::signs_all;
use rkube_cluster::{ControlPlane, Controllers, Listener, Scheduler};
use rkube_machinery::host::Clock;
use rkube_store::Store;

use crate::cli::Up;
use crate::control::Door;
use crate::flags::StoreChoice;
use crate::host::{Started, SystemClock, SystemEntropy};
use crate::lifetime::Cluster;
use crate::listening::bind;
use crate::lock::Lock;
use crate::logging::Written;
use crate::pki::{self, ServerNames};
use crate::real_node::RealNode;
use crate::signals::Signals;
use crate::{
    advertise, authority, files, kubeconfig, lifetime, limits, logging, served, simulated_nodes, stores, tokens,
};

const LISTEN_HINT: &str = "choose another address with --listen, such as 127.0.0.1:0 for a free port";

/// Returns when a signal has ended the cluster in good order.
pub fn run(options: &Up, started: Started) -> anyhow::Result<()> {
    let log = logging::start(options.log_format);
    let signals = Signals::install().context("cannot listen for signals")?;
    lifetime::run(signals, start(options, log), |cluster| announce(cluster, started))
}

struct Held {
    url: String,
    kubeconfig: PathBuf,
    _door: Option<Door>,
    /// Let go last.
    _lock: Lock,
}

async fn start(options: &Up, log: Arc<Written>) -> anyhow::Result<Cluster<Held>> {
    let directory = options.data.path()?;
    files::make_private_directory(&directory)?;
    let mut lock = Lock::take(&directory)?;
    let (listener, address) = bind(options.listen, LISTEN_HINT)?;
    let url = url(address);
    lock.serving_at(&url);
    let store = stores::open(options, &directory, &url).await?;
    let store_is_shared = matches!(options.store, StoreChoice::Etcd(_));
    if store_is_shared {
        agree_on_authority(&*store, &directory, options.join_secret_file.as_deref()).await?;
    }

    let first_service_address = options.service_cluster_ip_range.first_address();
    let services = options.service_cluster_ip_range.ranges();
    let node_ranges = options.node_addresses.ranges(services, options.nodes.sim_nodes)?;
    let node = RealNode::prepare(options, node_ranges.as_ref(), address.port(), &directory).await?;
    let gateway = node.as_ref().and_then(RealNode::gateway);
    let advertised = advertise::address(options.advertise_address.or(gateway), options.listen.ip(), &services[0])?;
    let names = ServerNames::of_this_host(first_service_address, options.listen.ip(), advertised);
    let pki = pki::load_or_create(&directory.join("pki"), &names, SystemClock.now_seconds(), &SystemEntropy)?;
    let tokens = options.identity.token_auth_file.as_deref().map(tokens::read).transpose()?.unwrap_or_default();

    let client_authorities = options.identity.client_authorities(&pki)?;
    let config = Config {
        store: Arc::clone(&store),
        store_is_shared,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        kinds: served::kinds(rkube_kinds::all(), &options.runtime_config.0)?,
        features: served::features(&options.feature_gates.0)?,
        in_flight_max: InFlightMax {
            reading: options.max_requests_inflight,
            mutating: options.max_mutating_requests_inflight,
        },
        token_file: tokens::known(tokens),
        bootstrap_tokens: options.identity.enable_bootstrap_token_auth,
        anonymous: options.identity.anonymous_auth,
        authorization: vec![Mode::Node, Mode::Rbac],
        client_authority: client_authorities.clone(),
        tokens: options.identity.tokens(&pki)?,
        service_ranges: options.service_cluster_ip_range.ranges().to_vec(),
        node_ports: options.service_node_port_range.first..=options.service_node_port_range.last,
        advertise: (advertised, address.port()),
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        components: Vec::new(),
        log: Arc::new(move || log.check(&SystemClock)),
        kubelet: KubeletClient::of_cluster(
            &pki.ca.certificate,
            &pki.kubelet_client.certificate,
            &pki.kubelet_client.key,
        ),
        disabled_plugins: Vec::new(),
    };
    let serving = options.identity.serving()?;
    let tls = tls::server_config(serving.as_ref().unwrap_or(&pki.server), Some(&client_authorities))?;
    // By what clients know the server.
    let root_ca = [pki.ca.certificate.as_str(), serving.as_ref().map_or("", |pair| &pair.certificate)].concat();
    let election = options.election.election(store_is_shared, &config.host_name, lock.identity(&config.host_name))?;
    let controllers = Controllers {
        root_ca: root_ca.clone(),
        signing: options.controller_flags.signing.authorities()?.unwrap_or_else(|| signs_all(&pki.ca)),
        selection: options.controllers.clone(),
        settings: options.controller_flags.settings(),
        node_ranges,
        election: election.clone(),
        local_path: node.as_ref().map(RealNode::local_path).or_else(|| options.nodes.local_path()),
    };
    let mut parts = vec![controllers.into()];
    if !options.no_scheduler {
        parts.push(Scheduler { host_name: config.host_name.clone(), election }.into());
    }
    let ranges_are_given =
        options.node_addresses.allocate_node_cidrs && options.controllers.has("node-ipam-controller");
    parts.extend(options.nodes.part(ranges_are_given)?);
    let also = node.iter().flat_map(|node| node.api_listeners(address)).collect();
    if let Some(node) = node {
        parts.push(node.part(options, &directory.join("pki"), &client_authorities).await?);
    }
    let listener = Listener { listener, also, tls, connections_max: limits::connections() };
    let control_plane = ControlPlane::start(config, Some(listener), parts).await?;
    simulated_nodes::warn_if_none(control_plane.host());

    let kubeconfig = directory.join("kubeconfig");
    kubeconfig::write(&kubeconfig, &url, &root_ca, &pki.admin);
    let door = open_door(&directory, &store);
    Ok(Cluster { control_plane, store, held: Held { url, kubeconfig, _door: door, _lock: lock } })
}

async fn agree_on_authority(store: &dyn Store, directory: &Path, secret_file: Option<&Path>) -> anyhow::Result<()> {
    let place = authority::Place {
        data_directory: directory,
        secret_file,
        now_seconds: SystemClock.now_seconds(),
        entropy: &SystemEntropy,
    };
    Ok(authority::agree(store, &place).await?)
}

/// The one line on stdout that tells people and scripts that everything answers.
fn announce(cluster: &Cluster<Held>, started: Started) -> anyhow::Result<()> {
    let Held { url, kubeconfig, .. } = &cluster.held;
    let (milliseconds, kubeconfig) = (started.elapsed().as_millis(), kubeconfig.display());
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "ready in {milliseconds} ms  {url}  KUBECONFIG={kubeconfig}")
        .and_then(|()| stdout.flush())
        .context("cannot write to stdout")
}

/// Where a client on this host reaches the address.
fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}

/// Not worth failing for: without it a backup is still made when the process has ended.
fn open_door(directory: &Path, store: &Arc<dyn Store>) -> Option<Door> {
    match Door::open(directory, Arc::clone(store)) {
        Ok(door) => Some(door),
        Err(error) => {
            tracing::warn!(%error, "`rkube store save` will not work while this runs: cannot open the control socket");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_an_address_that_answers() {
        let table = [
            ("127.0.0.1:6443", "https://127.0.0.1:6443"),
            ("0.0.0.0:6443", "https://127.0.0.1:6443"),
            ("[::]:1", "https://[::1]:1"),
            ("192.0.2.1:443", "https://192.0.2.1:443"),
        ];
        for (address, expected) in table {
            assert_eq!(url(address.parse().unwrap()), expected);
        }
    }
}
