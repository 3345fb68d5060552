//! IP addresses and subnets in fields.
//!
//! Two readings exist: the sloppy one of old (leading zeros, IPv4 inside IPv6, host bits), in which stored objects may
//! still be written, and the strict one that new values must pass.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field::{Errors, Path, quote};

/// An address in its canonical form only.
pub fn ip(path: Path<'_>, value: &str, errors: &mut Errors) {
    let before = errors.len();
    let parsed = ip_for_legacy_field(path, value, errors);
    if let Some(address) = parsed.filter(|_| errors.len() == before) {
        canonical(path, value, &address.to_string(), errors);
    }
}

/// What is wrong with an address that must be in its canonical form, without saying where.
pub fn ip_messages(value: &str) -> Vec<String> {
    if value.parse::<IpAddr>().is_ok_and(|address| !is_mapped(address) && address.to_string() == value) {
        return Vec::new();
    }
    let mut errors = Errors::new();
    ip(Path::ROOT, value, &mut errors);
    let head = format!("Invalid value: {}: ", quote(value));
    errors.0.into_iter().map(|error| error.body.strip_prefix(&head).unwrap_or(&error.body).to_owned()).collect()
}

/// An address in a field that predates the rule of canonical forms. Values that the old object has are the caller's to
/// let pass. Answers with the address where one can be made out.
pub fn ip_for_legacy_field(path: Path<'_>, value: &str, errors: &mut Errors) -> Option<IpAddr> {
    if let Ok(address) = value.parse::<IpAddr>() {
        if is_mapped(address) {
            errors.invalid(path, value, "must not be an IPv4-mapped IPv6 address");
        }
        return Some(address);
    }
    let address = parse_sloppy(value);
    match address {
        Some(_) => errors.invalid(path, value, "must not have leading 0s"),
        None => errors.invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
    address
}

/// A subnet in its canonical form only.
pub fn cidr(path: Path<'_>, value: &str, errors: &mut Errors) {
    let before = errors.len();
    let parsed = cidr_for_legacy_field(path, value, errors);
    if let Some(subnet) = parsed.filter(|_| errors.len() == before) {
        canonical(path, value, &subnet.to_string(), errors);
    }
}

/// A subnet in a field that predates the rule of canonical forms.
pub fn cidr_for_legacy_field(path: Path<'_>, value: &str, errors: &mut Errors) -> Option<Subnet> {
    let Some(subnet) = Subnet::parse_sloppy(value) else {
        errors.invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return None;
    };
    let (address, length) = value.split_once('/').unwrap_or_default();
    if address.parse::<IpAddr>().is_err() || (length.len() > 1 && length.starts_with('0')) {
        errors.invalid(path, value, "must not have leading 0s in IP or prefix length");
    } else if is_mapped(subnet.address) {
        errors.invalid(path, value, "must not have an IPv4-mapped IPv6 address");
    } else if subnet.masked() != subnet.address {
        errors.invalid(path, value, "must not have bits set beyond the prefix length");
    }
    Some(subnet)
}

/// What to warn of an address that is right but better written otherwise.
pub fn ip_warning(path: Path<'_>, value: &str) -> Option<String> {
    let address = parse_sloppy(value)?;
    let strict = value.parse::<IpAddr>().ok().filter(|address| !is_mapped(*address));
    let preferred = quote(&unmapped(address).to_string());
    let shown = quote(value);
    match strict {
        None => Some(format!("{path}: non-standard IP address {shown} is invalid: use {preferred}")),
        Some(IpAddr::V6(_)) if address.to_string() != value => {
            Some(format!("{path}: IPv6 address {shown} should be in RFC 5952 canonical format ({preferred})"))
        }
        Some(_) => None,
    }
}

/// What to warn of a subnet that is right but better written otherwise.
pub fn cidr_warnings(path: Path<'_>, value: &str) -> Vec<String> {
    let Some(subnet) = Subnet::parse_sloppy(value) else { return Vec::new() };
    let shown = quote(value);
    let mut warnings = Vec::new();
    if subnet.masked() != subnet.address {
        let single = format!("{}/{}", unmapped(subnet.address), subnet.bits());
        warnings.push(format!(
            "{path}: CIDR value {shown} is ambiguous in this context (should be {} or {}?)",
            quote(&subnet.to_string()),
            quote(&single)
        ));
    }
    let (address, length) = value.split_once('/').unwrap_or_default();
    let strict = address.parse::<IpAddr>().is_ok() && !(length.len() > 1 && length.starts_with('0'));
    if !strict || is_mapped(subnet.address) {
        let preferred = quote(&subnet.to_string());
        warnings.push(format!("{path}: non-standard CIDR value {shown} is invalid: use {preferred}"));
    }
    let plain = format!("{}/{}", subnet.address, subnet.length);
    if warnings.is_empty() && subnet.address.is_ipv6() && plain != value {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({})",
            quote(&plain)
        ));
    }
    warnings
}

