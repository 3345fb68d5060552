//! The node that this machine is: what is a `kubelet` elsewhere, under the node's own identity.

use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rkube_access::authenticate::certificate::{Authority, Proof};
use rkube_machinery::host::Clock;
use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Text, Value, json, object};
use rkube_network::Network;
use rkube_node::real::{self, Directories, Machine, prepare};
use rkube_node::server::access::{DelegatedAccess, User};
use rkube_node::server::{self, Pods};
use rkube_operator::kube::Client;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Manager, Selection};
use rkube_runtime::api::Runtime;
use rustls::ServerConfig;
use tokio::sync::{Notify, watch};

use super::{Part, metrics_reader};
use crate::host::{Host, node_user};

const AGENT: &str = "kubelet";

/// What the node is made of.
pub struct RealNode {
    pub name: String,
    pub runtime: Arc<dyn Runtime>,
    /// Whom to tell where pods get their addresses from.
    pub network: Option<Network>,
    /// The node's own, the first one first; at most one of each family.
    pub addresses: Vec<IpAddr>,
    pub labels: Vec<(String, String)>,
    pub pods_max: u32,
    /// Where volumes of pods and the like are.
    pub root: PathBuf,
    pub directories: Directories,
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// Where it serves logs, exec and figures: bound and non-blocking.
    pub listener: TcpListener,
    pub tls: ServerConfig,
    /// Of the certificates by which clients of that are known, as PEM.
    pub client_authorities: String,
}

impl From<RealNode> for Part {
    fn from(options: RealNode) -> Part {
        let name = options.name.clone();
        Part::new(None, move |host| start(options, host)).settled(move |host| ready(host, name))
    }
}

fn start(options: RealNode, host: &Host) -> Manager {
    let user = node_user(&options.name);
    let caches = Caches::new(host.source(user.clone()));
    let client = host.client_for(&caches, user, AGENT);
    let machine = Machine::read("/".as_ref());
    let preparer = match preparer(&options, host, &caches, &client, &machine) {
        Ok(preparer) => preparer,
        Err(error) => {
            let root = options.root.display();
            tracing::error!(%error, "this machine is no node: {root} cannot be made");
            return Manager::with_caches(caches);
        }
    };
    let (clock, name) = (host.clock().clone(), Text::from(options.name.as_str()));
    let port = options.listener.local_addr().map_or(0, |address| address.port());
    let (mut manager, pods) = real::start(real::Config {
        name: name.clone(),
        caches: caches.clone(),
        client: client.clone(),
        runtime: options.runtime.clone(),
        prepare: preparer,
        clock: clock.clone(),
        entropy: host.entropy().clone(),
        addresses: options.addresses,
        labels: options.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        taints: Vec::new(),
        machine,
        directories: options.directories,
        pods_max: options.pods_max,
        port,
        pod_ranges: Vec::new(),
    });
    let server = Server {
        node: name.clone(),
        runtime: options.runtime,
        pods: Arc::new(Known(pods)),
        access: Arc::new(access(&client, &clock, &name, &options.client_authorities)),
        clock,
        listener: options.listener,
        tls: options.tls,
    };
    let server = Arc::new(server);
    host.server().measure_nodes();
    manager.add("kubelet-server", move || server.clone().run());
    if let Some(network) = options.network {
        let (caches, network) = (caches.clone(), network);
        manager.add("pod-ranges", move || follow_ranges(own_node(&caches, &name), network.clone()));
    }
    manager
}

fn preparer(
    options: &RealNode,
    host: &Host,
    caches: &Caches,
    client: &Client,
    machine: &Machine,
) -> std::io::Result<Arc<prepare::Preparer>> {
    let recorder =
        rkube_operator::events::Recorder::start_on(client.clone(), host.clock().clone(), AGENT, &options.name);
    prepare::Preparer::start(prepare::Config {
        client: client.clone(),
        caches: caches.clone(),
        clock: host.clock().clone(),
        entropy: host.entropy().clone(),
        root: options.root.clone(),
        logs: options.directories.pod_logs.clone(),
        cluster_dns: options.cluster_dns.clone(),
        cluster_domain: options.cluster_domain.clone(),
        resolv_conf: "/etc/resolv.conf".into(),
        allocatable: machine.allocatable(0, options.pods_max),
        memory_capacity_bytes: machine.memory_bytes,
        recorder: Some(recorder),
    })
}

