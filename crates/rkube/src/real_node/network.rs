//! The network of this node's pods: made before the API server is, which listens on its gateway, too.

use std::net::{IpAddr, SocketAddr, TcpListener};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use rkube_cluster::parts::NodeRanges;
use rkube_network::{Api, Config, Network};
use rkube_runtime::api::{Attachment, Error, PodNetwork, Result};

use super::Places;
use crate::cli::Up;
use crate::listening::bind;

/// By which interfaces and rules of it are known.
pub const NAME: &str = "rkube";
/// Of the service `kubernetes`.
const SERVICE_PORT: u16 = 443;

/// None where pods have no addresses, as nobody gives them any.
pub async fn start(options: &Up, ranges: Option<&NodeRanges>, api_port: u16, places: &Places) -> Option<Network> {
    let cluster_ranges: Vec<_> = ranges?.ranges.iter().map(|(range, _)| *range).collect();
    let gateways: Vec<IpAddr> = cluster_ranges.iter().map(|range| Config::gateway_of(*range)).collect();
    let service = options.service_cluster_ip_range.first_address();
    let backend = gateways.iter().copied().find(|gateway| gateway.is_ipv4() == service.is_ipv4());
    let network = Network::start(Config {
        name: NAME.to_owned(),
        gateways,
        cluster_ranges,
        pod_ranges: Vec::new(),
        service_ranges: options.service_cluster_ip_range.ranges().to_vec(),
        api: backend.map(|gateway| Api {
            service: SocketAddr::new(service, SERVICE_PORT),
            backend: SocketAddr::new(gateway, api_port),
        }),
        state_directory: places.network.clone(),
    })
    .await;
    match (network.problem(), network.limitation()) {
        // That the node has no range yet is told by its status.
        (Some(problem), _) if network.api_addresses().is_empty() => {
            tracing::warn!("pods have no network of their own, only the host's (hostNetwork): {problem}")
        }
        (_, Some(limitation)) => tracing::warn!("{limitation}"),
        (_, None) => {}
    }
    Some(network)
}

/// Where pods reach the API server, beside where everybody does.
pub fn listeners(network: &Network, listen: SocketAddr) -> Vec<TcpListener> {
    let addresses =
        network.api_addresses().into_iter().filter(|address| !listen.ip().is_unspecified() && *address != listen);
    let bound = addresses.filter_map(|address| match bind(address, "pods will not reach the API server") {
        Ok((listener, _)) => Some(listener),
        Err(error) => {
            tracing::warn!("{error:#}");
            None
        }
    });
    bound.collect()
}

/// Where nobody gives nodes ranges of addresses.
pub struct NoNetwork;

const NO_ADDRESSES: &str = "pods have no addresses: --allocate-node-cidrs is off";

impl PodNetwork for NoNetwork {
    fn problem(&self) -> Option<String> {
        Some(NO_ADDRESSES.to_owned())
    }

    fn attach(&self, _: Attachment) -> BoxFuture<'_, Result<Vec<IpAddr>>> {
        ready(Err(Error::Unsupported(NO_ADDRESSES.to_owned()))).boxed()
    }

    fn detach<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed()
    }

    fn retain(&self, _: Vec<String>) -> BoxFuture<'_, Result<()>> {
        ready(Ok(())).boxed()
    }
}
