//! Host ports: which are taken, and what the rules' maps are to hold for them.

use std::net::IpAddr;

use rkube_runtime::api::{PortMapping, Protocol};

use crate::error::Error;
use crate::netlink::nftables::Element;
use crate::netlink::{self, Socket, conntrack};
use crate::records::{Record, Records};
use crate::rules::Maps;

/// The mappings that mean a port of the host.
pub fn wanted(ports: &[PortMapping]) -> Vec<PortMapping> {
    ports.iter().filter(|port| port.host_port != 0).cloned().collect()
}

/// Nobody else has any of these ports on an address that both would answer on.
pub fn check(ports: &[PortMapping], sandbox: &str, records: &Records) -> Result<(), Error> {
    let others = records.iter().filter(|(id, _)| *id != sandbox).flat_map(|(_, record)| &record.ports);
    let others: Vec<&PortMapping> = others.collect();
    for (position, port) in ports.iter().enumerate() {
        if others.iter().copied().chain(&ports[..position]).any(|other| overlap(port, other)) {
            return Err(Error::PortTaken { port: describe(port) });
        }
    }
    Ok(())
}

fn overlap(one: &PortMapping, other: &PortMapping) -> bool {
    let same_address = match (host_address(one), host_address(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    one.protocol == other.protocol && one.host_port == other.host_port && same_address
}

/// None: all of them.
fn host_address(port: &PortMapping) -> Option<IpAddr> {
    port.host_ip.filter(|address| !address.is_unspecified())
}

fn describe(port: &PortMapping) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    };
    match host_address(port) {
        Some(address) => format!("{}/{protocol} on {address}", port.host_port),
        None => format!("{}/{protocol}", port.host_port),
    }
}

/// What the maps hold for a sandbox: each element with the map's name.
pub fn elements(record: &Record) -> Vec<(&'static str, Element)> {
    let mut elements = Vec::new();
    if record.ports.is_empty() {
        return elements;
    }
    for address in &record.addresses {
        let maps = Maps::of(address.is_ipv4());
        let octets = octets(*address);
        elements.push((maps.hairpin.name, Element { key: [octets.as_slice(), &octets].concat(), value: Vec::new() }));
        for port in &record.ports {
            let family_fits = port.host_ip.is_none_or(|host| host.is_ipv4() == address.is_ipv4());
            if !family_fits {
                continue;
            }
            let key = [[protocol_number(port.protocol), 0, 0, 0], padded(port.host_port)].concat();
            let value = [octets.as_slice(), &padded(port.container_port)].concat();
            elements.push(match host_address(port) {
                Some(host) => (maps.on_one_address.name, Element { key: [self::octets(host), key].concat(), value }),
                None => (maps.on_all_addresses.name, Element { key, value }),
            });
        }
    }
    elements
}

/// The kernel remembers where datagrams went before there was a port, and for a while after there is none.
pub fn forget_earlier(socket: &mut Socket, record: &Record) -> netlink::Result<()> {
    for port in record.ports.iter().filter(|port| port.protocol == Protocol::Udp) {
        for address in &record.addresses {
            conntrack::forget_unanswered(socket, address.is_ipv4(), protocol_number(port.protocol), port.host_port)?;
        }
    }
    Ok(())
}

pub fn forget(socket: &mut Socket, record: &Record) -> netlink::Result<()> {
    if record.ports.iter().any(|port| port.protocol == Protocol::Udp) {
        for address in &record.addresses {
            conntrack::forget_answers_of(socket, *address)?;
        }
    }
    Ok(())
}

fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}

fn padded(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(host_port: u16, protocol: Protocol, host_ip: Option<&str>) -> PortMapping {
        PortMapping { protocol, container_port: 80, host_port, host_ip: host_ip.map(|text| text.parse().unwrap()) }
    }

    #[test]
    fn conflicts() {
        use Protocol::{Tcp, Udp};
        let any = port(80, Tcp, None);
        let table = [
            (port(80, Tcp, None), true),
            (port(80, Tcp, Some("0.0.0.0")), true),
            (port(80, Tcp, Some("192.0.2.1")), true),
            (port(80, Udp, None), false),
            (port(81, Tcp, None), false),
        ];
        for (other, expected) in table {
            assert_eq!(overlap(&any, &other), expected, "{other:?}");
            assert_eq!(check(&[any.clone(), other.clone()], "a", &Records::default()).is_err(), expected);
        }
        assert!(!overlap(&port(80, Tcp, Some("192.0.2.1")), &port(80, Tcp, Some("192.0.2.2"))));
    }

    #[test]
    fn a_port_of_one_family_leads_to_an_address_of_it() {
        let addresses = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let ports = vec![port(80, Protocol::Tcp, None), port(81, Protocol::Udp, Some("192.0.2.1"))];
        let elements = elements(&Record { addresses, ports });
        let names: Vec<&str> = elements.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["hairpin_v4", "host_ports_v4", "host_ports_at_v4", "hairpin_v6", "host_ports_v6"]);
        assert_eq!(elements[2].1.key, [192, 0, 2, 1, 17, 0, 0, 0, 0, 81, 0, 0]);
        assert_eq!(elements[2].1.value, [10, 0, 0, 2, 0, 80, 0, 0]);
    }
}
