//! Which part of the cluster's address ranges each node has for its pods, as a pure model.
//!
//! What two nodes claim is free when neither of them does any more: a node that claims another's range, and goes, takes
//! nothing from the other.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rkube_machinery::Text;
use rkube_machinery::names::address::Subnet;

/// Of IPv6 no more than so many bits number the nodes; upstream's.
const IPV6_NODE_BITS_MAX: u8 = 16;

/// The cluster's ranges, of each family one, and who has which part of them.
#[derive(Debug)]
pub struct Ranges {
    ranges: Vec<Range>,
    nodes: HashMap<Text, Held>,
}

/// What a node has.
#[derive(Debug)]
struct Held {
    uid: Text,
    cidrs: Vec<Subnet>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Ranges {
    /// Each range with the length of what one node gets of it, and the ranges of services, of which no node gets any.
    pub fn new(ranges: &[(Subnet, u8)], services: &[Subnet]) -> Result<Ranges, String> {
        let ranges = ranges.iter().map(|(range, length)| Range::new(*range, *length));
        let mut ranges: Vec<Range> = ranges.collect::<Result<_, _>>()?;
        for service in services {
            ranges.iter_mut().for_each(|range| range.claim(*service));
        }
        Ok(Ranges { ranges, nodes: HashMap::new() })
    }

    /// The node is there, and says that it has these (or none yet).
    pub fn node_is(&mut self, name: &Text, uid: &Text, cidrs: &[Subnet]) {
        match self.nodes.get(name) {
            Some(held) if held.uid != *uid => self.node_gone(name),
            Some(held) if cidrs.is_empty() || held.cidrs == cidrs => return,
            Some(_) => self.node_gone(name),
            None => {}
        }
        if !cidrs.is_empty() {
            self.hold(name, uid, cidrs.to_vec());
        }
    }

    /// The node is no more.
    pub fn node_gone(&mut self, name: &Text) {
        if let Some(held) = self.nodes.remove(name) {
            for (range, cidr) in self.ranges.iter_mut().zip(held.cidrs) {
                range.release(cidr);
            }
        }
    }

    /// The node did not take what it was given.
    pub fn give_back(&mut self, name: &Text, uid: &Text) {
        if self.nodes.get(name).is_some_and(|held| held.uid == *uid) {
            self.node_gone(name);
        }
    }

    /// What this node gets: the same however often it is asked until the node is gone.
    pub fn allocate(&mut self, name: &Text, uid: &Text) -> Result<Vec<Subnet>, Exhausted> {
        if let Some(held) = self.nodes.get(name).filter(|held| held.uid == *uid) {
            return Ok(held.cidrs.clone());
        }
        self.node_gone(name);
        let free: Option<Vec<u64>> = self.ranges.iter().map(Range::next_free).collect();
        let free = free.ok_or(Exhausted)?;
        let cidrs: Vec<Subnet> = self.ranges.iter().zip(&free).map(|(range, index)| range.block(*index)).collect();
        for (range, index) in self.ranges.iter_mut().zip(free) {
            range.next = (index + 1) % range.blocks;
        }
        self.hold(name, uid, cidrs.clone());
        Ok(cidrs)
    }

    fn hold(&mut self, name: &Text, uid: &Text, cidrs: Vec<Subnet>) {
        for (range, cidr) in self.ranges.iter_mut().zip(&cidrs) {
            range.claim(*cidr);
        }
        self.nodes.insert(name.clone(), Held { uid: uid.clone(), cidrs });
    }
}

/// One range, in blocks of which a node gets one.
#[derive(Debug)]
struct Range {
    whole: Subnet,
    /// Of a node's block.
    length: u8,
    blocks: u64,
    /// Where to look first: what was given back is not given out again at once.
    next: u64,
    /// How many claim a block.
    claims: HashMap<u64, u32>,
    /// What was claimed of more than one block at once, from first to last.
    wide: Vec<(u64, u64)>,
}

impl Range {
    fn new(whole: Subnet, length: u8) -> Result<Range, String> {
        let (bits, bits_max) = if whole.address.is_ipv4() { (32, 32) } else { (128, IPV6_NODE_BITS_MAX) };
        if length < whole.length || length > bits {
            return Err(format!("a node's /{length} is no part of {whole}"));
        }
        let node_bits = length - whole.length;
        if node_bits > bits_max {
            return Err(format!(
                "a node's /{length} is too small for {whole}: at most {bits_max} bits number the nodes"
            ));
        }
        let whole = Subnet { address: whole.masked(), length: whole.length };
        Ok(Range { whole, length, blocks: 1 << node_bits, next: 0, claims: HashMap::new(), wide: Vec::new() })
    }

