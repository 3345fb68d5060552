//! What the Endpoints of a service are to be, as pure functions.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use rkube_machinery::Text;

use crate::metadata::Labels;
use crate::pods::Pod;
use crate::services::endpoints::OVER_CAPACITY;
use crate::services::subsets::{Address, Reference, Subset, repack, truncate};
use crate::services::write::set_trigger_time;
use crate::services::{ClusterIp, Family, HEADLESS, Service};

/// No Endpoints have more addresses than these; what is left out, an annotation says.
pub const ADDRESSES_MAX: usize = 1000;
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// What is to be there.
#[derive(Debug, PartialEq, Eq)]
pub struct Desired {
    pub subsets: Vec<Subset>,
    pub truncated: bool,
}

/// The addresses of a service, of those pods that it selects.
pub fn desired(service: &Service, pods: &[Arc<Pod>]) -> Desired {
    let mut loose: Vec<Subset> = Vec::new();
    for pod in pods {
        if pod.is_terminal() || (pod.deleted.is_some() && !service.publish_not_ready) {
            continue;
        }
        let Some(address) = address(service, pod) else { continue };
        let ready = service.publish_not_ready || pod.ready;
        let mut add = |ports| {
            let (addresses, not_ready_addresses) =
                if ready { (vec![address.clone()], Vec::new()) } else { (Vec::new(), vec![address.clone()]) };
            loose.push(Subset { addresses, not_ready_addresses, ports });
        };
        if !service.ports.is_empty() {
            service.ports.iter().filter_map(|port| port.on(pod)).for_each(|port| add(vec![port]));
        } else if service.cluster_ip == ClusterIp::Headless {
            add(Vec::new());
        }
    }
    let mut subsets = repack(&loose);
    let truncated = truncate(&mut subsets, ADDRESSES_MAX);
    Desired { subsets, truncated }
}

