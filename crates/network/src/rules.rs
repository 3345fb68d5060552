//! The rules of nftables: one table, made as a whole, whose maps follow the pods.
//!
//! - To the API's service address, from pods and from the host: to the API server.
//! - To a host port on one of the host's addresses: to the pod. From loopback, and from the pod itself, with the gateway's
//!   source, since the answer would not come back otherwise.
//! - From pods to others than pods: with the host's address.
//! - To services that nobody has: refused, so that clients need not wait.
//! - From a pod to the host's 127.0.0.0/8: dropped before anything else. Links of pods with host ports route loopback
//!   addresses, for answers; without this rule the pod could reach whatever listens there alone.

use rkube_machinery::names::address::Subnet;

use crate::config::{Config, LINK_PREFIX};
use crate::netlink::nftables::{Address, BaseChain, Expression, Field, Hook, Port, Set, Transaction, Verdict};

const TCP: u8 = 6;
/// Before connections are tracked, so that an answer still has the address that the pod gave it.
const PRIORITY_RAW: i32 = -300;
const PRIORITY_DESTINATION_NAT: i32 = -100;
const PRIORITY_FILTER: i32 = 0;
const PRIORITY_SOURCE_NAT: i32 = 100;

/// The maps of a family.
pub struct Maps {
    pub on_all_addresses: Set,
    pub on_one_address: Set,
    /// Source and destination of a pod that reaches itself.
    pub hairpin: Set,
}

impl Maps {
    pub const fn of(v4: bool) -> &'static Maps {
        if v4 { &MAPS_V4 } else { &MAPS_V6 }
    }
}

const MAPS_V4: Maps = Maps {
    on_all_addresses: Set {
        name: "host_ports_v4",
        key: &[Field::Protocol, Field::Port],
        value: &[Field::Ipv4Address, Field::Port],
    },
    on_one_address: Set {
        name: "host_ports_at_v4",
        key: &[Field::Ipv4Address, Field::Protocol, Field::Port],
        value: &[Field::Ipv4Address, Field::Port],
    },
    hairpin: Set { name: "hairpin_v4", key: &[Field::Ipv4Address, Field::Ipv4Address], value: &[] },
};

const MAPS_V6: Maps = Maps {
    on_all_addresses: Set {
        name: "host_ports_v6",
        key: &[Field::Protocol, Field::Port],
        value: &[Field::Ipv6Address, Field::Port],
    },
    on_one_address: Set {
        name: "host_ports_at_v6",
        key: &[Field::Ipv6Address, Field::Protocol, Field::Port],
        value: &[Field::Ipv6Address, Field::Port],
    },
    hairpin: Set { name: "hairpin_v6", key: &[Field::Ipv6Address, Field::Ipv6Address], value: &[] },
};

/// The whole table with its maps empty, in place of one that may be there.
pub fn replace(transaction: &mut Transaction, config: &Config) {
    // What is not there cannot be deleted, and what is there may be added again.
    transaction.add_table();
    transaction.delete_table();
    transaction.add_table();
    for v4 in config.families() {
        let maps = Maps::of(v4);
        for set in [&maps.on_all_addresses, &maps.on_one_address, &maps.hairpin] {
            transaction.add_set(set);
        }
    }
    protect_loopback(transaction);
    destinations(transaction, config);
    sources(transaction, config);
    refusals(transaction, config);
}

fn protect_loopback(transaction: &mut Transaction) {
    let loopback = Subnet { address: [127, 0, 0, 0].into(), length: 8 };
    let base = BaseChain { kind: "filter", hook: Hook::Prerouting, priority: PRIORITY_RAW, drops: false };
    transaction.add_base_chain("protect_loopback", base);
    transaction.add_rule(
        "protect_loopback",
        &[
            Expression::From(LINK_PREFIX),
            Expression::Family { v4: true },
            Expression::Destination(loopback),
            Expression::Verdict(Verdict::Drop),
        ],
    );
}