/// An address and how many of its leading bits name the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub address: IpAddr,
    pub length: u8,
}

impl Subnet {
    /// Reads `10.0.0.0/24`, also with leading zeros and host bits.
    pub fn parse_sloppy(value: &str) -> Option<Subnet> {
        let (address, length) = value.split_once('/')?;
        let address = parse_sloppy(address)?;
        if length.is_empty() || length.len() > 9 || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let length: u32 = length.parse().ok()?;
        let length = u8::try_from(length).ok()?;
        let subnet = Subnet { address, length };
        (length <= subnet.bits()).then_some(subnet)
    }

    /// The network's own address: host bits cleared.
    pub fn masked(self) -> IpAddr {
        let host = u32::from(self.bits() - self.length);
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(host).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(host).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }

    pub fn contains(self, address: IpAddr) -> bool {
        let same = Subnet { address, length: self.length };
        self.address.is_ipv4() == address.is_ipv4() && same.masked() == self.masked()
    }

    fn bits(self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", unmapped(self.masked()), self.length)
    }
}

/// Reads an address as it was read of old: leading zeros are decimal and fine.
pub fn parse_sloppy(value: &str) -> Option<IpAddr> {
    if let Ok(address) = value.parse() {
        return Some(address);
    }
    if !value.contains(':') {
        return parse_sloppy_v4(value).map(IpAddr::V4);
    }
    let (head, tail) = value.rsplit_once(':')?;
    let mut plain = String::with_capacity(value.len());
    for group in head.split(':') {
        plain.push_str(without_zeros(group));
        plain.push(':');
    }
    if tail.contains('.') {
        plain.push_str(&parse_sloppy_v4(tail)?.to_string());
    } else {
        plain.push_str(without_zeros(tail));
    }
    plain.parse().ok().map(IpAddr::V6)
}

fn parse_sloppy_v4(value: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = value.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = without_zeros(part).parse().ok()?;
    }
    parts.next().is_none().then_some(Ipv4Addr::from(octets))
}

/// The number without leading zeros; zero keeps one.
fn without_zeros(number: &str) -> &str {
    let trimmed = number.trim_start_matches('0');
    if trimmed.is_empty() && !number.is_empty() { "0" } else { trimmed }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn unmapped(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn canonical(path: Path<'_>, value: &str, form: &str, errors: &mut Errors) {
    if value != form {
        errors.invalid(path, value, format!("must be in canonical form ({})", quote(form)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(check: impl Fn(Path<'_>, &str, &mut Errors), value: &str) -> String {
        let mut errors = Errors::new();
        check(Path::new("x"), value, &mut errors);
        errors.0.iter().map(|error| error.body.clone()).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn addresses() {
        let table = [
            ("10.0.0.1", ""),
            ("2001:db8::1", ""),
            ("010.0.0.1", "Invalid value: \"010.0.0.1\": must not have leading 0s"),
            ("::ffff:1.2.3.4", "Invalid value: \"::ffff:1.2.3.4\": must not be an IPv4-mapped IPv6 address"),
            ("2001:DB8::1", "Invalid value: \"2001:DB8::1\": must be in canonical form (\"2001:db8::1\")"),
            (
                "fe80::1%eth0",
                "Invalid value: \"fe80::1%eth0\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
            ("1.2.3", "Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ];
        for (value, message) in table {
            assert_eq!(wrong(ip, value), message);
        }
        assert_eq!(parse_sloppy("00001::010.1.1.1"), "1::a01:101".parse().ok());
    }

    #[test]
    fn subnets() {
        let table = [
            ("10.0.0.0/8", ""),
            ("2001:db8::/64", ""),
            (
                "10.0.0.0/33",
                "Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ),
            ("10.0.0.0/08", "Invalid value: \"10.0.0.0/08\": must not have leading 0s in IP or prefix length"),
            ("10.0.0.1/8", "Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length"),
            ("2001:DB8::/64", "Invalid value: \"2001:DB8::/64\": must be in canonical form (\"2001:db8::/64\")"),
        ];
        for (value, message) in table {
            assert_eq!(wrong(cidr, value), message);
        }
        let all = Subnet::parse_sloppy("0.0.0.0/0").unwrap();
        assert!(all.contains("10.1.2.3".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
    }
}
