//! The values that flags take. Each parses from text and says in its error what it expects.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use rkube_machinery::names::address::Subnet;
use rkube_machinery::time::parse_duration;

/// A duration as Go writes it, such as `1m30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoDuration(pub Duration);

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let nanos = u64::try_from(parse_duration(text)?).map_err(|_| "a duration cannot be negative".to_owned())?;
        Ok(GoDuration(Duration::from_nanos(nanos)))
    }
}

/// Where objects are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    Embedded,
    Memory,
    /// The URLs of the etcd's members.
    Etcd(Vec<String>),
}

impl FromStr for StoreChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "embedded" => Ok(StoreChoice::Embedded),
            None if text == "memory" => Ok(StoreChoice::Memory),
            Some(("etcd", urls)) => {
                let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
                match urls.iter().find(|url| !is_http_url(url)) {
                    Some(url) => Err(format!("{url:?} is no URL of an etcd, such as http://127.0.0.1:2379")),
                    None => Ok(StoreChoice::Etcd(urls)),
                }
            }
            _ => Err("expected `embedded`, `memory` or `etcd=URL[,URL]`".to_owned()),
        }
    }
}

fn is_http_url(text: &str) -> bool {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(char::is_whitespace))
}

/// Where services get their addresses from: `10.96.0.0/12`, or a range of each family. The first one's family is the
/// one that services have by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRanges(Vec<Subnet>);

const IPV4_LENGTH_MIN: u8 = 2;
const IPV6_LENGTH_MIN: u8 = 64;
/// The first range has at least eight addresses.
const HOST_BITS_MIN: u8 = 3;

impl ServiceRanges {
    pub fn ranges(&self) -> &[Subnet] {
        &self.0
    }

    /// The address of the `kubernetes` service: the first after the network's own.
    pub fn first_address(&self) -> IpAddr {
        match self.0[0].address {
            IpAddr::V4(address) => IpAddr::V4((u32::from(address) | 1).into()),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) | 1).into()),
        }
    }
}

impl FromStr for ServiceRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ranges = text.split(',').map(parse_range).collect::<Result<Vec<_>, _>>()?;
        let (bits, family) = if ranges[0].address.is_ipv4() { (32, "IPv4") } else { (128, "IPv6") };
        if bits - ranges[0].length < HOST_BITS_MIN {
            return Err(format!("{} is too small: it needs at least 8 addresses", ranges[0]));
        }
        match ranges.as_slice() {
            [_] => {}
            [first, second] if first.address.is_ipv4() != second.address.is_ipv4() => {}
            [first, second] => {
                return Err(format!("{first} and {second} are both of {family}: give one of IPv4 and one of IPv6"));
            }
            more => return Err(format!("one range, or one of IPv4 and one of IPv6, not {}", more.len())),
        }
        Ok(ServiceRanges(ranges))
    }
}

fn parse_range(text: &str) -> Result<Subnet, String> {
    let range = Subnet::parse_sloppy(text).filter(|range| range.address.to_canonical() == range.address);
    let Some(range) = range else {
        return Err(format!(
            "{text:?} is no range of addresses; expected one such as 10.96.0.0/12, or one of each family such as \
             10.96.0.0/12,fd00:10:96::/112"
        ));
    };
    let length_min = if range.address.is_ipv4() { IPV4_LENGTH_MIN } else { IPV6_LENGTH_MIN };
    if range.length < length_min {
        return Err(format!("{range} is too large: at most /{length_min} can be used"));
    }
    Ok(Subnet { address: range.masked(), length: range.length })
}

impl fmt::Display for ServiceRanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(Subnet::to_string).collect();
        formatter.write_str(&texts.join(","))
    }
}

/// Ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(PortRange { first, last }),
            _ => Err("expected a range of ports such as 30000-32767".to_owned()),
        }
    }
}

/// `Name=true,Other=false`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates(pub BTreeMap<String, bool>);

impl FromStr for Gates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |(name, value): (String, String)| match value.as_str() {
            "true" => Ok((name, true)),
            "false" => Ok((name, false)),
            _ => Err(format!("{name} is either true or false, not {value:?}")),
        };
        pairs(text)?.into_iter().map(parse).collect::<Result<_, _>>().map(Gates)
    }
}

/// `api/all=true,batch/v1=false`. A name alone stands for `name=true`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig(pub BTreeMap<String, String>);

impl FromStr for RuntimeConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let spelled_out: Vec<String> =
            split(text).map(|item| if item.contains('=') { item.to_owned() } else { format!("{item}=true") }).collect();
        pairs(&spelled_out.join(",")).map(|pairs| RuntimeConfig(pairs.into_iter().collect()))
    }
}

/// The value of `--listen`.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let expected = || "expected an address and a port, such as 127.0.0.1:6443 or 0.0.0.0:0".to_owned();
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().map_err(|_| expected())
}

fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let parse = |item: &str| match item.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("expected NAME=VALUE, not {item:?}")),
    };
    split(text).map(parse).collect()
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores() {
        assert_eq!("embedded".parse(), Ok(StoreChoice::Embedded));
        assert_eq!("memory".parse(), Ok(StoreChoice::Memory));
        assert_eq!("etcd=https://a:1".parse(), Ok(StoreChoice::Etcd(vec!["https://a:1".into()])));
        for bad in ["", "disk", "etcd", "etcd=", "etcd=a:2379", "etcd=http://a,", "memory=1"] {
            assert!(bad.parse::<StoreChoice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn service_ranges() {
        let table = [
            ("10.96.0.0/12", "10.96.0.0/12", "10.96.0.1"),
            ("10.97.3.4/12", "10.96.0.0/12", "10.96.0.1"),
            ("010.96.0.0/12", "10.96.0.0/12", "10.96.0.1"),
            ("192.168.7.0/29", "192.168.7.0/29", "192.168.7.1"),
            ("0.0.0.0/2", "0.0.0.0/2", "0.0.0.1"),
            ("fd00:10:96::/112", "fd00:10:96::/112", "fd00:10:96::1"),
            ("fd00:10:96::7/64", "fd00:10:96::/64", "fd00:10:96::1"),
            ("10.96.0.0/12,fd00:10:96::/112", "10.96.0.0/12,fd00:10:96::/112", "10.96.0.1"),
            ("fd00:10:96::/112,10.96.0.0/12", "fd00:10:96::/112,10.96.0.0/12", "fd00:10:96::1"),
            // Only the first range has to have room.
            ("10.96.0.0/12,fd00::/128", "10.96.0.0/12,fd00::/128", "10.96.0.1"),
        ];
        for (text, shown, first) in table {
            let ranges: ServiceRanges = text.parse().unwrap();
            assert_eq!(ranges.to_string(), shown);
            assert_eq!(ranges.first_address().to_string(), first);
        }
    }

    #[test]
    fn service_ranges_that_cannot_be() {
        let table = [
            ("", "is no range of addresses"),
            ("10.0.0.0", "\"10.0.0.0\" is no range of addresses; expected one such as 10.96.0.0/12"),
            ("10.0.0.0/33", "is no range"),
            ("x/8", "is no range"),
            ("10.0.0.0/-1", "is no range"),
            ("fd00::/129", "is no range"),
            ("::ffff:10.0.0.0/112", "is no range"),
            ("10.0.0.0/16,", "\"\" is no range"),
            ("10.0.0.0/16, fd00::/112", "\" fd00::/112\" is no range"),
            ("10.0.0.0/30", "10.0.0.0/30 is too small: it needs at least 8 addresses"),
            ("fd00::/126,10.0.0.0/8", "fd00::/126 is too small"),
            ("0.0.0.0/1", "0.0.0.0/1 is too large: at most /2 can be used"),
            ("10.0.0.0/8,fd00::/63", "fd00::/63 is too large: at most /64 can be used"),
            ("10.0.0.0/16,10.1.0.0/16", "10.0.0.0/16 and 10.1.0.0/16 are both of IPv4"),
            ("fd00::/112,fd01::/112", "are both of IPv6: give one of IPv4 and one of IPv6"),
            ("10.0.0.0/16,fd00::/112,10.1.0.0/16", "one range, or one of IPv4 and one of IPv6, not 3"),
        ];
        for (text, expected) in table {
            let error = text.parse::<ServiceRanges>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn port_ranges() {
        assert_eq!("30000-32767".parse(), Ok(PortRange { first: 30000, last: 32767 }));
        assert_eq!("80".parse(), Ok(PortRange { first: 80, last: 80 }));
        for bad in ["", "2-1", "0-9", "1-65536", "a-b", "1-2-3"] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn gates_and_runtime_config() {
        assert_eq!("".parse(), Ok(Gates::default()));
        assert_eq!("A=true, B=false,".parse(), Ok(Gates([("A".into(), true), ("B".into(), false)].into())));
        assert!(
            "A".parse::<Gates>().is_err() && "A=yes".parse::<Gates>().is_err() && "=true".parse::<Gates>().is_err()
        );
        let config: RuntimeConfig = "api/all,batch/v1=false".parse().unwrap();
        assert_eq!(config.0, [("api/all".into(), "true".into()), ("batch/v1".into(), "false".into())].into());
    }

    #[test]
    fn listen_addresses() {
        assert_eq!(parse_listen("localhost:0").map(|address| address.to_string()), Ok("127.0.0.1:0".into()));
        assert_eq!(parse_listen("[::]:6443").map(|address| address.to_string()), Ok("[::]:6443".into()));
        assert!(parse_listen("6443").is_err() && parse_listen("example.com:6443").is_err());
    }
}