    /// The first block from `next` on that nobody claims.
    fn next_free(&self) -> Option<u64> {
        let (mut index, mut left) = (self.next, self.blocks);
        while left > 0 {
            let wide = self.wide.iter().filter(|(first, last)| (*first..=*last).contains(&index));
            let step = match wide.map(|(_, last)| last - index + 1).max() {
                Some(step) => step,
                None if self.claims.contains_key(&index) => 1,
                None => return Some(index),
            };
            left = left.saturating_sub(step);
            index = (index + step) % self.blocks;
        }
        None
    }

    fn block(&self, index: u64) -> Subnet {
        let address = match self.whole.address {
            IpAddr::V4(address) => {
                let offset = (u64::from(address.to_bits()) | index << (32 - self.length)) as u32;
                IpAddr::V4(Ipv4Addr::from_bits(offset))
            }
            IpAddr::V6(address) => {
                let offset = u128::from(index).checked_shl(u32::from(128 - self.length)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() | offset))
            }
        };
        Subnet { address, length: self.length }
    }

    fn claim(&mut self, cidr: Subnet) {
        match self.blocks_of(cidr) {
            Some((first, last)) if first == last => *self.claims.entry(first).or_default() += 1,
            Some(blocks) => self.wide.push(blocks),
            None => {}
        }
    }

    fn release(&mut self, cidr: Subnet) {
        let Some((first, last)) = self.blocks_of(cidr) else { return };
        if first != last {
            if let Some(place) = self.wide.iter().position(|blocks| *blocks == (first, last)) {
                self.wide.swap_remove(place);
            }
        } else if let Some(claims) = self.claims.get_mut(&first) {
            *claims -= 1;
            if *claims == 0 {
                self.claims.remove(&first);
            }
        }
    }

    /// The first and the last block that have addresses of this one; None if it lies elsewhere.
    fn blocks_of(&self, cidr: Subnet) -> Option<(u64, u64)> {
        if cidr.address.is_ipv4() != self.whole.address.is_ipv4() {
            return None;
        }
        if cidr.length <= self.whole.length {
            return cidr.contains(self.whole.address).then_some((0, self.blocks - 1));
        }
        if !self.whole.contains(cidr.address) {
            return None;
        }
        let first = self.index_of(cidr.masked());
        Some((first, first + (1_u64 << self.length.saturating_sub(cidr.length)) - 1))
    }

