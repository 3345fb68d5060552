//! Addresses of pods, out of the ranges of their nodes. No two pods get the same one, also where two nodes claim the same
//! range.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_machinery::names::address::Subnet;

/// So many addresses of a range are looked at for one that is free; with none the pod waits.
const TRIED_MAX: u32 = 1 << 16;

#[derive(Default)]
pub struct Addresses {
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    used: HashSet<IpAddr>,
    /// Where each node goes on: an address is not used again at once.
    next: HashMap<Text, u32>,
}

impl Addresses {
    /// One address of each range. None where a range has none left.
    pub fn take(&self, node: &str, ranges: &[Subnet]) -> Option<Vec<IpAddr>> {
        let mut pool = self.pool.lock();
        let mut start = pool.next.get(node).copied().unwrap_or(0);
        let mut taken = Vec::with_capacity(ranges.len());
        for range in ranges {
            // The first is the network's, the second its gateway's, the last is for all.
            let room = size(*range).saturating_sub(3).min(TRIED_MAX);
            let free = (0..room).map(|step| start.wrapping_add(step) % room).find_map(|offset| {
                let address = nth(range.masked(), offset + 2);
                (!pool.used.contains(&address)).then_some((address, offset))
            });
            let Some((address, offset)) = free else {
                taken.iter().for_each(|address| {
                    pool.used.remove(address);
                });
                return None;
            };
            start = offset;
            pool.used.insert(address);
            taken.push(address);
        }
        pool.next.insert(node.into(), start.wrapping_add(1));
        Some(taken)
    }

    /// Those of a pod that has them already.
    pub fn keep(&self, addresses: &[IpAddr]) {
        self.pool.lock().used.extend(addresses);
    }

    pub fn release(&self, addresses: &[IpAddr]) {
        let mut pool = self.pool.lock();
        addresses.iter().for_each(|address| {
            pool.used.remove(address);
        });
    }
}

/// How many addresses a range has; at most a little more than are ever looked at.
fn size(range: Subnet) -> u32 {
    let bits = match range.address {
        IpAddr::V4(_) => 32_u8,
        IpAddr::V6(_) => 128,
    };
    let free = u32::from(bits.saturating_sub(range.length)).min(20);
    1 << free
}

fn nth(first: IpAddr, offset: u32) -> IpAddr {
    match first {
        IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(offset)).into(),
        IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(offset.into())).into(),
    }
}

/// The range of a node that nobody gives one.
pub fn fallback_range(index: usize) -> Subnet {
    let [high, low] = u16::try_from(index).unwrap_or(u16::MAX).to_be_bytes();
    Subnet { address: Ipv4Addr::new(10, 128 | (high & 0x7f), low, 0).into(), length: 24 }
}

/// The address of a node itself.
pub fn host_address(index: usize) -> IpAddr {
    let number = u32::try_from(index).unwrap_or(0);
    Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 24, 0, 0)) + number + 2).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str) -> Subnet {
        Subnet::parse_sloppy(text).unwrap()
    }

    #[test]
    fn no_two_pods_have_one_address() {
        let addresses = Addresses::default();
        let range = [subnet("10.0.0.0/29")];
        let mut taken = Vec::new();
        for node in ["a", "b", "a", "b", "a"] {
            taken.push(addresses.take(node, &range).unwrap()[0].to_string());
        }
        taken.sort();
        assert_eq!(taken, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        assert_eq!(addresses.take("a", &range), None);
        addresses.release(&["10.0.0.4".parse().unwrap()]);
        addresses.keep(&["10.0.0.4".parse().unwrap()]);
        assert_eq!(addresses.take("a", &range), None, "another has it");
        addresses.release(&["10.0.0.4".parse().unwrap()]);
        assert_eq!(addresses.take("a", &range).unwrap()[0].to_string(), "10.0.0.4");
    }

    #[test]
    fn two_ranges_give_two_addresses_or_none() {
        let addresses = Addresses::default();
        let ranges = [subnet("10.0.0.0/24"), subnet("fd00:10::/120")];
        let first = addresses.take("a", &ranges).unwrap();
        let texts: Vec<_> = first.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.2", "fd00:10::2"]);
        let second = addresses.take("a", &ranges).unwrap();
        assert_eq!(second[1].to_string(), "fd00:10::3");
        let small = [subnet("10.1.0.0/24"), subnet("fd00:11::/127")];
        assert_eq!(addresses.take("b", &small), None);
        assert_eq!(
            addresses.take("b", &small[..1]).unwrap()[0].to_string(),
            "10.1.0.2",
            "what was taken is free again"
        );
    }
}
