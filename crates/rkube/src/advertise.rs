//! Under which address others reach this server: what `--advertise-address` says, the address that it listens on, or,
//! where that is any or loopback, the host's own on its default route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rkube_machinery::names::address::Subnet;

const ROUTES_V4: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("service IP family {services:?} must match public address family {address:?}: see --advertise-address")]
    OtherFamily { services: String, address: String },
}

/// `None` where there is no address that endpoints could have: people are told.
pub fn address(asked: Option<IpAddr>, listen: IpAddr, services: &Subnet) -> Result<Option<IpAddr>, Error> {
    let fits = |address: &IpAddr| address.is_ipv4() == services.address.is_ipv4();
    match asked.filter(|asked| !asked.is_unspecified()) {
        Some(asked) if fits(&asked) => return Ok(Some(asked)),
        Some(asked) => {
            return Err(Error::OtherFamily { services: services.to_string(), address: asked.to_string() });
        }
        None => {}
    }
    let found = if listen.is_unspecified() || listen.is_loopback() {
        Host::read().choose(services.address.is_ipv4())
    } else {
        Some(listen).filter(fits)
    };
    if found.is_none() {
        tracing::warn!(
            "the service `kubernetes` has no endpoints: this host has no address for them; see --advertise-address"
        );
    }
    Ok(found)
}

/// The host's own address on its default route, of this family; not one that only some network would reach.
pub fn of_default_route(v4: bool) -> Option<IpAddr> {
    Host::read().routed(v4)
}

/// What there is to choose from.
#[derive(Default)]
struct Host {
    routes_v4: String,
    routes_v6: String,
    interfaces: Vec<Interface>,
}

struct Interface {
    name: String,
    address: IpAddr,
    /// Whether it is neither loopback nor the end of a tunnel.
    is_ordinary: bool,
}

impl Host {
    fn read() -> Host {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let interfaces =
            if_addrs::get_if_addrs().unwrap_or_default().into_iter().filter(if_addrs::Interface::is_oper_up);
        let interfaces = interfaces.map(|interface| Interface {
            address: interface.ip(),
            is_ordinary: !interface.is_p2p() && interface.name != "lo",
            name: interface.name,
        });
        Host { routes_v4: read(ROUTES_V4), routes_v6: read(ROUTES_V6), interfaces: interfaces.collect() }
    }

    /// An address on a default route; else one that some network would reach.
    fn choose(&self, v4: bool) -> Option<IpAddr> {
        let ordinary = |interface: &&Interface| self.fits(interface, v4) && interface.is_ordinary;
        self.routed(v4).or_else(|| self.interfaces.iter().find(ordinary).map(|interface| interface.address))
    }

    fn routed(&self, v4: bool) -> Option<IpAddr> {
        let names = if v4 { default_routes_v4(&self.routes_v4) } else { default_routes_v6(&self.routes_v6) };
        let on = |name: &str| {
            let mut fitting = self.interfaces.iter().filter(|interface| self.fits(interface, v4));
            fitting.find(|interface| interface.name == name)
        };
        // Where interfaces have addresses of their link only, the host's own is on loopback.
        let routed = names.iter().find_map(|name| on(name).or_else(|| on("lo")));
        routed.map(|interface| interface.address)
    }

    fn fits(&self, interface: &Interface, v4: bool) -> bool {
        interface.address.is_ipv4() == v4 && is_global(interface.address)
    }
}

/// The interfaces of the default routes: `eth0 00000000 010200C0 …`.
fn default_routes_v4(text: &str) -> Vec<&str> {
    let default = |line: &str| line.split_ascii_whitespace().nth(1) == Some("00000000");
    text.lines().filter(|line| default(line)).filter_map(|line| line.split_ascii_whitespace().next()).collect()
}

/// The destination comes first, the gateway fifth, the interface tenth. Without a gateway it is loopback's.
fn default_routes_v6(text: &str) -> Vec<&str> {
    let zero = "0".repeat(32);
    text.lines()
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_ascii_whitespace().collect();
            let [destination, _, _, _, gateway, _, _, _, _, name, ..] = columns.as_slice() else { return None };
            (*destination == zero && *gateway != zero).then_some(*name)
        })
        .collect()
}

/// What others can reach: not this host alone, not a link alone, not many.
fn is_global(address: IpAddr) -> bool {
    let local = match address {
        IpAddr::V4(address) => address.is_link_local() || address == Ipv4Addr::BROADCAST,
        IpAddr::V6(address) => address.is_unicast_link_local() || address == Ipv6Addr::UNSPECIFIED,
    };
    !local && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
";
    const V6: &str = "\
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth1
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003 eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo
";

    fn host(routes: bool, addresses: &[(&str, &str)]) -> Host {
        let interface = |(name, address): &(&str, &str)| Interface {
            name: (*name).to_owned(),
            address: address.parse().unwrap(),
            is_ordinary: !matches!(*name, "lo" | "tun0"),
        };
        let text = |text: &str| if routes { text.to_owned() } else { String::new() };
        Host { routes_v4: text(V4), routes_v6: text(V6), interfaces: addresses.iter().map(interface).collect() }
    }

    #[test]
    fn the_default_route_counts() {
        let usual = [("lo", "127.0.0.1"), ("eth1", "198.51.100.1"), ("eth0", "169.254.0.1"), ("eth0", "192.0.2.2")];
        let six = [("lo", "::1"), ("eth1", "fd00::1"), ("eth0", "fe80::2"), ("eth0", "fd00::2")];
        // Routes or none, the addresses of the host, of which family, and what is chosen.
        type Addresses<'a> = &'a [(&'a str, &'a str)];
        let table: [(bool, Addresses<'_>, bool, Option<&str>); 8] = [
            (true, &usual, true, Some("192.0.2.2")),
            (true, &six, false, Some("fd00::2")),
            (true, &six, true, None),
            (false, &usual, true, Some("198.51.100.1")),
            (false, &[("lo", "127.0.0.1"), ("tun0", "192.0.2.9")], true, None),
            (true, &[("eth0", "169.254.0.1"), ("lo", "192.0.2.7")], true, Some("192.0.2.7")),
            (true, &[("lo", "127.0.0.1")], true, None),
            (true, &[], false, None),
        ];
        for (routes, addresses, v4, expected) in table {
            let found = host(routes, addresses).choose(v4).map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{addresses:?}");
        }
    }

    #[test]
    fn what_is_asked_for_counts_first() {
        let services = Subnet::parse_sloppy("10.96.0.0/12").unwrap();
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        let find = |asked: Option<&str>, listen: &str| address(asked.map(parse), parse(listen), &services);
        assert_eq!(find(Some("127.0.0.1"), "0.0.0.0"), Ok(Some(parse("127.0.0.1"))));
        assert_eq!(find(None, "192.0.2.1"), Ok(Some(parse("192.0.2.1"))));
        assert_eq!(find(Some("0.0.0.0"), "192.0.2.1"), Ok(Some(parse("192.0.2.1"))));
        assert_eq!(find(None, "fd00::1"), Ok(None));
        let error = find(Some("fd00::1"), "0.0.0.0").unwrap_err().to_string();
        assert!(
            error.starts_with(r#"service IP family "10.96.0.0/12" must match public address family "fd00::1""#),
            "{error}"
        );
    }
}
