//! What a node's network is to be.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use rkube_machinery::names::address::Subnet;

#[derive(Clone, Debug)]
pub struct Config {
    /// What everything here is called by: the table of rules has this name, the gateway's interface it with a `0`.
    pub name: String,
    /// Under which the host is known to pods: one address, or one of each family. Pods never get them.
    pub gateways: Vec<IpAddr>,
    /// Where the pods of all nodes have their addresses: what goes there keeps its source.
    pub cluster_ranges: Vec<Subnet>,
    /// Where the pods of this node get theirs: one range, or one of each family. Empty: not known yet.
    pub pod_ranges: Vec<Subnet>,
    pub service_ranges: Vec<Subnet>,
    pub api: Option<Api>,
    /// What has to outlive this process, not the machine. Nobody else writes there.
    pub state_directory: PathBuf,
}

/// How pods reach the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    /// What pods are told: address and port of the service.
    pub service: SocketAddr,
    /// Where the server listens: on a gateway's address.
    pub backend: SocketAddr,
}

impl Config {
    /// The address of a range that is its gateway: the first after the network's own.
    pub fn gateway_of(range: Subnet) -> IpAddr {
        match range.masked() {
            IpAddr::V4(address) => IpAddr::V4((u32::from(address) | 1).into()),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) | 1).into()),
        }
    }

    /// Where the gateways' addresses are.
    pub(crate) fn interface(&self) -> String {
        format!("{}0", self.name)
    }

    pub(crate) fn gateway(&self, v4: bool) -> Option<IpAddr> {
        self.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == v4)
    }

    /// The families that the cluster's pods have.
    pub(crate) fn families(&self) -> impl Iterator<Item = bool> {
        [true, false].into_iter().filter(|v4| self.gateway(*v4).is_some())
    }
}

/// What the host's ends of pods' links begin with: by it rules know them.
pub(crate) const LINK_PREFIX: &str = "rkv";

/// The host's end of a sandbox's links: found by the sandbox's id alone, and within the fifteen characters of such names.
pub(crate) fn link_name(sandbox: &str) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = sandbox.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{LINK_PREFIX}{:012x}", (hash ^ hash >> 48) & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_links_fit() {
        let name = link_name(&"0123456789abcdef".repeat(4));
        assert_eq!((name.len(), name.starts_with(LINK_PREFIX)), (15, true));
        assert_ne!(name, link_name("a"));
        assert_eq!(link_name("a"), link_name("a"));
    }

    #[test]
    fn the_gateway_is_the_first_address() {
        for (range, gateway) in [("10.244.0.0/16", "10.244.0.1"), ("10.1.2.0/24", "10.1.2.1"), ("fd00::/64", "fd00::1")]
        {
            assert_eq!(Config::gateway_of(Subnet::parse_sloppy(range).unwrap()).to_string(), gateway);
        }
    }
}
