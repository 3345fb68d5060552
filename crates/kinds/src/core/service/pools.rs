//! The addresses and node ports that services share.
//!
//! A pool has two bands: what clients ask for by number may be anywhere, what the cluster picks comes from the upper
//! band while that has room. So a number from the lower band is unlikely to be taken when somebody asks for it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rkube_machinery::names::address::Subnet;

use super::families::Family;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("range is full")]
    Full,
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
        let whole = 1u64.checked_shl(host_bits).unwrap_or(u64::MAX);
        let reserved = if network.is_ipv4() { 2 } else { 1 };
        let offset = if whole <= 16 { 0 } else { (whole / 16).clamp(16, 256) };
        IpRange {
            subnet: Subnet { address: network, length: subnet.length },
            first: to_number(network) + 1,
            size: whole.saturating_sub(reserved),
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

    /// A free address, looked for from a random place on: first in the upper band, then in the lower one.
    pub fn pick(&self, used: &BTreeSet<IpAddr>, random: u64) -> Option<IpAddr> {
        let free = |position: u64| !used.contains(&self.address(position));
        pick(self.size, self.offset, random, free).map(|position| self.address(position))
    }
}

/// Service addresses in one family.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub range: IpRange,
    used: BTreeSet<IpAddr>,
}

impl Addresses {
    pub fn new(range: IpRange) -> Addresses {
        Addresses { range, used: BTreeSet::new() }
    }

    /// Takes this address.
    pub fn take(&mut self, address: IpAddr) -> Result<(), PoolError> {
        if !self.range.subnet.contains(address) {
            return Err(PoolError::WrongNetwork);
        }
        self.range.check(address)?;
        if self.used.insert(address) { Ok(()) } else { Err(PoolError::AddressTaken) }
    }

    /// Takes any address.
    pub fn take_any(&mut self, random: u64) -> Result<IpAddr, PoolError> {
        let address = self.range.pick(&self.used, random).ok_or(PoolError::Full)?;
        self.used.insert(address);
        Ok(address)
    }

    pub fn release(&mut self, address: IpAddr) {
        self.used.remove(&address);
    }

    pub fn has(&self, address: IpAddr) -> bool {
        self.used.contains(&address)
    }
}

/// Ports that are open on every node.
#[derive(Clone, Debug)]
pub struct Ports {
    first: u16,
    last: u16,
    used: BTreeSet<u16>,
}

impl Default for Ports {
    fn default() -> Self {
        Ports::new(30000, 32767)
    }
}

impl Ports {
    pub fn new(first: u16, last: u16) -> Ports {
        Ports { first, last: last.max(first), used: BTreeSet::new() }
    }

    pub fn take(&mut self, port: i64) -> Result<(), PoolError> {
        let Some(port) = u16::try_from(port).ok().filter(|port| (self.first..=self.last).contains(port)) else {
            return Err(PoolError::PortOutside { first: self.first, last: self.last });
        };
        if self.used.insert(port) { Ok(()) } else { Err(PoolError::PortTaken) }
    }

    pub fn take_any(&mut self, random: u64) -> Result<i64, PoolError> {
        let size = u64::from(self.last - self.first) + 1;
        let offset = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
        let at = |position: u64| self.first + u16::try_from(position).unwrap_or(0);
        let position = pick(size, offset, random, |position| !self.used.contains(&at(position)));
        let port = position.map(at).ok_or(PoolError::Full)?;
        self.used.insert(port);
        Ok(i64::from(port))
    }

    pub fn release(&mut self, port: i64) {
        if let Ok(port) = u16::try_from(port) {
            self.used.remove(&port);
        }
    }

    pub fn has(&self, port: i64) -> bool {
        u16::try_from(port).is_ok_and(|port| self.used.contains(&port))
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
    use super::*;

    fn addresses(subnet: &str) -> Addresses {
        Addresses::new(IpRange::new(Subnet::parse_sloppy(subnet).unwrap()))
    }

    #[test]
    fn picked_addresses_come_from_the_upper_band_first() {
        let mut pool = addresses("10.0.0.0/24");
        assert_eq!(pool.range.first(), "10.0.0.1".parse::<IpAddr>().unwrap());
        // Of 254 addresses, 16 are in the lower band.
        let picked: Vec<IpAddr> = (0..238).map(|number| pool.take_any(number * 7919).unwrap()).collect();
        assert!(picked.iter().all(|address| *address >= "10.0.0.17".parse::<IpAddr>().unwrap()));
        assert!(picked.contains(&"10.0.0.254".parse().unwrap()));
        for number in 0..16 {
            assert!(pool.take_any(number).unwrap() < "10.0.0.17".parse::<IpAddr>().unwrap());
        }
        assert_eq!(pool.take_any(3), Err(PoolError::Full));
        pool.release("10.0.0.9".parse().unwrap());
        assert_eq!(pool.take_any(3), Ok("10.0.0.9".parse().unwrap()));
    }

    #[test]
    fn addresses_that_cannot_be_had() {
        let mut pool = addresses("10.0.0.0/24");
        let take = |pool: &mut Addresses, address: &str| pool.take(address.parse().unwrap()).map_err(|e| e.to_string());
        assert_eq!(take(&mut pool, "10.0.0.5"), Ok(()));
        assert_eq!(take(&mut pool, "10.0.0.5"), Err("provided IP is already allocated".to_owned()));
        assert_eq!(
            take(&mut pool, "10.0.0.255"),
            Err("the provided IP (10.0.0.255) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
                .to_owned())
        );
        assert_eq!(
            take(&mut pool, "10.0.1.5"),
            Err("the provided network does not match the current range".to_owned())
        );
        assert!(addresses("fd00::/108").take_any(u64::MAX).is_ok());
        assert_eq!(addresses("10.0.0.0/32").take_any(1), Err(PoolError::Full));
    }

    #[test]
    fn ports_have_bands_too() {
        let mut ports = Ports::default();
        for number in 0..500 {
            assert!(ports.take_any(number * 104_729).unwrap() >= 30086);
        }
        assert_eq!(ports.take(30080), Ok(()));
        assert_eq!(ports.take(30080).unwrap_err().to_string(), "provided port is already allocated");
        assert_eq!(
            ports.take(80).unwrap_err().to_string(),
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        );
    }
}
