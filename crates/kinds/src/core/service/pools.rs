//! The addresses and node ports that services share.
//!
//! A pool has two bands: what clients ask for by number may be anywhere, what the cluster picks comes from the upper
//! band while that has room. So a number from the lower band is unlikely to be taken when somebody asks for it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rkube_machinery::names::address::Subnet;

use super::families::Family;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("range is full")]
    Full,
    /// No range may be used now.
    #[error("allocator not ready")]
    NotReady,
    /// The store would not take it.
    #[error("{0}")]
    Failed(String),
    #[error("provided IP is already allocated")]
    AddressTaken,
    #[error("the provided network does not match the current range")]
    WrongNetwork,
    #[error("the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}")]
    AddressOutside { address: IpAddr, range: Subnet },
    #[error("provided port is already allocated")]
    PortTaken,
    #[error("provided port is not in the valid range. The range of valid ports is {first}-{last}")]
    PortOutside { first: u16, last: u16 },
}

/// The subnet of service addresses in one family, without its network and broadcast addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    subnet: Subnet,
    /// The first address that a service may have.
    first: u128,
    size: u64,
    /// How many addresses the lower band has.
    offset: u64,
}

impl IpRange {
    pub fn new(subnet: Subnet) -> IpRange {
        let network = subnet.masked();
        let bits = if network.is_ipv4() { 32 } else { 128 };
        let host_bits = u32::from(bits - subnet.length);
        let whole = 1u128.checked_shl(host_bits).unwrap_or(u128::MAX);
        let reserved = if network.is_ipv4() { 2 } else { 1 };
        let size = u64::try_from(whole.saturating_sub(reserved)).unwrap_or(u64::MAX);
        let offset = if whole <= 16 { 0 } else { u64::try_from((whole / 16).clamp(16, 256)).unwrap_or(256) };
        IpRange {
            subnet: Subnet { address: network, length: subnet.length },
            first: to_number(network).saturating_add(1),
            size,
            offset,
        }
    }

    pub fn family(&self) -> Family {
        Family::of(self.subnet.address)
    }

    /// The address of the API server's own service.
    pub fn first(&self) -> IpAddr {
        self.address(0)
    }

    /// The network's own address, which no service gets.
    pub fn network(&self) -> IpAddr {
        self.subnet.address
    }

    fn address(&self, position: u64) -> IpAddr {
        let number = self.first + u128::from(position);
        match self.subnet.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX))),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }

    /// Whether the address is one that a service may have.
    pub fn check(&self, address: IpAddr) -> Result<(), PoolError> {
        let position = to_number(address).checked_sub(self.first);
        if position.is_some_and(|position| position < u128::from(self.size)) {
            return Ok(());
        }
        Err(PoolError::AddressOutside { address, range: self.subnet })
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.subnet.contains(address)
    }

    /// A free address, looked for from a random place on: first in the upper band, then in the lower one.
    pub fn pick(&self, random: u64, free: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let position = pick(self.size, self.offset, random, |position| free(self.address(position)));
        position.map(|position| self.address(position))
    }
}

impl std::fmt::Display for IpRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.subnet.fmt(out)
    }
}

/// Ports that are open on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    pub fn new(first: u16, last: u16) -> PortRange {
        PortRange { first, last: last.max(first) }
    }

    /// Whether the port is one that a service may have.
    pub fn check(&self, port: i64) -> Result<u16, PoolError> {
        let inside = u16::try_from(port).ok().filter(|port| (self.first..=self.last).contains(port));
        inside.ok_or(PoolError::PortOutside { first: self.first, last: self.last })
    }

    /// A free port, looked for from a random place on: first in the upper band, then in the lower one.
    pub fn pick(&self, random: u64, free: impl Fn(u16) -> bool) -> Option<u16> {
        let size = u64::from(self.last - self.first) + 1;
        let offset = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
        let at = |position: u64| self.first + u16::try_from(position).unwrap_or(0);
        pick(size, offset, random, |position| free(at(position))).map(at)
    }
}

impl std::fmt::Display for PortRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}-{}", self.first, self.last)
    }
}

/// A free position, from `random` on around the upper band, then around the lower one.
fn pick(size: u64, offset: u64, random: u64, free: impl Fn(u64) -> bool) -> Option<u64> {
    let around = |start: u64, length: u64| {
        let from = if length == 0 { 0 } else { random % length };
        (from..length).chain(0..from).map(move |step| start + step)
    };
    let offset = offset.min(size);
    around(offset, size - offset).chain(around(0, offset)).find(|position| free(*position))
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn range(subnet: &str) -> IpRange {
        IpRange::new(Subnet::parse_sloppy(subnet).unwrap())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn picked_addresses_come_from_the_upper_band_first() {
        let range = range("10.0.0.0/24");
        assert_eq!(range.first(), ip("10.0.0.1"));
        let mut used = BTreeSet::new();
        let mut take = |random: u64| {
            let picked = range.pick(random, |address| !used.contains(&address))?;
            used.insert(picked);
            Some(picked)
        };
        // Of 254 addresses, 16 are in the lower band.
        let picked: Vec<IpAddr> = (0..238).map(|number| take(number * 7919).unwrap()).collect();
        assert!(picked.iter().all(|address| *address >= ip("10.0.0.17")));
        assert!(picked.contains(&ip("10.0.0.254")));
        for number in 0..16 {
            assert!(take(number).unwrap() < ip("10.0.0.17"));
        }
        assert_eq!(take(3), None);
    }

    #[test]
    fn addresses_that_cannot_be_had() {
        let outside = range("10.0.0.0/24").check(ip("10.0.0.255")).unwrap_err().to_string();
        let expected = "the provided IP (10.0.0.255) is not in the valid range. The range of valid IPs is 10.0.0.0/24";
        assert_eq!(outside, expected);
        assert!(range("10.0.0.0/24").check(ip("10.0.0.5")).is_ok());
        assert!(range("fd00::/108").pick(u64::MAX, |_| true).is_some());
        assert_eq!(range("10.0.0.0/32").pick(1, |_| true), None);
        let large = range("fd00::/64");
        assert!(large.check(ip("fd00::ffff:ffff:ffff:ffff")).is_ok());
        assert!(large.check(ip("fd00::")).is_err() && large.check(ip("fd00:0:0:1::")).is_err());
        assert_eq!(large.pick(0, |_| true), Some(ip("fd00::101")));
    }

    #[test]
    fn ports_have_bands_too() {
        let ports = PortRange::new(30000, 32767);
        for number in 0..500 {
            assert!(ports.pick(number * 104_729, |_| true).unwrap() >= 30086);
        }
        assert_eq!(ports.check(30080), Ok(30080));
        assert_eq!(
            ports.check(80).unwrap_err().to_string(),
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        );
    }
}
