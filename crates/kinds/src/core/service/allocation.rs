//! Which addresses and node ports a write of a service takes and gives back.
//!
//! [`begin_create`] and [`begin_update`] fill in what follows from the request alone and plan the rest. Who carries the
//! plan out takes what it wants, in its order, and writes it into the service. What was taken goes back if the write
//! fails; what the plan releases goes back once the write has succeeded.

use std::collections::BTreeMap;

use std::net::IpAddr;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, quote};
use rkube_machinery::names::address;

use super::families::{self, Family};
use super::pools::PoolError;
use super::{HEADLESS, SPEC, is_headless, needs_health_check, node_ports};
use crate::core::pod_spec::checks::Seen;
use crate::fields::{carry, texts};

/// What a dry run shows instead of a port that nobody asked for.
pub const DRY_RUN_PORT: i64 = 32769;

/// Addresses and ports that are held by a service, or were just taken for one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    pub addresses: Vec<IpAddr>,
    pub ports: Vec<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub addresses: Vec<WantedAddress>,
    pub ports: Vec<WantedPort>,
    pub release: Claims,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedAddress {
    /// The place in `clusterIPs`.
    index: usize,
    pub family: Family,
    /// None: any.
    pub address: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPort {
    /// None: any.
    pub port: Option<i64>,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// `nodePort` of these ports: the one service port in several protocols. The first one is named in errors.
    Ports(Vec<usize>),
    HealthCheck,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// To be answered as an invalid object.
    #[error("{}", .0.summary())]
    Invalid(Errors),
    /// To be answered as an internal error.
    #[error("{0}")]
    Internal(String),
    /// To be answered as an error without a reason.
    #[error("{0}")]
    Plain(String),
}

impl From<Errors> for AllocationError {
    fn from(errors: Errors) -> Self {
        AllocationError::Invalid(errors)
    }
}

/// Readies a new service. `families`: those that the cluster has, the default one first.
pub fn begin_create(service: &mut Value, families: &[Family]) -> Result<Plan, AllocationError> {
    let spec = service.object_mut("spec");
    if !spec.str("clusterIP").is_empty() && spec.list("clusterIPs").is_empty() {
        let address = spec.get("clusterIP").clone();
        spec.set("clusterIPs", vec![address]);
    }
    families::initialize(spec, None, families)?;
    let mut plan = Plan { addresses: want_addresses(spec), ..Plan::default() };
    if has_node_ports(spec) {
        plan.ports = want_ports(spec);
    }
    if needs_health_check(spec) {
        plan.ports.push(want_health_check_port(spec));
    }
    Ok(plan)
}

/// Readies a change: values that were allocated before and left out stay what they are.
pub fn begin_update(service: &mut Value, old: &Value, families: &[Family]) -> Result<Plan, AllocationError> {
    let old = old.get("spec");
    let spec = service.object_mut("spec");
    keep_allocated(spec, old);
    normalize_addresses(spec, old);
    families::initialize(spec, Some(old), families)?;
    let mut plan = Plan::default();
    plan_addresses(&mut plan, spec, old);
    if has_node_ports(old) && !has_node_ports(spec) {
        plan.release.ports.extend(node_ports(old));
    }
    if has_node_ports(spec) {
        plan.ports = want_changed_ports(spec, old)?;
        let kept = Seen::of(node_ports(spec));
        plan.release.ports.extend(node_ports(old).filter(|port| !kept.has(*port)));
    }
    match (needs_health_check(old), needs_health_check(spec)) {
        (false, true) => plan.ports.push(want_health_check_port(spec)),
        (true, false) => plan.release.ports.push(old.int("healthCheckNodePort")),
        _ => {}
    }
    Ok(plan)
}

impl Claims {
    /// What a stored service holds: to be released when it goes.
    pub fn of(service: &Value) -> Claims {
        let spec = service.get("spec");
        let mut claims = Claims { addresses: Vec::new(), ports: node_ports(spec).collect() };
        if spec.str("type") != "ExternalName" && !is_headless(spec) {
            claims.addresses.extend(texts(spec, "clusterIPs").filter_map(address::parse_sloppy));
        }
        if needs_health_check(spec) && spec.int("healthCheckNodePort") > 0 {
            claims.ports.push(spec.int("healthCheckNodePort"));
        }
        claims
    }
}

impl WantedAddress {
    /// Writes the address that was taken into the service.
    pub fn write(&self, service: &mut Value, address: IpAddr) {
        let spec = service.object_mut("spec");
        make_room(spec);
        if self.address.is_none() {
            spec.array_mut("clusterIPs")[self.index] = address.to_string().into();
        }
        if self.index == 0 {
            let first = spec.list("clusterIPs")[0].clone();
            spec.set("clusterIP", first);
        }
    }

    /// Says why the address cannot be had.
    pub fn refuse(&self, service: &mut Value, error: &PoolError) -> AllocationError {
        if self.address.is_none() && *error == PoolError::Full {
            let name = quote(service.get("metadata").str("name"));
            return AllocationError::Internal(format!("failed to allocate a serviceIP for Service {name}: {error}"));
        }
        let spec = service.object_mut("spec");
        make_room(spec);
        let detail = match self.address {
            Some(_) => {
                let asked = spec.list("clusterIPs")[self.index].as_str();
                format!("failed to allocate IP {asked}: {error}")
            }
            None => format!("failed to allocate IP: {error}"),
        };
        let mut errors = Errors::new();
        errors.invalid(SPEC.child("clusterIPs"), spec.get("clusterIPs"), detail);
        errors.into()
    }
}

impl WantedPort {
    /// Writes the port that was taken into the service.
    pub fn write(&self, service: &mut Value, port: i64) {
        let spec = service.object_mut("spec");
        match &self.place {
            Place::HealthCheck => spec.set("healthCheckNodePort", port),
            Place::Ports(indexes) => {
                let ports = spec.list_mut("ports");
                for index in indexes {
                    if let Some(entry) = ports.get_mut(*index) {
                        entry.set("nodePort", port);
                    }
                }
            }
        }
    }

    /// Says why the port cannot be had.
    pub fn refuse(&self, error: &PoolError) -> AllocationError {
        match (&self.place, self.port) {
            (Place::Ports(indexes), Some(port)) => {
                let mut errors = Errors::new();
                let path = SPEC.child("ports");
                let path = path.index(indexes.first().copied().unwrap_or(0));
                errors.invalid(path.child("nodePort"), port, error.to_string());
                errors.into()
            }
            (Place::Ports(_), None) => AllocationError::Internal(format!("failed to allocate a nodePort: {error}")),
            (Place::HealthCheck, Some(port)) => {
                AllocationError::Internal(format!("failed to allocate requested HealthCheck NodePort {port}: {error}"))
            }
            (Place::HealthCheck, None) => {
                AllocationError::Internal(format!("failed to allocate a HealthCheck NodePort 0: {error}"))
            }
        }
    }
}

/// A place for the address of each family.
fn make_room(spec: &mut Value) {
    let families = spec.list("ipFamilies").len();
    let list = spec.array_mut("clusterIPs");
    while list.len() < families {
        list.push("".into());
    }
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(spec.str("type"), "NodePort" | "LoadBalancer")
}

/// Whether ports that ask for none get a node port; one that is asked for is had in any case.
fn gets_node_ports(spec: &Value) -> bool {
    spec.str("type") == "NodePort" || (spec.str("type") == "LoadBalancer" && spec.bool("allocateLoadBalancerNodePorts"))
}

/// An address for each family that the service has.
fn want_addresses(spec: &Value) -> Vec<WantedAddress> {
    if spec.str("type") == "ExternalName" || spec.list("clusterIPs").first().is_some_and(|ip| ip.as_str() == HEADLESS) {
        return Vec::new();
    }
    (0..spec.list("ipFamilies").len()).filter_map(|index| want_address(spec, index)).collect()
}

fn want_address(spec: &Value, index: usize) -> Option<WantedAddress> {
    let family = match spec.list("ipFamilies").get(index)?.as_str() {
        "IPv4" => Family::V4,
        _ => Family::V6,
    };
    let address = spec.list("clusterIPs").get(index).and_then(|ip| address::parse_sloppy(ip.as_str()));
    Some(WantedAddress { index, family, address })
}

fn plan_addresses(plan: &mut Plan, spec: &Value, old: &Value) {
    let (now, before) = (spec.str("type"), old.str("type"));
    if before == "ExternalName" && now != "ExternalName" {
        plan.addresses = want_addresses(spec);
        return;
    }
    if before == "ExternalName" || is_headless(old) {
        return;
    }
    let released = if now == "ExternalName" {
        old.list("clusterIPs")
    } else {
        match (old.list("ipFamilies").len(), spec.list("ipFamilies").len()) {
            (1, 2) => {
                plan.addresses.extend(want_address(spec, 1));
                return;
            }
            (2, 1) => old.list("clusterIPs").get(1..).unwrap_or_default(),
            _ => return,
        }
    };
    plan.release.addresses.extend(released.iter().filter_map(|ip| address::parse_sloppy(ip.as_str())));
}

/// A node port for each service port. Ports of the same number share one, whatever their protocol.
fn want_ports(spec: &Value) -> Vec<WantedPort> {
    let ports = spec.list("ports");
    let mut wanted: Vec<WantedPort> = Vec::new();
    // By service port: where in `wanted` it is, and which node port was asked for first.
    let mut shared: BTreeMap<i64, usize> = BTreeMap::new();
    let mut first_asked: BTreeMap<i64, i64> = BTreeMap::new();
    for port in ports.iter().filter(|port| port.int("nodePort") != 0) {
        first_asked.entry(port.int("port")).or_insert(port.int("nodePort"));
    }
    for (index, port) in ports.iter().enumerate() {
        let asked = port.int("nodePort");
        if asked == 0 && !gets_node_ports(spec) {
            continue;
        }
        let number = port.int("port");
        if let Some(at) = shared.get(&number) {
            let want = &mut wanted[*at];
            if asked != 0 && want.port != Some(asked) {
                wanted.push(WantedPort { port: Some(asked), place: Place::Ports(vec![index]) });
            } else if let Place::Ports(indexes) = &mut want.place {
                indexes.push(index);
            }
            continue;
        }
        shared.insert(number, wanted.len());
        wanted.push(WantedPort { port: first_asked.get(&number).copied(), place: Place::Ports(vec![index]) });
    }
    wanted
}

/// The node ports that a change adds.
fn want_changed_ports(spec: &Value, old: &Value) -> Result<Vec<WantedPort>, AllocationError> {
    let ports = spec.list("ports");
    let mut wanted: Vec<WantedPort> = Vec::new();
    let mut known = Seen::of(node_ports(old));
    let mut seen = Seen::new();
    for (index, port) in ports.iter().enumerate() {
        let asked = port.int("nodePort");
        if asked == 0 {
            if gets_node_ports(spec) {
                wanted.push(WantedPort { port: None, place: Place::Ports(vec![index]) });
            }
            continue;
        }
        if !seen.add((asked, port.str("protocol"))) {
            let protocol = port.str("protocol");
            return Err(AllocationError::Plain(format!("duplicate nodePort: {{{protocol} {asked}}}")));
        }
        if known.add(asked) {
            wanted.push(WantedPort { port: Some(asked), place: Place::Ports(vec![index]) });
        }
    }
    Ok(wanted)
}

fn want_health_check_port(spec: &Value) -> WantedPort {
    let asked = spec.int("healthCheckNodePort");
    WantedPort { port: (asked != 0).then_some(asked), place: Place::HealthCheck }
}

/// Clients may leave out what the cluster chose for them.
fn keep_allocated(spec: &mut Value, old: &Value) {
    if spec.str("type") != "ExternalName" && old.str("type") != "ExternalName" {
        if spec.str("clusterIP").is_empty() {
            carry(spec, old, "clusterIP");
        }
        if spec.list("clusterIPs").is_empty() {
            carry(spec, old, "clusterIPs");
        }
    }
    let chosen = |spec: &Value| {
        let asked = spec.get("allocateLoadBalancerNodePorts").as_bool().unwrap_or(true);
        spec.str("type") == "NodePort" || (spec.str("type") == "LoadBalancer" && asked)
    };
    if chosen(spec) && chosen(old) {
        let new = Seen::of(node_ports(spec));
        let used = Seen::of(node_ports(old).filter(|port| new.has(*port)));
        // The last of a name counts.
        let before: BTreeMap<&str, i64> =
            old.list("ports").iter().map(|old| (old.str("name"), old.int("nodePort"))).collect();
        for port in spec.list_mut("ports").iter_mut().filter(|port| port.int("nodePort") == 0) {
            let before = before.get(port.str("name")).copied().unwrap_or(0);
            if before != 0 && !used.has(before) {
                port.set("nodePort", before);
            }
        }
    }
    if needs_health_check(spec) && needs_health_check(old) && spec.int("healthCheckNodePort") == 0 {
        carry(spec, old, "healthCheckNodePort");
    }
}

/// `clusterIPs` follows `clusterIP` where a client knows only the latter.
fn normalize_addresses(spec: &mut Value, old: &Value) {
    let same_single = spec.str("clusterIP") == old.str("clusterIP");
    if !old.list("clusterIPs").is_empty() && spec.list("clusterIPs").is_empty() && same_single {
        carry(spec, old, "clusterIPs");
    }
    if same_single || spec.list("clusterIPs") != old.list("clusterIPs") {
        return;
    }
    if spec.str("clusterIP").is_empty() {
        spec.remove("clusterIPs");
    } else {
        let single = spec.get("clusterIP").clone();
        spec.set("clusterIPs", vec![single]);
    }
}

#[cfg(test)]
mod tests;
