//! The names and addresses under which clients may reach the server.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// What the server's certificate must cover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames {
    dns: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

impl ServerNames {
    /// What a pod would use, what people on this host would use, and what is asked for: the first address of the
    /// service range, the address to listen on and the one that others are told.
    pub fn of_this_host(first_service_address: IpAddr, listen: IpAddr, advertised: Option<IpAddr>) -> Self {
        let mut names = ServerNames::default();
        for name in IN_CLUSTER {
            names.add_dns(name);
        }
        names.add_dns("localhost");
        names.add_dns(&rustix::system::uname().nodename().to_string_lossy());
        names.add_address(IpAddr::from([127, 0, 0, 1]));
        names.add_address(std::net::Ipv6Addr::LOCALHOST.into());
        names.add_address(first_service_address);
        names.add_address(listen);
        advertised.into_iter().for_each(|address| names.add_address(address));
        match if_addrs::get_if_addrs() {
            Ok(interfaces) => interfaces.iter().for_each(|interface| names.add_address(interface.ip())),
            Err(error) => tracing::warn!(%error, "cannot list this host's addresses; the certificate lacks them"),
        }
        names
    }

    pub fn dns(&self) -> impl Iterator<Item = &str> {
        self.dns.iter().map(String::as_str)
    }

    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied()
    }

    pub fn add_dns(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        let is_label = |label: &str| {
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !label.is_empty() && label.len() <= 63 && label.bytes().all(allowed)
        };
        if name.len() <= 253 && name.split('.').all(is_label) {
            self.dns.insert(name);
        }
    }

    /// Leaves out what nobody can connect to: "any address", and addresses that mean nothing without an interface.
    pub fn add_address(&mut self, address: IpAddr) {
        let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        if !address.is_unspecified() && !link_local {
            self.addresses.insert(address);
        }
    }
}

const IN_CLUSTER: &[&str] =
    &["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_what_a_pod_would_use() {
        let names = ServerNames::of_this_host([10, 96, 0, 1].into(), [192, 0, 2, 7].into(), None);
        let dns: Vec<_> = names.dns().collect();
        for name in IN_CLUSTER.iter().chain(&["localhost"]) {
            assert!(dns.contains(name), "{name} in {dns:?}");
        }
        let addresses: Vec<_> = names.addresses().map(|address| address.to_string()).collect();
        for address in ["10.96.0.1", "127.0.0.1", "::1", "192.0.2.7"] {
            assert!(addresses.iter().any(|found| found == address), "{address} in {addresses:?}");
        }
    }

    #[test]
    fn what_no_certificate_can_hold_is_left_out() {
        let mut names = ServerNames::default();
        for name in ["", "a..b", "müller", "under_score", &"x".repeat(64)] {
            names.add_dns(name);
        }
        for address in ["0.0.0.0", "::", "fe80::1"] {
            names.add_address(address.parse().unwrap());
        }
        assert_eq!(names, ServerNames::default());
        names.add_dns("My-Host.lan");
        assert_eq!(names.dns().collect::<Vec<_>>(), ["my-host.lan"]);
    }
}
