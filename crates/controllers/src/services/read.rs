//! Makes the view of a service from its JSON.

use std::borrow::Cow;

use k8s_openapi::api::core::v1;
use rkube_machinery::Text;
use rkube_machinery::names::address;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::Deserialize;

use super::port::{OfService, Target};
use super::{BySelector, ClusterIp, Family, Service, Traffic};
use crate::metadata::{Pairs, RawMetadata};

/// Either annotation asks for hints by the size of zones, which rules out those by traffic distribution.
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// All services.
pub fn informer(caches: &Caches) -> Informer<Service> {
    caches.view(&ApiResource::erase::<v1::Service>(&()), Selection::default(), Service::read).indexed::<BySelector>()
}

impl Service {
    fn read(item: &Item) -> Option<Service> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a service cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec } = raw;
        let selector = spec.selector.to_labels();
        Some(Service {
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            uid: item.uid.clone(),
            labels: metadata.labels.to_labels().shared(),
            selector: (!selector.is_empty()).then(|| selector.shared()),
            created: metadata.created(),
            deleting: metadata.deleted().is_some(),
            external_name: spec.kind.as_deref() == Some("ExternalName"),
            cluster_ip: cluster_ip(spec.cluster_ip.as_deref().unwrap_or_default()),
            families: spec.ip_families.iter().flatten().filter_map(|family| Family::read(&family.0)).collect(),
            publish_not_ready: spec.publish_not_ready_addresses,
            ports: spec.ports.iter().flatten().map(RawPort::read).collect(),
            traffic: traffic(&metadata.annotations, spec.traffic_distribution.as_deref()),
        })
    }
}

impl Family {
    fn read(text: &str) -> Option<Family> {
        match text {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        }
    }
}

fn cluster_ip(text: &str) -> ClusterIp {
    match text {
        "" => ClusterIp::Unset,
        "None" => ClusterIp::Headless,
        text => ClusterIp::Set(address::parse_sloppy(text).map_or(Family::V4, Family::of)),
    }
}

fn traffic(annotations: &Pairs<'_>, distribution: Option<&str>) -> Option<Traffic> {
    let mode = annotations.get(TOPOLOGY_HINTS).or_else(|| annotations.get(TOPOLOGY_MODE));
    if matches!(mode, Some("Auto" | "auto")) {
        return Some(Traffic::ByZones);
    }
    match distribution? {
        "PreferClose" | "PreferSameZone" => Some(Traffic::SameZone),
        "PreferSameNode" => Some(Traffic::SameNode),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(borrow, default)]
    spec: RawSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    selector: Pairs<'a>,
    #[serde(borrow, rename = "clusterIP")]
    cluster_ip: Option<Cow<'a, str>>,
    #[serde(borrow)]
    ip_families: Option<Vec<Borrowed<'a>>>,
    publish_not_ready_addresses: bool,
    #[serde(borrow)]
    ports: Option<Vec<RawPort<'a>>>,
    #[serde(borrow)]
    traffic_distribution: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPort<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    protocol: Option<Cow<'a, str>>,
    #[serde(borrow)]
    app_protocol: Option<Cow<'a, str>>,
    #[serde(borrow)]
    target_port: Option<RawTarget<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawTarget<'a> {
    Number(i32),
    Name(#[serde(borrow)] Cow<'a, str>),
}

impl RawPort<'_> {
    fn read(&self) -> OfService {
        OfService {
            name: Text::new(self.name.as_deref().unwrap_or_default()),
            protocol: Text::new(self.protocol.as_deref().unwrap_or("TCP")),
            app_protocol: self.app_protocol.as_deref().map(Text::new),
            target: match &self.target_port {
                Some(RawTarget::Number(number)) => Target::Number(*number),
                Some(RawTarget::Name(name)) => Target::Name(Text::new(name)),
                None => Target::Number(0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(service: &serde_json::Value) -> Service {
        let json = service.to_string().into();
        Service::read(&Item { namespace: "n".into(), name: "s".into(), uid: "u".into(), revision: 1, json }).unwrap()
    }

    #[test]
    fn a_service_is_read() {
        let service = read(&json!({
            "metadata": { "creationTimestamp": "1970-01-01T00:00:05Z", "labels": { "a": "b" } },
            "spec": {
                "type": "ClusterIP", "clusterIP": "fd00::1", "ipFamilies": ["IPv6", "IPv4"], "selector": { "app": "x" },
                "publishNotReadyAddresses": true, "trafficDistribution": "PreferSameNode",
                "ports": [
                    { "name": "p", "port": 80, "protocol": "UDP", "targetPort": 8080, "appProtocol": "h2c" },
                    { "port": 81, "targetPort": "web", "protocol": "TCP" },
                ],
            },
        }));
        assert_eq!((service.created, service.is_selecting(), service.publish_not_ready), (Some(5), true, true));
        assert_eq!(
            (service.cluster_ip, &*service.families),
            (ClusterIp::Set(Family::V6), &[Family::V6, Family::V4][..])
        );
        assert_eq!((service.traffic, service.labels.get("a")), (Some(Traffic::SameNode), Some("b")));
        let [first, second] = &*service.ports else { panic!("{service:?}") };
        assert_eq!((first.target.clone(), first.app_protocol.as_deref()), (Target::Number(8080), Some("h2c")));
        assert_eq!((second.target.clone(), second.name.as_str()), (Target::Name("web".into()), ""));
    }

    #[test]
    fn some_services_are_not_ours_to_follow() {
        for (spec, selecting) in [
            (json!({}), false),
            (json!({ "selector": {} }), false),
            (json!({ "selector": null }), false),
            (json!({ "selector": { "a": "b" } }), true),
            (json!({ "selector": { "a": "b" }, "type": "ExternalName" }), false),
        ] {
            let service = read(&json!({ "metadata": {}, "spec": spec }));
            assert_eq!(service.is_selecting(), selecting, "{spec}");
        }
    }

    #[test]
    fn hints_by_zones_rule_out_those_by_distribution() {
        for (annotations, distribution, expected) in [
            (json!({}), "PreferClose", Some(Traffic::SameZone)),
            (json!({}), "Other", None),
            (json!({ TOPOLOGY_MODE: "Auto" }), "PreferClose", Some(Traffic::ByZones)),
            (json!({ TOPOLOGY_MODE: "Auto", TOPOLOGY_HINTS: "Disabled" }), "PreferClose", Some(Traffic::SameZone)),
        ] {
            let service = read(&json!({
                "metadata": { "annotations": annotations }, "spec": { "trafficDistribution": distribution },
            }));
            assert_eq!(service.traffic, expected, "{annotations} {distribution}");
        }
    }
}
