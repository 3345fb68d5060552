//! Addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::{Function, Outcome, failed, unfit};
use crate::value::Value;

/// A network: an address, of which so many bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub bits: u8,
}

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "ip" => |arguments| match &arguments[0] {
            Value::String(text) => parse_address(text).map_or_else(failed, |address| Ok(Value::Ip(address))),
            Value::Cidr(cidr) => Ok(Value::Ip(cidr.address)),
            _ => unfit(),
        },
        "isIP" => |arguments| text(arguments, |text| Ok(Value::Bool(parse_address(text).is_ok()))),
        "ip.isCanonical" => |arguments| {
            text(arguments, |text| match parse_address(text) {
                Ok(address) => Ok(Value::Bool(address.to_string() == text)),
                Err(message) => failed(message),
            })
        },
        "family" => |arguments| of(arguments, |address| Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => |arguments| of(arguments, |address| Value::Bool(address.is_unspecified())),
        "isLoopback" => |arguments| of(arguments, |address| Value::Bool(address.is_loopback())),
        "isLinkLocalMulticast" => |arguments| of(arguments, |address| Value::Bool(is_link_local_multicast(address))),
        "isLinkLocalUnicast" => |arguments| of(arguments, |address| Value::Bool(is_link_local_unicast(address))),
        "isGlobalUnicast" => |arguments| of(arguments, |address| Value::Bool(is_global_unicast(address))),
        "cidr" => |arguments| text(arguments, |text| cidr(text).map_or_else(failed, |cidr| Ok(Value::Cidr(cidr)))),
        "isCIDR" => |arguments| text(arguments, |text| Ok(Value::Bool(parse_network(text).is_ok()))),
        "containsIP" => |arguments| match arguments {
            [Value::Cidr(cidr), Value::Ip(address)] => Ok(Value::Bool(cidr.contains(address))),
            [Value::Cidr(cidr), Value::String(text)] => match parse_address(text) {
                Ok(address) => Ok(Value::Bool(cidr.contains(&address))),
                Err(message) => failed(message),
            },
            _ => unfit(),
        },
        "containsCIDR" => |arguments| match arguments {
            [Value::Cidr(one), Value::Cidr(other)] => Ok(Value::Bool(one.covers(other))),
            [Value::Cidr(one), Value::String(text)] => match cidr(text) {
                Ok(other) => Ok(Value::Bool(one.covers(&other))),
                Err(message) => failed(message),
            },
            _ => unfit(),
        },
        "prefixLength" => |arguments| match &arguments[0] {
            Value::Cidr(cidr) => Ok(Value::Int(i64::from(cidr.bits))),
            _ => unfit(),
        },
        "masked" => |arguments| match &arguments[0] {
            Value::Cidr(cidr) => Ok(Value::Cidr(Cidr { address: cidr.masked(&cidr.address), bits: cidr.bits })),
            _ => unfit(),
        },
        _ => return None,
    })
}

impl Cidr {
    fn contains(&self, address: &IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && self.masked(address) == self.masked(&self.address)
    }

    fn covers(&self, other: &Cidr) -> bool {
        self.bits <= other.bits && self.contains(&other.address)
    }

    /// The bits of the address that count here.
    fn masked(&self, address: &IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits.min(32))).unwrap_or(0);
                IpAddr::V4((u32::from(*address) & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits.min(128))).unwrap_or(0);
                IpAddr::V6((u128::from(*address) & mask).into())
            }
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

fn text<'a>(arguments: &[Value<'a>], of: fn(&str) -> Outcome<'static>) -> Outcome<'a> {
    match &arguments[0] {
        Value::String(text) => of(text),
        _ => unfit(),
    }
}

fn of<'a>(arguments: &[Value<'a>], find: fn(&IpAddr) -> Value<'static>) -> Outcome<'a> {
    match &arguments[0] {
        Value::Ip(address) => Ok(find(address)),
        _ => unfit(),
    }
}

fn parse_address(text: &str) -> Result<IpAddr, String> {
    if let Some((address, zone)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
        && !zone.is_empty()
    {
        return Err(format!("IP address \"{text}\" with zone value is not allowed"));
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address \"{text}\" is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => {
            let quoted = rkube_machinery::field::quote(text);
            let reason = address_fault(text);
            Err(format!("IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {reason}"))
        }
    }
}

/// Why this is no address, as far as one look tells.
fn address_fault(text: &str) -> &'static str {
    let Some(mark) = text.find(['.', ':', '%']) else { return "unable to parse IP" };
    match &text[mark..=mark] {
        "%" => "missing IPv6 address",
        "." => {
            let fields: Vec<&str> = text.split('.').collect();
            match fields
                .iter()
                .find(|field| field.parse::<u8>().is_err() || (field.len() > 1 && field.starts_with('0')))
            {
                Some(field) if field.bytes().any(|byte| !byte.is_ascii_digit()) => "unexpected character",
                Some(&"") => "IPv4 field must have at least one digit",
                Some(field) if field.starts_with('0') => "IPv4 field has octet with leading zero",
                Some(_) => "IPv4 field has value >255",
                None if fields.len() < 4 => "IPv4 address too short",
                None => "IPv4 address too long",
            }
        }
        _ => "unable to parse IP",
    }
}

fn cidr(text: &str) -> Result<Cidr, String> {
    parse_network(text).map_err(|reason| format!("network address parse error during conversion from string: {reason}"))
}

fn parse_network(text: &str) -> Result<Cidr, String> {
    let wrong = |reason: String| {
        let quoted = rkube_machinery::field::quote(text);
        format!("network address parse error during conversion from string: netip.ParsePrefix({quoted}): {reason}")
    };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'".to_owned()))?;
    let parsed: IpAddr = address.parse().map_err(|_| {
        wrong(format!("ParseAddr({}): {}", rkube_machinery::field::quote(address), address_fault(address)))
    })?;
    let plain = bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let quoted = rkube_machinery::field::quote(bits);
    let length: u16 =
        bits.parse().ok().filter(|_| plain).ok_or_else(|| wrong(format!("bad bits after slash: {quoted}")))?;
    let limit = if parsed.is_ipv4() { 32 } else { 128 };
    if length > limit {
        return Err(wrong("prefix length out of range".to_owned()));
    }
    if matches!(parsed, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address \"{text}\" is not allowed"));
    }
    Ok(Cidr { address: parsed, bits: length as u8 })
}

fn is_link_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}