fn destinations(transaction: &mut Transaction, config: &Config) {
    transaction.add_chain("services");
    transaction.add_chain("host_ports");
    if let Some(api) = config.api {
        let address = api.service.ip();
        let length = if address.is_ipv4() { 32 } else { 128 };
        transaction.add_rule(
            "services",
            &[
                Expression::Family { v4: address.is_ipv4() },
                Expression::Destination(Subnet { address, length }),
                Expression::TransportIs(TCP),
                Expression::DestinationPort(api.service.port()),
                Expression::DestinationNat {
                    address: Address::Is(api.backend.ip()),
                    port: Port::Is(api.backend.port()),
                },
            ],
        );
    }
    for v4 in config.families() {
        host_ports(transaction, v4);
    }
    for (name, hook) in [("prerouting", Hook::Prerouting), ("output", Hook::Output)] {
        let base = BaseChain { kind: "nat", hook, priority: PRIORITY_DESTINATION_NAT, drops: false };
        transaction.add_base_chain(name, base);
        transaction.add_rule(name, &[Expression::Verdict(Verdict::Jump("services"))]);
        transaction.add_rule(name, &[Expression::DestinationIsLocal, Expression::Verdict(Verdict::Jump("host_ports"))]);
    }
}

/// The port of one address comes before that of all.
fn host_ports(transaction: &mut Transaction, v4: bool) {
    let maps = Maps::of(v4);
    let address_registers = if v4 { 1 } else { 4 };
    // The key from register 0 on, the value behind it.
    let (transport, port) = (address_registers, address_registers + 1);
    let into = port + 1;
    let nat = |into: u32| Expression::DestinationNat {
        address: Address::InRegister { v4, register: into },
        port: Port::InRegister(into + address_registers),
    };
    transaction.add_rule(
        "host_ports",
        &[
            Expression::Family { v4 },
            Expression::LoadDestination { v4, register: 0 },
            Expression::LoadTransport { register: transport },
            Expression::LoadDestinationPort { register: port },
            Expression::Find { map: maps.on_one_address.name, register: 0, into },
            nat(into),
        ],
    );
    transaction.add_rule(
        "host_ports",
        &[
            Expression::Family { v4 },
            Expression::LoadTransport { register: 0 },
            Expression::LoadDestinationPort { register: 1 },
            Expression::Find { map: maps.on_all_addresses.name, register: 0, into: 2 },
            nat(2),
        ],
    );
}

fn sources(transaction: &mut Transaction, config: &Config) {
    let base = BaseChain { kind: "nat", hook: Hook::Postrouting, priority: PRIORITY_SOURCE_NAT, drops: false };
    transaction.add_base_chain("postrouting", base);
    for v4 in config.families() {
        let Some(gateway) = config.gateway(v4) else { continue };
        let address_registers = if v4 { 1 } else { 4 };
        transaction.add_rule(
            "postrouting",
            &[
                Expression::Family { v4 },
                Expression::LoadSource { v4, register: 0 },
                Expression::LoadDestination { v4, register: address_registers },
                Expression::In { set: Maps::of(v4).hairpin.name, register: 0 },
                Expression::SourceNat { address: gateway },
            ],
        );
        let of_family = |range: &&Subnet| range.address.is_ipv4() == v4;
        for range in config.cluster_ranges.iter().filter(of_family) {
            let mut rule = vec![Expression::Family { v4 }, Expression::Source(*range)];
            rule.extend(config.cluster_ranges.iter().filter(of_family).copied().map(Expression::DestinationOutside));
            rule.push(Expression::Masquerade);
            transaction.add_rule("postrouting", &rule);
        }
    }
    if let Some(gateway) = config.gateway(true) {
        let loopback = Subnet { address: [127, 0, 0, 0].into(), length: 8 };
        transaction.add_rule(
            "postrouting",
            &[
                Expression::To(LINK_PREFIX),
                Expression::Family { v4: true },
                Expression::Source(loopback),
                Expression::SourceNat { address: gateway },
            ],
        );
    }
}

/// What is still addressed to a service now was no service's.
fn refusals(transaction: &mut Transaction, config: &Config) {
    for (name, hook) in [("refuse_forwarded", Hook::Forward), ("refuse_sent", Hook::Output)] {
        transaction.add_base_chain(name, BaseChain { kind: "filter", hook, priority: PRIORITY_FILTER, drops: false });
        for range in &config.service_ranges {
            let v4 = range.address.is_ipv4();
            transaction
                .add_rule(name, &[Expression::Family { v4 }, Expression::Destination(*range), Expression::Reject]);
        }
    }
}
