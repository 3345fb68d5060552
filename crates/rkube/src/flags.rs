//! The values that flags take. Each parses from text and says in its error what it expects.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

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

/// A block of addresses in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The lowest address of the block.
    pub network: IpAddr,
    pub prefix_length: u8,
}

impl AddressRange {
    /// The address of the `kubernetes` service: the first after the network's own.
    pub fn first_address(&self) -> IpAddr {
        match self.network {
            IpAddr::V4(address) => IpAddr::V4((u32::from(address) | 1).into()),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) | 1).into()),
        }
    }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected a range of addresses such as 10.96.0.0/12".to_owned();
        let (address, length) = text.split_once('/').ok_or_else(expected)?;
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let prefix_length: u8 = length.parse().map_err(|_| expected())?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = bits.checked_sub(prefix_length).ok_or_else(expected)?;
        if host_bits < 3 {
            return Err("the range is too small: it needs at least 8 addresses".to_owned());
        }
        let network = match address {
            IpAddr::V4(address) => {
                IpAddr::V4((u32::from(address) & u32::MAX.checked_shl(host_bits.into()).unwrap_or(0)).into())
            }
            IpAddr::V6(address) => {
                IpAddr::V6((u128::from(address) & u128::MAX.checked_shl(host_bits.into()).unwrap_or(0)).into())
            }
        };
        Ok(AddressRange { network, prefix_length })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.prefix_length)
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
    fn address_ranges() {
        let table = [
            ("10.96.0.0/12", "10.96.0.0/12", "10.96.0.1"),
            ("10.97.3.4/12", "10.96.0.0/12", "10.96.0.1"),
            ("192.168.7.0/29", "192.168.7.0/29", "192.168.7.1"),
            ("0.0.0.0/0", "0.0.0.0/0", "0.0.0.1"),
            ("fd00:10:96::/112", "fd00:10:96::/112", "fd00:10:96::1"),
        ];
        for (text, shown, first) in table {
            let range: AddressRange = text.parse().unwrap();
            assert_eq!(range.to_string(), shown);
            assert_eq!(range.first_address().to_string(), first);
        }
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/30", "x/8", "10.0.0.0/-1", "fd00::/126", "fd00::/129"] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
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
