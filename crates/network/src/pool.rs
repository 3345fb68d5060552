//! Which addresses of a range are free.
//!
//! They are given out in turn, so that one that was given back rests as long as it can: what still remembers its last pod
//! is not sent to the next one.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rkube_machinery::names::address::Subnet;

pub struct Pool {
    pub range: Subnet,
    reserved: Vec<IpAddr>,
    taken: BTreeSet<u128>,
    /// How far from the range's first address the next one is looked for.
    next: u128,
}

/// The network's own address, and the first one: by custom the gateway's, wherever it really is.
const FIRST: u128 = 2;

impl Pool {
    pub fn new(range: Subnet, reserved: &[IpAddr]) -> Pool {
        Pool { range, reserved: reserved.to_vec(), taken: BTreeSet::new(), next: FIRST }
    }

    /// One that nobody has.
    pub fn take(&mut self) -> Option<IpAddr> {
        let last = self.last()?;
        let start = self.next.clamp(FIRST, last);
        // At most one look for each that is taken or reserved, plus one.
        let found = (start..=last).chain(FIRST..start).find(|offset| self.is_free(*offset))?;
        self.taken.insert(found);
        self.next = found + 1;
        if self.next > last {
            self.next = FIRST;
        }
        Some(self.address(found))
    }

    /// Somebody has it already. False where it is none of this range.
    pub fn mark(&mut self, address: IpAddr) -> bool {
        let Some(offset) = self.offset(address) else { return false };
        self.taken.insert(offset);
        self.next = self.next.max(offset + 1);
        true
    }

    pub fn give_back(&mut self, address: IpAddr) {
        if let Some(offset) = self.offset(address) {
            self.taken.remove(&offset);
        }
    }

    fn is_free(&self, offset: u128) -> bool {
        !self.taken.contains(&offset) && !self.reserved.contains(&self.address(offset))
    }

    /// The last one's place: in IPv4 the very last is everybody's.
    fn last(&self) -> Option<u128> {
        let bits: u32 = if self.range.address.is_ipv4() { 32 } else { 128 };
        let hosts = 1u128.checked_shl(bits - u32::from(self.range.length)).map_or(u128::MAX, |size| size - 1);
        let last = if self.range.address.is_ipv4() { hosts.checked_sub(1)? } else { hosts };
        (last >= FIRST).then_some(last)
    }

    fn address(&self, offset: u128) -> IpAddr {
        match self.range.masked() {
            IpAddr::V4(base) => {
                let offset = u32::try_from(offset).expect("offsets lie within the range");
                IpAddr::V4(Ipv4Addr::from_bits(base.to_bits() | offset))
            }
            IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from_bits(base.to_bits() | offset)),
        }
    }

    fn offset(&self, address: IpAddr) -> Option<u128> {
        if !self.range.contains(address) {
            return None;
        }
        match (address, self.range.masked()) {
            (IpAddr::V4(address), IpAddr::V4(base)) => Some(u128::from(address.to_bits() - base.to_bits())),
            (IpAddr::V6(address), IpAddr::V6(base)) => Some(address.to_bits() - base.to_bits()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(range: &str, reserved: &[&str]) -> Pool {
        let reserved: Vec<IpAddr> = reserved.iter().map(|text| text.parse().unwrap()).collect();
        Pool::new(Subnet::parse_sloppy(range).unwrap(), &reserved)
    }

    fn texts(pool: &mut Pool) -> Vec<String> {
        std::iter::from_fn(|| pool.take()).map(|address| address.to_string()).collect()
    }

    #[test]
    fn every_address_is_given_out_once() {
        assert_eq!(
            texts(&mut pool("10.0.0.8/29", &[])),
            ["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"]
        );
        assert_eq!(texts(&mut pool("10.0.0.0/29", &["10.0.0.4", "10.0.0.6"])), ["10.0.0.2", "10.0.0.3", "10.0.0.5"]);
        assert_eq!(texts(&mut pool("fd00::/126", &[])), ["fd00::2", "fd00::3"]);
        assert_eq!(texts(&mut pool("10.0.0.0/24", &[])).len(), 253);
        for none in ["10.0.0.0/30", "10.0.0.0/31", "10.0.0.0/32", "fd00::/127", "fd00::/128"] {
            let found = texts(&mut pool(none, &["10.0.0.2"]));
            assert!(found.is_empty(), "{none}: {found:?}");
        }
    }

    #[test]
    fn what_was_given_back_rests() {
        let mut pool = pool("10.0.0.0/29", &[]);
        let first = pool.take().unwrap();
        pool.give_back(first);
        assert_eq!(pool.take().unwrap().to_string(), "10.0.0.3");
        let rest = texts(&mut pool);
        assert_eq!(rest.last().unwrap(), &first.to_string());
    }

    #[test]
    fn what_others_have_is_left_alone() {
        let mut pool = pool("10.0.0.0/29", &[]);
        assert!(pool.mark("10.0.0.3".parse().unwrap()));
        assert!(!pool.mark("10.0.1.3".parse().unwrap()) && !pool.mark("fd00::3".parse().unwrap()));
        assert_eq!(texts(&mut pool), ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2"]);
    }

    #[test]
    fn large_ranges_cost_no_more() {
        let mut pool = pool("fd00::/64", &[]);
        assert!(pool.mark("fd00::ffff:ffff:ffff:ffff".parse().unwrap()));
        assert_eq!(pool.take().unwrap().to_string(), "fd00::2");
        assert_eq!(Pool::new(Subnet::parse_sloppy("::/0").unwrap(), &[]).take().unwrap().to_string(), "::2");
    }
}