/// The certificates of the cluster's clients are good here, and the server says what everybody may do.
fn access(client: &Client, clock: &Arc<dyn Clock>, node: &Text, authorities: &str) -> DelegatedAccess {
    let (authority, now) = (Authority::new(authorities), clock.clone());
    let of_certificates = move |chain: &[rustls::pki_types::CertificateDer<'_>]| {
        let Proof::User { user, .. } = authority.proof(chain, now.now_seconds()) else { return None };
        let groups = user.groups.iter().map(ToString::to_string).collect();
        Some(User { name: user.name.to_string(), groups, ..User::default() })
    };
    DelegatedAccess::new(client.clone(), clock.clone(), node.clone(), of_certificates)
}

struct Known(Arc<real::Pods>);

impl Pods for Known {
    fn pods(&self) -> Vec<Arc<Value>> {
        self.0.all()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0.find(namespace, name)
    }
}

struct Server {
    node: Text,
    runtime: Arc<dyn Runtime>,
    pods: Arc<dyn Pods>,
    access: Arc<DelegatedAccess>,
    clock: Arc<dyn Clock>,
    listener: TcpListener,
    tls: ServerConfig,
}

impl Server {
    async fn run(self: Arc<Self>) {
        let listener = self.listener.try_clone().and_then(tokio::net::TcpListener::from_std);
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the node cannot serve its port"),
        };
        let config = server::Config {
            node: self.node.clone(),
            runtime: self.runtime.clone(),
            pods: self.pods.clone(),
            access: self.access.clone(),
            clock: self.clock.clone(),
            configuration: object! { "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1" },
        };
        // Stops when this future is dropped, with the manager.
        let (_stop, stopped) = watch::channel(false);
        server::serve(config, listener, self.tls.clone(), stopped).await;
    }
}

/// What of a Node is of interest here.
struct NodeView {
    ranges: Vec<Subnet>,
    is_ready: bool,
}

fn own_node(caches: &Caches, name: &str) -> (Informer<NodeView>, Arc<Notify>) {
    let changed = Arc::new(Notify::new());
    let notify = changed.clone();
    let selection = Selection { fields: Some(format!("metadata.name={name}").into()), ..Selection::default() };
    let node = caches.view(&ApiResource::erase::<Node>(&()), selection, view);
    (node.on_change(move |_| notify.notify_one()), changed)
}

fn view(item: &Item) -> Option<NodeView> {
    let node = json::parse(&item.json).ok()?;
    let is_ready = |condition: &Value| condition.str("type") == "Ready" && condition.str("status") == "True";
    let ranges = node.get("spec").list("podCIDRs");
    Some(NodeView {
        ranges: ranges.iter().filter_map(|range| Subnet::parse_sloppy(range.as_str())).collect(),
        is_ready: node.get("status").list("conditions").iter().any(is_ready),
    })
}

/// Tells the network from what range the node's pods get their addresses.
async fn follow_ranges((node, changed): (Informer<NodeView>, Arc<Notify>), network: Network) {
    let mut told = Vec::new();
    loop {
        let ranges = node.all().first().map(|node| node.ranges.clone()).unwrap_or_default();
        if ranges != told {
            match network.set_pod_ranges(ranges.clone()).await {
                Ok(()) => told = ranges,
                Err(error) => tracing::error!(%error, "the network of pods cannot have the range of this node"),
            }
        }
        changed.notified().await;
    }
}

/// Waits until the node takes pods.
async fn ready(host: Host, name: String) {
    metrics_reader::create_role(&host).await;
    let caches = Caches::new(host.source(node_user(&name)));
    let (node, changed) = own_node(&caches, &name);
    while !node.all().first().is_some_and(|node| node.is_ready) {
        changed.notified().await;
    }
}