    fn index_of(&self, address: IpAddr) -> u64 {
        match (address, self.whole.address) {
            (IpAddr::V4(address), IpAddr::V4(whole)) => {
                u64::from(address.to_bits() ^ whole.to_bits()) >> (32 - self.length)
            }
            (IpAddr::V6(address), IpAddr::V6(whole)) => {
                let offset = address.to_bits() ^ whole.to_bits();
                offset.checked_shr(u32::from(128 - self.length)).unwrap_or(0) as u64
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str) -> Subnet {
        Subnet::parse_sloppy(text).unwrap()
    }

    fn subnets(text: &str) -> Vec<Subnet> {
        text.split_whitespace().map(subnet).collect()
    }

    fn texts(cidrs: Result<Vec<Subnet>, Exhausted>) -> String {
        let Ok(cidrs) = cidrs else { return "none".to_owned() };
        cidrs.iter().map(Subnet::to_string).collect::<Vec<_>>().join(" ")
    }

    /// Words: `+name` asks for a node, `-name` lets it go, `name=cidr,cidr` says what it has.
    fn play(ranges: &mut Ranges, script: &str) -> Vec<String> {
        let mut given = Vec::new();
        for word in script.split_whitespace() {
            if let Some(name) = word.strip_prefix('+') {
                given.push(texts(ranges.allocate(&name.into(), &"1".into())));
            } else if let Some(name) = word.strip_prefix('-') {
                ranges.node_gone(&name.into());
            } else if let Some((name, cidrs)) = word.split_once('=') {
                ranges.node_is(&name.into(), &"1".into(), &subnets(&cidrs.replace(',', " ")));
            }
        }
        given
    }

    #[test]
    fn nodes_get_their_part() {
        // Ranges with a node's length, ranges of services, what happens, and what is given out.
        let table: [(&str, &str, &str, &[&str]); 12] = [
            ("10.244.0.0/16 24", "", "+a +b +a", &["10.244.0.0/24", "10.244.1.0/24", "10.244.0.0/24"]),
            ("10.0.0.0/30 31", "", "+a +b +c -a +c", &["10.0.0.0/31", "10.0.0.2/31", "none", "10.0.0.0/31"]),
            // What was given back comes last.
            ("10.0.0.0/30 32", "", "+a -a +b", &["10.0.0.0/32", "10.0.0.1/32"]),
            ("fd00::/48 64", "", "+a +b", &["fd00::/64", "fd00:0:0:1::/64"]),
            ("fd00::/120 124", "", "+a +b", &["fd00::/124", "fd00::10/124"]),
            ("fd00::/56 72", "", "+a +b", &["fd00::/72", "fd00::100:0:0:0/72"]),
            ("10.0.0.0/16 24 fd00::/56 64", "", "+a +b", &["10.0.0.0/24 fd00::/64", "10.0.1.0/24 fd00:0:0:1::/64"]),
            // One family is exhausted: none of the other is lost.
            (
                "10.0.0.0/31 32 fd00::/64 64",
                "",
                "+a +b -a +b",
                &["10.0.0.0/32 fd00::/64", "none", "10.0.0.1/32 fd00::/64"],
            ),
            ("10.0.0.0/16 24", "10.0.0.0/23", "+a", &["10.0.2.0/24"]),
            // What nodes have is theirs, of whatever size, and elsewhere if they like.
            (
                "10.0.0.0/16 24",
                "",
                "x=10.0.0.0/23 y=10.0.2.128/25 z=192.168.0.0/24 +a -x +b",
                &["10.0.3.0/24", "10.0.4.0/24"],
            ),
            ("10.0.0.0/24 26", "", "x=0.0.0.0/0 +a -x +a", &["none", "10.0.0.0/26"]),
            // Two claim the same; one goes.
            (
                "10.0.0.0/31 32",
                "",
                "x=10.0.0.0/32 y=10.0.0.0/32 -y +a +b -x +b",
                &["10.0.0.1/32", "none", "10.0.0.0/32"],
            ),
        ];
        for (ranges, services, script, expected) in table {
            let words: Vec<&str> = ranges.split_whitespace().collect();
            let parts: Vec<_> = words.chunks(2).map(|part| (subnet(part[0]), part[1].parse().unwrap())).collect();
            let mut ranges = Ranges::new(&parts, &subnets(services)).unwrap();
            assert_eq!(play(&mut ranges, script), expected, "{words:?} {script}");
        }
    }

    #[test]
    fn a_node_of_the_same_name_is_another() {
        let mut ranges = Ranges::new(&[(subnet("10.0.0.0/30"), 32)], &[]).unwrap();
        assert_eq!(texts(ranges.allocate(&"a".into(), &"1".into())), "10.0.0.0/32");
        assert_eq!(texts(ranges.allocate(&"a".into(), &"2".into())), "10.0.0.1/32");
        ranges.node_is(&"a".into(), &"3".into(), &[]);
        assert!(ranges.nodes.is_empty() && ranges.ranges[0].claims.is_empty());
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        for (range, length, fits) in [
            ("10.0.0.0/16", 15, false),
            ("10.0.0.0/16", 16, true),
            ("10.0.0.0/0", 32, true),
            ("10.0.0.0/16", 33, false),
            ("fd00::/48", 64, true),
            ("fd00::/48", 65, false),
        ] {
            assert_eq!(Ranges::new(&[(subnet(range), length)], &[]).is_ok(), fits, "{range} {length}");
        }
    }
}
