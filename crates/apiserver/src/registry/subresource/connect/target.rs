//! Where a connection leads: the container of a pod, the address of a pod, an endpoint of a service, a node's port.

use std::net::IpAddr;

use rkube_machinery::Value;
use rkube_machinery::{Status, object};

/// The container that is meant: it must be one of the pod's; without a name there must be only one.
pub fn container<'a>(pod: &'a Value, asked: &'a str) -> Result<&'a str, Status> {
    let name = pod.get("metadata").str("name");
    let spec = pod.get("spec");
    let lists = ["initContainers", "containers", "ephemeralContainers"].map(|list| spec.list(list));
    let all: Vec<&str> = lists.into_iter().flatten().map(|container| container.str("name")).collect();
    match (asked, spec.list("containers")) {
        ("", [one]) => Ok(one.str("name")),
        ("", []) => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (asked, _) if all.contains(&asked) => Ok(asked),
        (asked, _) => Err(Status::bad_request(format!("container {asked} is not valid for pod {name}"))),
    }
}

/// The address of a pod, as its status says. Only addresses of the network are asked: none of this machine, none of a group.
pub fn pod_address(pod: &Value) -> Result<&str, Status> {
    let status = pod.get("status");
    let address = status.list("podIPs").first().map_or_else(|| status.str("podIP"), |one| one.str("ip"));
    match address.parse().is_ok_and(is_global_unicast) {
        true => Ok(address),
        false => Err(not_allowed()),
    }
}

pub fn not_allowed() -> Status {
    Status::bad_request("address not allowed")
}

/// As Go understands it.
pub fn is_global_unicast(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(is_local || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// The first port that a pod says it has; empty where it says nothing.
pub fn first_port(pod: &Value) -> String {
    let containers = pod.get("spec").list("containers").iter();
    let port = containers.filter_map(|container| container.list("ports").first()).next();
    port.map(|port| port.int("containerPort").to_string()).unwrap_or_default()
}

/// The name of the service's port: a number stands for the port that has it.
pub fn service_port<'a>(service: &'a Value, name: &str, asked: &'a str) -> Result<&'a str, Status> {
    let Ok(number) = asked.parse::<i64>() else { return Ok(asked) };
    let ports = service.get("spec").list("ports");
    match ports.iter().find(|port| port.int("port") == number) {
        Some(port) => Ok(port.str("name")),
        None => {
            let why = format!("no service port {number} found for service \"{name}\"");
            Err(Status::service_unavailable(why))
        }
    }
}

/// The address and port of an endpoint with a port of this name, whose pod is really there: `pod_of` finds it. Which one is by
/// chance, which `random` is.
pub fn endpoint(
    endpoints: &Value,
    port_name: &str,
    random: u64,
    pod_of: impl Fn(&Value) -> Option<Value>,
) -> Option<(String, i64, Value)> {
    let subsets = endpoints.list("subsets");
    for subset in turned(subsets, random) {
        let port = subset.list("ports").iter().find(|port| port.str("name") == port_name);
        let Some(port) = port else { continue };
        for address in turned(subset.list("addresses"), random) {
            let Some(pod) = pod_of(address.get("targetRef")) else { continue };
            let ip = address.str("ip");
            if pod.get("status").list("podIPs").iter().any(|one| one.str("ip") == ip) {
                return Some((ip.to_owned(), port.int("port"), pod));
            }
        }
    }
    None
}

/// All of them, beginning with any.
fn turned(all: &[Value], random: u64) -> impl Iterator<Item = &Value> {
    let count = all.len().max(1);
    let first = usize::try_from(random % count as u64).unwrap_or_default();
    all.iter().cycle().skip(first).take(all.len())
}

/// What is said of a node that none of its addresses is wanted of.
pub fn no_address(node: &Value) -> String {
    let known: Vec<String> = node
        .get("status")
        .list("addresses")
        .iter()
        .map(|one| format!("{{{} {}}}", one.str("type"), one.str("address")))
        .collect();
    format!("no preferred addresses found; known addresses: [{}]", known.join(" "))
}

/// A reference to nothing, for those that have none.
pub fn nothing() -> Value {
    object! {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_chosen_where_there_is_a_choice() {
        let named = |name: &str| object! { "name": name };
        let pod = |containers: Vec<Value>| {
            object! {
                "metadata": named("p"),
                "spec": object! { "initContainers": vec![named("i")], "containers": containers },
            }
        };
        let (one, two) = (pod(vec![named("a")]), pod(vec![named("a"), named("b")]));
        assert_eq!((container(&one, "").unwrap(), container(&one, "i").unwrap()), ("a", "i"));
        assert_eq!(container(&one, "b").unwrap_err().message, "container b is not valid for pod p");
        let why = container(&two, "").unwrap_err().message;
        assert_eq!(why, "a container name must be specified for pod p, choose one of: [i a b]");
        let why = container(&pod(Vec::new()), "").unwrap_err().message;
        assert_eq!(why, "a container name must be specified for pod p");
    }

    #[test]
    fn only_addresses_of_the_network_are_asked() {
        for (address, want) in
            [("", false), ("10.0.0.1", true), ("127.0.0.1", false), ("169.254.0.1", false), ("fe80::1", false)]
        {
            assert_eq!(pod_address(&object! { "status": object! { "podIP": address } }).is_ok(), want, "{address}");
        }
    }

    #[test]
    fn endpoints_are_those_of_pods_that_are_there() {
        let address = |ip: &str, pod: &str| object! { "ip": ip, "targetRef": object! { "name": pod } };
        let port = |name: &str, port: i64| object! { "name": name, "port": port };
        let endpoints = object! { "subsets": vec![
            object! { "addresses": vec![address("10.0.0.1", "gone")], "ports": vec![port("web", 80)] },
            object! {
                "addresses": vec![address("10.0.0.2", "moved"), address("10.0.0.3", "p"), address("10.0.0.4", "p")],
                "ports": vec![port("other", 1), port("web", 8080)],
            },
        ] };
        let pod_of = |target: &Value| match target.str("name") {
            "gone" => None,
            _ => Some(object! { "status": object! { "podIPs": vec![
                object! { "ip": "10.0.0.3" }, object! { "ip": "10.0.0.4" },
            ] } }),
        };
        let chosen = |random: u64| endpoint(&endpoints, "web", random, pod_of).map(|(ip, port, _)| (ip, port));
        let mut seen: Vec<_> = (0..6).filter_map(chosen).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, [("10.0.0.3".to_owned(), 8080), ("10.0.0.4".to_owned(), 8080)]);
        assert!(endpoint(&endpoints, "none", 0, pod_of).is_none());
        let service = object! { "spec": object! { "ports": vec![object! { "name": "web", "port": 80 }] } };
        assert_eq!(service_port(&service, "s", "80").unwrap(), "web");
        assert_eq!(service_port(&service, "s", "web").unwrap(), "web");
        let why = service_port(&service, "s", "81").unwrap_err();
        assert_eq!((why.code, why.message.as_str()), (503, "no service port 81 found for service \"s\""));
    }
}
