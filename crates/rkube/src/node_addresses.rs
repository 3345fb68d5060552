//! The flags that say which addresses nodes get for their pods; those of kube-controller-manager.

use anyhow::bail;
use clap::{ArgAction, Args};
use rkube_controllers::NodeRanges;
use rkube_machinery::names::address::Subnet;

/// What most clusters have, and how many nodes find room in it; a larger one that is clear of the services' addresses.
const RANGE: &str = "10.244.0.0/16";
const RANGE_NODES_MAX: usize = 256;
const LARGE_RANGE: &str = "10.128.0.0/9";
const IPV4_LENGTH: u8 = 24;
const IPV6_LENGTH: u8 = 64;

#[derive(Debug, Args)]
pub struct NodeAddressFlags {
    /// Whether nodes get a part of --cluster-cidr for their pods
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = ArgAction::Set)]
    pub allocate_node_cidrs: bool,

    /// Where pods get their addresses from: one range, or one of each family [default: 10.244.0.0/16, or 10.128.0.0/9 for
    /// more than 256 simulated nodes]
    #[arg(long, value_name = "CIDR[,CIDR]")]
    pub cluster_cidr: Option<String>,

    /// The length of the part of a node, where there is one range
    #[arg(long, value_name = "LENGTH")]
    pub node_cidr_mask_size: Option<u8>,

    /// The length of a node's part of IPv4 [default: 24]
    #[arg(long, value_name = "LENGTH")]
    pub node_cidr_mask_size_ipv4: Option<u8>,

    /// The length of a node's part of IPv6 [default: 64]
    #[arg(long, value_name = "LENGTH")]
    pub node_cidr_mask_size_ipv6: Option<u8>,
}

impl NodeAddressFlags {
    /// None: nodes get none. `simulated`: so many nodes are to have room at least.
    pub fn ranges(&self, services: &[Subnet], simulated: usize) -> anyhow::Result<Option<NodeRanges>> {
        if !self.allocate_node_cidrs {
            return Ok(None);
        }
        let room_for_them = if simulated > RANGE_NODES_MAX { LARGE_RANGE } else { RANGE };
        let given = self.cluster_cidr.as_deref().unwrap_or(room_for_them);
        let mut ranges: Vec<Subnet> = Vec::new();
        for text in given.split(',') {
            match Subnet::parse_sloppy(text.trim()) {
                Some(range) => ranges.push(range),
                None => bail!("--cluster-cidr: {text:?} is no range of addresses such as 10.244.0.0/16"),
            }
        }
        match ranges.as_slice() {
            [_] => {}
            [first, second] if first.address.is_ipv4() != second.address.is_ipv4() => {}
            _ => bail!("--cluster-cidr: one range, or one of IPv4 and one of IPv6, not {given}"),
        }
        let (of_ipv4, of_ipv6) = self.lengths(&ranges)?;
        let length = |range: &Subnet| if range.address.is_ipv4() { of_ipv4 } else { of_ipv6 };
        let ranges = ranges.iter().map(|range| (*range, length(range))).collect();
        let ranges = NodeRanges { ranges, services: services.to_vec() };
        match ranges.check() {
            Ok(()) => Ok(Some(ranges)),
            Err(why) => bail!("--cluster-cidr: {why}"),
        }
    }

    fn lengths(&self, ranges: &[Subnet]) -> anyhow::Result<(u8, u8)> {
        let (of_ipv4, of_ipv6) = (self.node_cidr_mask_size_ipv4, self.node_cidr_mask_size_ipv6);
        if let Some(length) = self.node_cidr_mask_size {
            if ranges.len() > 1 {
                bail!("usage of --node-cidr-mask-size is not allowed with dual-stack clusters");
            }
            if of_ipv4.is_some() || of_ipv6.is_some() {
                bail!("either --node-cidr-mask-size, or --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6");
            }
            return Ok((length, length));
        }
        let has = |ipv4: bool| ranges.iter().any(|range| range.address.is_ipv4() == ipv4);
        if of_ipv4.is_some() && !has(true) {
            bail!("usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster");
        }
        if of_ipv6.is_some() && !has(false) {
            bail!("usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster");
        }
        Ok((of_ipv4.unwrap_or(IPV4_LENGTH), of_ipv6.unwrap_or(IPV6_LENGTH)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: NodeAddressFlags,
    }

    fn ranges(arguments: &str) -> Result<String, String> {
        ranges_for(arguments, 0)
    }

    fn ranges_for(arguments: &str, nodes: usize) -> Result<String, String> {
        let arguments = std::iter::once("x").chain(arguments.split_whitespace());
        let flags = Command::try_parse_from(arguments).map_err(|error| error.to_string())?.flags;
        let ranges = flags.ranges(&[], nodes).map_err(|error| error.to_string())?;
        let texts =
            ranges.map(|ranges| ranges.ranges.iter().map(|(range, length)| format!("{range} {length}")).collect());
        Ok(texts.map_or("none".to_owned(), |texts: Vec<String>| texts.join(" ")))
    }

    #[test]
    fn flags_are_those_of_kube_controller_manager() {
        for (arguments, expected) in [
            ("", "10.244.0.0/16 24"),
            ("--allocate-node-cidrs=false --cluster-cidr=x", "none"),
            ("--allocate-node-cidrs --cluster-cidr=10.0.0.0/8 --node-cidr-mask-size=20", "10.0.0.0/8 20"),
            ("--cluster-cidr=fd00::/48", "fd00::/48 64"),
            ("--cluster-cidr=10.0.0.0/16,fd00::/100 --node-cidr-mask-size-ipv6=112", "10.0.0.0/16 24 fd00::/100 112"),
        ] {
            assert_eq!(ranges(arguments).as_deref(), Ok(expected), "{arguments}");
        }
        assert_eq!(ranges_for("", 256).as_deref(), Ok("10.244.0.0/16 24"));
        assert_eq!(ranges_for("", 257).as_deref(), Ok("10.128.0.0/9 24"));
        assert_eq!(ranges_for("--cluster-cidr=10.0.0.0/16", 257).as_deref(), Ok("10.0.0.0/16 24"));
        for arguments in [
            "--cluster-cidr=x",
            "--cluster-cidr=10.0.0.0/16,10.1.0.0/16",
            "--cluster-cidr=10.0.0.0/25",
            "--cluster-cidr=fd00::/40",
            "--cluster-cidr=10.0.0.0/16,fd00::/48 --node-cidr-mask-size=24",
            "--node-cidr-mask-size=24 --node-cidr-mask-size-ipv4=24",
            "--node-cidr-mask-size-ipv6=64",
            "--cluster-cidr=fd00::/48 --node-cidr-mask-size-ipv4=24",
        ] {
            assert!(ranges(arguments).is_err(), "{arguments}");
        }
    }
}
