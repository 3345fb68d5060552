//! Service: one name and address for a set of pods.
//!
//! A write of a service runs [`allocation::begin_create`] or [`allocation::begin_update`] after defaulting and before
//! everything else: addresses and ports are taken first, and what is validated is the service with them.

pub mod allocation;
mod columns;
pub mod families;
pub mod pools;
mod validate;

pub(crate) use validate::validate_not_special;

use crate::strategy::{NameRule, ResetFields, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address;
use rkube_machinery::{Value, object};

use crate::columns::{AGE, NAME};
use crate::core::pod_spec::checks::Seen;
use crate::fields::{carry, texts};
use crate::kind::{Column, Part, Row, Rules, Selectable, Subresource};

pub static KIND: Row = Row {
    kind: "Service",
    resource: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    type_name: "io.k8s.api.core.v1.Service",
    storage_prefix: "services/specs",
    subresources: &[
        Subresource {
            name: "proxy",
            verbs: &["create", "delete", "get", "patch", "update"],
            kind: Some("ServiceProxyOptions"),
            group_version: None,
        },
        Subresource::STATUS,
    ],
    columns: &[
        NAME,
        Column::text("Type", "doc:io.k8s.api.core.v1.ServiceSpec type", |service, _| kind_of(service).into()),
        Column::text("Cluster-IP", "doc:io.k8s.api.core.v1.ServiceSpec clusterIP", columns::cluster_ip),
        Column::text("External-IP", "doc:io.k8s.api.core.v1.ServiceSpec externalIPs", columns::external_ip),
        Column::text("Port(s)", "doc:io.k8s.api.core.v1.ServiceSpec ports", columns::ports),
        AGE,
        Column::wide("Selector", "doc:io.k8s.api.core.v1.ServiceSpec selector", columns::selector),
    ],
    selectable: &[
        Selectable { label: "spec.clusterIP", value: |service| service.get("spec").str("clusterIP").to_owned() },
        Selectable { label: "spec.type", value: |service| kind_of(service).to_owned() },
    ],
    strategy: Strategy {
        name_rule: NameRule::Label,
        create_on_update: true,
        reset_fields: ResetFields::STATUS,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &ServiceRules,
    ..Row::DEFAULTS
};

/// `clusterIP` of a service without address.
pub const HEADLESS: &str = "None";
const AFFINITY_SECONDS: i64 = 10800;
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SPEC: Path<'static> = Path::new("spec");

struct ServiceRules;

impl Rules for ServiceRules {
    fn default(&self, service: &mut Value) {
        let spec = service.object_mut("spec");
        default_affinity(spec);
        spec.set_default("type", "ClusterIP");
        for port in spec.list_mut("ports") {
            port.set_default("protocol", "TCP");
            let number = port.int("port");
            port.set_default("targetPort", number);
        }
        if is_reached_from_outside(spec) {
            spec.set_default("externalTrafficPolicy", "Cluster");
        }
        if matches!(spec.str("type"), "NodePort" | "LoadBalancer" | "ClusterIP") {
            spec.set_if_absent("internalTrafficPolicy", "Cluster");
        }
        if spec.str("type") == "LoadBalancer" {
            spec.set_if_absent("allocateLoadBalancerNodePorts", true);
            default_ip_mode(service);
        }
    }

    fn prepare_create(&self, service: &mut Value) {
        service.set("status", empty_status());
    }

    fn validate_create(&self, service: &Value, errors: &mut Errors) {
        validate::service(service, None, errors);
    }

    fn prepare_update(&self, part: Part, service: &mut Value, old: &Value) {
        if part == Part::Status {
            return carry(service, old, "spec");
        }
        carry(service, old, "status");
        drop_what_the_old_type_needed(service.object_mut("spec"), old.get("spec"));
        if kind_of(service) != "LoadBalancer" {
            service.object_mut("status").set("loadBalancer", Value::object());
        }
    }

    fn validate_update(&self, part: Part, service: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate::status(service, old, errors);
        } else {
            validate::update(service, old, errors);
        }
    }

    /// A name outside the cluster has no traffic inside to speak of.
    fn canonicalize(&self, service: &mut Value) {
        if kind_of(service) == "ExternalName" {
            service.object_mut("spec").remove("internalTrafficPolicy");
        }
    }

    fn warnings(&self, service: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(service)
    }

    fn status_warnings(&self, service: &Value) -> Vec<String> {
        let status = Path::new("status");
        let balancer = status.child("loadBalancer");
        let path = balancer.child("ingress");
        let ingress = service.at(&["status", "loadBalancer"]).list("ingress").iter().enumerate();
        ingress
            .filter(|(_, ingress)| !ingress.str("ip").is_empty())
            .filter_map(|(index, ingress)| address::ip_warning(path.index(index), ingress.str("ip")))
            .collect()
    }
}

pub fn empty_status() -> Value {
    object! { "loadBalancer": Value::object() }
}

fn kind_of(service: &Value) -> &str {
    service.get("spec").str("type")
}

fn default_affinity(spec: &mut Value) {
    spec.set_default("sessionAffinity", "None");
    match spec.str("sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" if !spec.at(&["sessionAffinityConfig", "clientIP"]).has("timeoutSeconds") => {
            let client = object! { "clientIP": object! { "timeoutSeconds": AFFINITY_SECONDS } };
            spec.set("sessionAffinityConfig", client);
        }
        _ => {}
    }
}

fn default_ip_mode(service: &mut Value) {
    let Some(balancer) = service.find_mut("status").and_then(|status| status.find_mut("loadBalancer")) else { return };
    for ingress in balancer.list_mut("ingress") {
        if !ingress.str("ip").is_empty() {
            ingress.set_if_absent("ipMode", "VIP");
        }
    }
}

/// Whether traffic from outside the cluster can reach the service.
fn is_reached_from_outside(spec: &Value) -> bool {
    match spec.str("type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.list("externalIPs").is_empty(),
        _ => false,
    }
}

/// Whether a load balancer must ask nodes whether they have pods of the service.
fn needs_health_check(spec: &Value) -> bool {
    spec.str("type") == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local"
}

fn is_headless(spec: &Value) -> bool {
    matches!(spec.list("clusterIPs"), [only] if only.as_str() == HEADLESS)
}

/// A change of type needs no more than that: what only the old type needed goes, unless the client changed it too.
fn drop_what_the_old_type_needed(spec: &mut Value, old: &Value) {
    let (kind, old_kind) = (spec.str("type").to_owned(), old.str("type"));
    if old_kind != "ExternalName" && kind == "ExternalName" {
        let same = spec.str("clusterIP") == old.str("clusterIP") && spec.list("clusterIPs") == old.list("clusterIPs");
        if same {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        remove_where_same(spec, old, "ipFamilies");
        remove_where_same(spec, old, "ipFamilyPolicy");
    }
    let needs_ports = |kind: &str| kind == "NodePort" || kind == "LoadBalancer";
    let had_ports = || {
        let old = Seen::of(node_ports(old));
        node_ports(spec).all(|port| old.has(port))
    };
    if needs_ports(old_kind) && !needs_ports(&kind) && had_ports() {
        for port in spec.list_mut("ports") {
            port.remove("nodePort");
        }
    }
    if needs_health_check(old) && !needs_health_check(spec) {
        remove_where_same(spec, old, "healthCheckNodePort");
    }
    if old_kind == "LoadBalancer" && kind != "LoadBalancer" {
        remove_where_same(spec, old, "allocateLoadBalancerNodePorts");
        remove_where_same(spec, old, "loadBalancerClass");
    }
    if is_reached_from_outside(old) && !is_reached_from_outside(spec) {
        remove_where_same(spec, old, "externalTrafficPolicy");
    }
}

fn remove_where_same(spec: &mut Value, old: &Value, field: &str) {
    if spec.get(field) == old.get(field) {
        spec.remove(field);
    }
}

/// The ports on nodes that the service names.
fn node_ports(spec: &Value) -> impl Iterator<Item = i64> + '_ {
    spec.list("ports").iter().map(|port| port.int("nodePort")).filter(|port| *port != 0)
}

fn warnings(service: &Value) -> Vec<String> {
    let spec = service.get("spec");
    let mut warnings = Vec::new();
    if service.at(&["metadata", "annotations"]).has(HINTS) {
        warnings.push(format!("annotation {HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let path = SPEC.child("clusterIPs");
    let cluster_ip = spec.str("clusterIP");
    if !cluster_ip.is_empty() && cluster_ip != HEADLESS {
        let ips = texts(spec, "clusterIPs").enumerate();
        warnings.extend(ips.filter_map(|(index, ip)| address::ip_warning(path.index(index), ip)));
    }
    let (kind, external) = (spec.str("type"), spec.list("externalIPs"));
    let headless = kind == "ClusterIP" && cluster_ip == HEADLESS;
    let mut add = |applies: bool, text: &str| {
        if applies {
            warnings.push(text.to_owned());
        }
    };
    if headless {
        add(!spec.str("loadBalancerIP").is_empty(), "spec.loadBalancerIP is ignored for headless services");
        add(!external.is_empty(), "spec.externalIPs is ignored for headless services");
        add(spec.str("sessionAffinity") != "None", "spec.SessionAffinity is ignored for headless services");
    }
    let path = SPEC.child("externalIPs");
    let ips = texts(spec, "externalIPs").enumerate();
    warnings.extend(ips.filter_map(|(index, ip)| address::ip_warning(path.index(index), ip)));
    if !external.is_empty() && !headless && kind != "ExternalName" {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !spec.str("loadBalancerIP").is_empty() {
        warnings.extend(address::ip_warning(SPEC.child("loadBalancerIP"), spec.str("loadBalancerIP")));
    }
    let path = SPEC.child("loadBalancerSourceRanges");
    for (index, cidr) in texts(spec, "loadBalancerSourceRanges").enumerate() {
        warnings.extend(address::cidr_warnings(path.index(index), cidr));
    }
    if kind == "ExternalName" && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.str("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.str("trafficDistribution") == "PreferClose" {
        let text = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(text.to_owned());
    }
    warnings
}