/// The pod's address of the service's family.
fn address(service: &Service, pod: &Pod) -> Option<Address> {
    let first = pod.network.addresses.first()?;
    let family = match (service.families.first().copied(), service.cluster_ip) {
        (Some(family), _) | (None, ClusterIp::Set(family)) => family,
        (None, _) => Family::of(*first),
    };
    let address = pod.network.addresses.iter().find(|address| Family::of(**address) == family)?;
    Some(Address {
        ip: text(*address),
        hostname: if service.names(pod) { pod.network.hostname.clone() } else { Text::default() },
        node_name: Some(pod.node.clone()),
        target_ref: Some(Reference {
            kind: "Pod".into(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            ..Reference::default()
        }),
    })
}

/// As Go writes it.
fn text(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// The labels of a service's Endpoints.
pub fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> =
        service.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    if service.has_address() {
        labels.remove(HEADLESS);
    } else {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// Whether the labels are the service's, and say whose work this is. (That a service has got an address, or lost it, is
/// no reason to write.)
pub fn labels_fit(labels: &Labels, service: &Service) -> bool {
    let own = |key: &str| key == HEADLESS || key == MANAGED_BY;
    let copied = || labels.iter().filter(|(key, _)| !own(key));
    let same = copied().all(|(key, value)| service.labels.get(key) == Some(value.as_str()));
    same && labels.get(MANAGED_BY) == Some(MANAGER) && copied().count() == service.labels.iter().count()
}

/// Says in annotations when the change happened, and that addresses were left out.
pub fn annotate(annotations: &mut BTreeMap<String, String>, changed: Option<i64>, truncated: bool) {
    set_trigger_time(annotations, changed);
    if truncated {
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::{NamedPort, Network, Phase};
    use crate::services::port::{OfService, Target};

    /// `name address,address`, with `+` ready, `-` terminating, `.` ended.
    fn pod(text: &str) -> Arc<Pod> {
        let (name, addresses) = text.split_once(' ').unwrap();
        let bare = name.trim_end_matches(['+', '-', '.']);
        let port = NamedPort { name: "web".into(), protocol: "TCP".into(), port: 8000 + i32::from(bare == "odd") };
        Arc::new(Pod {
            namespace: "n".into(),
            name: bare.into(),
            uid: format!("uid-{bare}").into(),
            node: "node".into(),
            ready: name.contains('+'),
            deleted: name.contains('-').then_some(1),
            phase: if name.contains('.') { Phase::Failed } else { Phase::Running },
            network: Network {
                addresses: addresses
                    .split(',')
                    .filter(|address| !address.is_empty())
                    .map(|address| address.parse().unwrap())
                    .collect(),
                hostname: "host".into(),
                subdomain: if bare == "named" { "s".into() } else { "other".into() },
                ports: [port].into(),
            },
            ..Pod::default()
        })
    }

    fn service(target: Target) -> Service {
        let port = OfService { name: "http".into(), protocol: "TCP".into(), app_protocol: None, target };
        Service {
            namespace: "n".into(),
            name: "s".into(),
            cluster_ip: ClusterIp::Set(Family::V4),
            families: vec![Family::V4],
            ports: [port].into(),
            ..Service::default()
        }
    }

    /// `ready!not:port`, one word a subset.
    fn shown(desired: &Desired) -> String {
        let list =
            |addresses: &[Address]| addresses.iter().map(|address| address.ip.clone()).collect::<Vec<_>>().join(",");
        let subsets = desired.subsets.iter().map(|subset| {
            let ports: Vec<String> = subset.ports.iter().map(|port| port.port.to_string()).collect();
            format!("{}!{}:{}", list(&subset.addresses), list(&subset.not_ready_addresses), ports.join(","))
        });
        let mut subsets: Vec<String> = subsets.collect();
        subsets.sort();
        subsets.join(" ")
    }

    #[test]
    fn endpoints_have_the_addresses_of_pods() {
        let number = || service(Target::Number(80));
        let named = || service(Target::Name("web".into()));
        let publishing = || Service { publish_not_ready: true, ..number() };
        let headless = || Service { ports: [].into(), cluster_ip: ClusterIp::Headless, ..number() };
        let of_ipv6 = || Service { families: vec![Family::V6, Family::V4], ..number() };
        let unknown = || Service { families: vec![], cluster_ip: ClusterIp::Headless, ..number() };
        let portless = || Service { ports: [].into(), ..number() };
        let table: [(&str, Service, &[&str], &str); 10] = [
            ("none", number(), &[], ""),
            ("ready and not", number(), &["a+ 10.0.0.2", "b 10.0.0.1", "c+ 10.0.0.3"], "10.0.0.2,10.0.0.3!10.0.0.1:80"),
            ("on their way out", number(), &["a+- 10.0.0.1", "b. 10.0.0.2", "c ", "d+ 10.0.0.4"], "10.0.0.4!:80"),
            (
                "published all the same",
                publishing(),
                &["a- 10.0.0.1", "b. 10.0.0.2", "c 10.0.0.3"],
                "10.0.0.1,10.0.0.3!:80",
            ),
            ("by name", named(), &["a+ 10.0.0.1", "odd+ 10.0.0.2"], "10.0.0.1!:8000 10.0.0.2!:8001"),
            ("without ports", headless(), &["a+ 10.0.0.1", "b 10.0.0.2"], "10.0.0.1!10.0.0.2:"),
            ("without ports, and not headless", portless(), &["a+ 10.0.0.1"], ""),
            ("the first family", of_ipv6(), &["a+ 10.0.0.1,fd00::1", "b+ 10.0.0.2"], "fd00::1!:80"),
            ("no family", unknown(), &["a+ fd00::1,10.0.0.1"], "fd00::1!:80"),
            ("an odd form", number(), &["a+ ::ffff:10.0.0.1"], "10.0.0.1!:80"),
        ];
        for (what, service, pods, expected) in table {
            let pods: Vec<_> = pods.iter().copied().map(pod).collect();
            assert_eq!(shown(&desired(&service, &pods)), expected, "{what}");
        }
    }

    #[test]
    fn addresses_say_whose_they_are() {
        let desired = desired(&service(Target::Number(80)), &[pod("a+ 10.0.0.1"), pod("named+ 10.0.0.2")]);
        let shown = serde_json::to_value(&desired.subsets).unwrap();
        let target = |name: &str| serde_json::json!({ "kind": "Pod", "namespace": "n", "name": name, "uid": format!("uid-{name}") });
        let expected = serde_json::json!([{
            "addresses": [
                { "ip": "10.0.0.1", "nodeName": "node", "targetRef": target("a") },
                { "ip": "10.0.0.2", "hostname": "host", "nodeName": "node", "targetRef": target("named") },
            ],
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
        }]);
        assert_eq!(shown, expected);
    }

    #[test]
    fn more_than_a_thousand_are_cut() {
        let pods: Vec<_> =
            (0..1500).map(|number| pod(&format!("p{number}+ 10.0.{}.{}", number / 250, number % 250))).collect();
        let desired = desired(&service(Target::Number(80)), &pods);
        assert_eq!((desired.subsets[0].addresses.len(), desired.truncated), (ADDRESSES_MAX, true));
        let mut annotations = BTreeMap::new();
        annotate(&mut annotations, Some(5), true);
        let shown: Vec<_> = annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let time = ("endpoints.kubernetes.io/last-change-trigger-time", "1970-01-01T00:00:05Z");
        assert_eq!(shown, [time, ("endpoints.kubernetes.io/over-capacity", "truncated")]);
        annotate(&mut annotations, None, false);
        assert!(annotations.is_empty());
    }

    #[test]
    fn labels_follow_the_service() {
        let of = |text: &str| {
            Labels::new(text.split_whitespace().map(|pair| {
                let (key, value) = pair.split_once('=').unwrap();
                (key.into(), value.into())
            }))
        };
        let own = "endpoints.kubernetes.io/managed-by=endpoint-controller";
        let service = Service { labels: Arc::new(of("a=1")), ..service(Target::Number(80)) };
        for (there, fit) in [("a=1", false), ("", false), ("a=2", false), ("a=1 b=2", false)] {
            assert_eq!(labels_fit(&of(&format!("{there} {own}")), &service), there == "a=1", "{there}");
            assert_eq!(labels_fit(&of(there), &service), fit, "{there}");
        }
        assert!(labels_fit(&of(&format!("a=1 {own} service.kubernetes.io/headless=")), &service));
        let made = labels(&Service { cluster_ip: ClusterIp::Headless, ..service });
        let keys: Vec<&str> = made.keys().map(String::as_str).collect();
        assert_eq!(keys, ["a", "endpoints.kubernetes.io/managed-by", "service.kubernetes.io/headless"]);
    }
}
