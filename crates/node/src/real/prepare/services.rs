//! Variables that tell containers of services: `NAME_SERVICE_HOST` and their kin.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rkube_machinery::{Text, Value, json};
use rkube_operator::{Index, Informer, Item, Key};

/// The one of which every pod is told, in this namespace.
const MASTER: (&str, &str) = ("default", "kubernetes");

/// What is kept of a service that has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceView {
    pub name: Text,
    pub address: IpAddr,
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: Text,
    pub protocol: Text,
    pub number: i64,
}

/// None for those without an address or a port: nothing is told of them.
pub fn view(item: &Item) -> Option<ServiceView> {
    let service = json::parse(&item.json).ok()?;
    of(&item.name, service.get("spec"))
}

fn of(name: &str, spec: &Value) -> Option<ServiceView> {
    let ports: Vec<Port> = spec.list("ports").iter().map(port).collect();
    // An address that is none, as `None`, cannot be read.
    let address = spec.str("clusterIP").parse().ok()?;
    (!ports.is_empty()).then(|| ServiceView { name: name.into(), address, ports })
}

fn port(port: &Value) -> Port {
    let protocol = if port.str("protocol").is_empty() { "TCP" } else { port.str("protocol") };
    Port { name: port.str("name").into(), protocol: protocol.into(), number: port.int("port") }
}

pub struct ByNamespace;

impl Index<ServiceView> for ByNamespace {
    type Key = Text;

    fn keys(key: &Key, _: &ServiceView) -> impl IntoIterator<Item = Text> {
        [key.namespace.as_str().into()]
    }
}

/// The services that a pod of this namespace is told of, by name. `links`: also those of its own namespace, of which one
/// of the master's name comes before the master.
pub fn told(services: &Informer<ServiceView>, namespace: &str, links: bool) -> Vec<ServiceView> {
    let mut found = BTreeMap::new();
    if let Some(master) = services.get(MASTER.0, MASTER.1) {
        found.insert(master.name.clone(), master);
    }
    if links {
        services.with_index::<ByNamespace, str, ()>(namespace, |own| {
            found.extend(own.values().map(|service| (service.name.clone(), service.clone())));
        });
    }
    found.into_values().map(|service| ServiceView::clone(&service)).collect()
}

/// The variables of these services, in their order.
pub fn variables(services: &[ServiceView]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for service in services {
        let prefix = variable_name(&service.name);
        let Some(first) = service.ports.first() else { continue };
        found.push((format!("{prefix}_SERVICE_HOST"), service.address.to_string()));
        found.push((format!("{prefix}_SERVICE_PORT"), first.number.to_string()));
        for port in service.ports.iter().filter(|port| !port.name.is_empty()) {
            found.push((format!("{prefix}_SERVICE_PORT_{}", variable_name(&port.name)), port.number.to_string()));
        }
        for (index, port) in service.ports.iter().enumerate() {
            let url = format!("{}://{}", port.protocol.to_lowercase(), host_and_port(service.address, port.number));
            if index == 0 {
                found.push((format!("{prefix}_PORT"), url.clone()));
            }
            let of_port = format!("{prefix}_PORT_{}_{}", port.number, port.protocol.to_uppercase());
            found.push((format!("{of_port}_PROTO"), port.protocol.to_lowercase()));
            found.push((format!("{of_port}_PORT"), port.number.to_string()));
            found.push((format!("{of_port}_ADDR"), service.address.to_string()));
            found.push((of_port, url));
        }
    }
    found
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn host_and_port(address: IpAddr, port: i64) -> String {
    match address {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn services_become_variables() {
        let spec = object! {
            "clusterIP": "10.96.0.1",
            "ports": vec![
                object! { "name": "https", "port": 443, "protocol": "TCP" },
                object! { "name": "dns-udp", "port": 53, "protocol": "UDP" },
            ],
        };
        let mut found = variables(&[of("my-api", &spec).unwrap()]);
        found.sort();
        let expected = [
            ("MY_API_PORT", "tcp://10.96.0.1:443"),
            ("MY_API_PORT_443_TCP", "tcp://10.96.0.1:443"),
            ("MY_API_PORT_443_TCP_ADDR", "10.96.0.1"),
            ("MY_API_PORT_443_TCP_PORT", "443"),
            ("MY_API_PORT_443_TCP_PROTO", "tcp"),
            ("MY_API_PORT_53_UDP", "udp://10.96.0.1:53"),
            ("MY_API_PORT_53_UDP_ADDR", "10.96.0.1"),
            ("MY_API_PORT_53_UDP_PORT", "53"),
            ("MY_API_PORT_53_UDP_PROTO", "udp"),
            ("MY_API_SERVICE_HOST", "10.96.0.1"),
            ("MY_API_SERVICE_PORT", "443"),
            ("MY_API_SERVICE_PORT_DNS_UDP", "53"),
            ("MY_API_SERVICE_PORT_HTTPS", "443"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let none = object! { "clusterIP": "None", "ports": vec![object! { "port": 1 }] };
        assert_eq!(of("x", &none), None);
    }
}
