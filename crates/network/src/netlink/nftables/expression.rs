//! What rules are made of: small steps over registers of four bytes.

use std::net::IpAddr;

use rkube_machinery::names::address::Subnet;

use super::super::batch::Attributes;

/// Where steps leave what they find; the kernel has sixteen of them, from 8 on.
const REGISTERS: u32 = 8;
/// The one that holds verdicts.
const VERDICT_REGISTER: u32 = 0;

const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const VALUE: u16 = 1;

const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;

const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

/// A step of a rule. One that does not match ends the rule.
///
/// `Load…` steps fill registers from their number on; what looks at registers says from which one on.
pub enum Expression<'a> {
    /// Packets of this family only: what looks at addresses comes behind it.
    Family {
        v4: bool,
    },
    /// The interface that it came from, or goes to, has a name that begins so.
    From(&'a str),
    To(&'a str),
    /// TCP, UDP or SCTP by its number.
    TransportIs(u8),
    Source(Subnet),
    Destination(Subnet),
    DestinationOutside(Subnet),
    DestinationPort(u16),
    /// It is one of the host's own addresses.
    DestinationIsLocal,
    LoadSource {
        v4: bool,
        register: u32,
    },
    LoadDestination {
        v4: bool,
        register: u32,
    },
    LoadTransport {
        register: u32,
    },
    LoadDestinationPort {
        register: u32,
    },
    /// What begins in this register is in the set.
    In {
        set: &'a str,
        register: u32,
    },
    /// What begins in this register is in the map, and its value goes where `into` says.
    Find {
        map: &'a str,
        register: u32,
        into: u32,
    },
    /// Its destination becomes this one.
    DestinationNat {
        address: Address,
        port: Port,
    },
    SourceNat {
        address: IpAddr,
    },
    /// Its source becomes the address of the interface that it leaves by.
    Masquerade,
    Verdict(Verdict<'a>),
    /// The sender is told at once that nobody is there.
    Reject,
}

pub enum Verdict<'a> {
    Accept,
    Drop,
    Jump(&'a str),
}

#[derive(Clone, Copy)]
pub enum Address {
    Is(IpAddr),
    InRegister { v4: bool, register: u32 },
}

#[derive(Clone, Copy)]
pub enum Port {
    Is(u16),
    InRegister(u32),
}

impl Expression<'_> {
    /// The step as the kernel takes it: some of ours are two of its.
    pub(super) fn write(&self, list: &mut List<'_, '_>) {
        match self {
            Expression::Family { v4 } => {
                list.meta(META_FAMILY, 0);
                list.compare(0, EQUAL, &[if *v4 { FAMILY_V4 } else { FAMILY_V6 }]);
            }
            Expression::From(prefix) => {
                list.meta(META_FROM, 0);
                list.compare(0, EQUAL, prefix.as_bytes());
            }
            Expression::To(prefix) => {
                list.meta(META_TO, 0);
                list.compare(0, EQUAL, prefix.as_bytes());
            }
            Expression::TransportIs(protocol) => {
                list.meta(META_TRANSPORT, 0);
                list.compare(0, EQUAL, &[*protocol]);
            }
            Expression::Source(prefix) => list.prefix(*prefix, true, EQUAL),
            Expression::Destination(prefix) => list.prefix(*prefix, false, EQUAL),
            Expression::DestinationOutside(prefix) => list.prefix(*prefix, false, NOT_EQUAL),
            Expression::DestinationPort(port) => {
                list.payload(TRANSPORT_HEADER, 2, 2, 0);
                list.compare(0, EQUAL, &port.to_be_bytes());
            }
            Expression::DestinationIsLocal => list.destination_is_local(),
            Expression::LoadSource { v4, register } => list.address(*v4, true, *register),
            Expression::LoadDestination { v4, register } => list.address(*v4, false, *register),
            Expression::LoadTransport { register } => list.meta(META_TRANSPORT, *register),
            Expression::LoadDestinationPort { register } => list.payload(TRANSPORT_HEADER, 2, 2, *register),
            Expression::In { set, register } => list.lookup(set, *register, None),
            Expression::Find { map, register, into } => list.lookup(map, *register, Some(*into)),
            Expression::DestinationNat { address, port } => list.nat(true, *address, Some(*port)),
            Expression::SourceNat { address } => list.nat(false, Address::Is(*address), None),
            Expression::Masquerade => list.add("masq", |data| _ = data.number_be(1, RANDOM_PORTS)),
            Expression::Verdict(verdict) => list.verdict(verdict),
            Expression::Reject => list.add("reject", |data| {
                data.number_be(1, UNREACHABLE_ANY_FAMILY).bytes(2, &[NO_PORT]);
            }),
        }
    }
}

const META_FROM: u32 = 6;
const META_TO: u32 = 7;
const META_FAMILY: u32 = 15;
const META_TRANSPORT: u32 = 16;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
/// Two connections at the same time do not try the same port.
const RANDOM_PORTS: u32 = 1 << 4;
const UNREACHABLE_ANY_FAMILY: u32 = 2;
const NO_PORT: u8 = 1;

/// The steps of a rule as they are written.
pub(super) struct List<'a, 'b> {
    pub(super) attributes: &'a mut Attributes<'b>,
}

impl List<'_, '_> {
    fn add(&mut self, name: &str, fill: impl FnOnce(&mut Attributes<'_>)) {
        self.attributes.nested(super::ITEM, |item| {
            item.text(EXPRESSION_NAME, name).nested(EXPRESSION_DATA, fill);
        });
    }

    fn meta(&mut self, key: u32, register: u32) {
        self.add("meta", |data| _ = data.number_be(1, REGISTERS + register).number_be(2, key));
    }

    fn payload(&mut self, base: u32, offset: u32, length: u32, register: u32) {
        self.add("payload", |data| {
            data.number_be(1, REGISTERS + register).number_be(2, base).number_be(3, offset).number_be(4, length);
        });
    }

    fn compare(&mut self, register: u32, operator: u32, value: &[u8]) {
        self.add("cmp", |data| {
            data.number_be(1, REGISTERS + register).number_be(2, operator);
            data.nested(3, |data| _ = data.bytes(VALUE, value));
        });
    }

    fn address(&mut self, v4: bool, source: bool, register: u32) {
        let (offset, length) = match (v4, source) {
            (true, true) => (12, 4),
            (true, false) => (16, 4),
            (false, true) => (8, 16),
            (false, false) => (24, 16),
        };
        self.payload(NETWORK_HEADER, offset, length, register);
    }

    fn prefix(&mut self, prefix: Subnet, source: bool, operator: u32) {
        self.address(prefix.address.is_ipv4(), source, 0);
        let ones = match prefix.address {
            IpAddr::V4(_) => octets(Subnet { address: IpAddr::from([0xff; 4]), length: prefix.length }.masked()),
            IpAddr::V6(_) => octets(Subnet { address: IpAddr::from([0xff; 16]), length: prefix.length }.masked()),
        };
        self.add("bitwise", |data| {
            let length = u32::try_from(ones.len()).expect("4 or 16");
            data.number_be(1, REGISTERS).number_be(2, REGISTERS).number_be(3, length);
            data.nested(4, |mask| _ = mask.bytes(VALUE, &ones));
            data.nested(5, |xor| _ = xor.bytes(VALUE, &vec![0; ones.len()]));
        });
        self.compare(0, operator, &octets(prefix.masked()));
    }

    fn destination_is_local(&mut self) {
        const RESULT_TYPE: u32 = 3;
        const BY_DESTINATION: u32 = 2;
        const LOCAL: u32 = 2;
        self.add("fib", |data| {
            data.number_be(1, REGISTERS).number_be(2, RESULT_TYPE).number_be(3, BY_DESTINATION);
        });
        // In the host's byte order, unlike everything that is read from packets.
        self.compare(0, EQUAL, &LOCAL.to_ne_bytes());
    }

    fn lookup(&mut self, set: &str, register: u32, into: Option<u32>) {
        self.add("lookup", |data| {
            data.text(1, set).number_be(2, REGISTERS + register);
            if let Some(into) = into {
                data.number_be(3, REGISTERS + into);
            }
        });
    }

    fn immediate(&mut self, register: u32, value: &[u8]) {
        self.add("immediate", |data| {
            data.number_be(1, REGISTERS + register).nested(2, |data| _ = data.bytes(VALUE, value));
        });
    }

    fn nat(&mut self, destination: bool, address: Address, port: Option<Port>) {
        const ADDRESS_REGISTER: u32 = 0;
        const PORT_REGISTER: u32 = 4;
        let (v4, address_register) = match address {
            Address::Is(address) => {
                self.immediate(ADDRESS_REGISTER, &octets(address));
                (address.is_ipv4(), ADDRESS_REGISTER)
            }
            Address::InRegister { v4, register } => (v4, register),
        };
        let port_register = port.map(|port| match port {
            Port::Is(port) => {
                self.immediate(PORT_REGISTER, &port.to_be_bytes());
                PORT_REGISTER
            }
            Port::InRegister(register) => register,
        });
        self.add("nat", |data| {
            data.number_be(1, u32::from(destination));
            data.number_be(2, u32::from(if v4 { FAMILY_V4 } else { FAMILY_V6 }));
            data.number_be(3, REGISTERS + address_register);
            match port_register {
                Some(register) => data.number_be(5, REGISTERS + register),
                None => data.number_be(7, RANDOM_PORTS),
            };
        });
    }

    fn verdict(&mut self, verdict: &Verdict<'_>) {
        const VERDICT: u16 = 2;
        const DROP: i32 = 0;
        const ACCEPT: i32 = 1;
        const JUMP: i32 = -3;
        self.add("immediate", |data| {
            data.number_be(1, VERDICT_REGISTER).nested(2, |data| {
                data.nested(VERDICT, |code| {
                    match verdict {
                        Verdict::Accept => code.bytes(1, &ACCEPT.to_be_bytes()),
                        Verdict::Drop => code.bytes(1, &DROP.to_be_bytes()),
                        Verdict::Jump(chain) => code.bytes(1, &JUMP.to_be_bytes()).text(2, chain),
                    };
                });
            });
        });
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
