//! How the server finds the port of a node, and by what both know each other.

use rkube_machinery::Value;

/// Where nodes listen that do not say it.
const PORT: u16 = 10250;
/// Which of a node's addresses is taken; upstream's order.
const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// The order of clusters whose nodes need not be in anybody's DNS, as kubeadm has it: a host's own name often leads to its
/// loopback, which nobody is passed on to.
const ADDRESSES_FIRST: [&str; 3] = ["InternalIP", "ExternalIP", "Hostname"];

/// The server as a client of nodes.
#[derive(Clone)]
pub struct KubeletClient {
    /// PEM of who issues the certificates of nodes; where there is none, they are not verified, as upstream.
    pub authority: String,
    /// PEM of the server's certificate and its key.
    pub certificate: Option<(String, String)>,
    /// The types of addresses, the best first: `--kubelet-preferred-address-types`.
    pub address_types: Vec<String>,
}

impl Default for KubeletClient {
    fn default() -> Self {
        let address_types = ADDRESS_TYPES.map(str::to_owned).to_vec();
        KubeletClient { authority: String::new(), certificate: None, address_types }
    }
}

impl KubeletClient {
    /// Of a cluster that issues all certificates itself. PEM.
    pub fn of_cluster(authority: &str, certificate: &str, key: &str) -> KubeletClient {
        KubeletClient {
            authority: authority.to_owned(),
            certificate: Some((certificate.to_owned(), key.to_owned())),
            address_types: ADDRESSES_FIRST.map(str::to_owned).to_vec(),
        }
    }

    pub fn address_of<'a>(&self, node: &'a Value) -> Option<&'a str> {
        let addresses = node.get("status").list("addresses");
        let of_type = |wanted: &String| addresses.iter().find(|one| one.str("type") == wanted);
        self.address_types.iter().find_map(of_type).map(|one| one.str("address"))
    }

    pub fn port_of(&self, node: &Value) -> u16 {
        let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint"]).int("Port");
        u16::try_from(port).ok().filter(|port| *port > 0).unwrap_or(PORT)
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn the_best_address_is_taken() {
        let address = |kind: &str, address: &str| object! { "type": kind, "address": address };
        let node = object! { "status": object! {
            "addresses": vec![address("InternalIP", "10.0.0.1"), address("Hostname", "n")],
            "daemonEndpoints": object! { "kubeletEndpoint": object! { "Port": 12345 } },
        } };
        let mut client = KubeletClient::default();
        assert_eq!((client.address_of(&node), client.port_of(&node)), (Some("n"), 12345));
        client.address_types = vec!["ExternalIP".to_owned(), "InternalIP".to_owned()];
        assert_eq!(client.address_of(&node), Some("10.0.0.1"));
        assert_eq!((client.address_of(&Value::object()), client.port_of(&Value::object())), (None, PORT));
    }
}
