//! Which address a service is reached at: that of a ready endpoint, so that nothing has to route cluster addresses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use rkube_catalog::{Catalog, Object, Resource};
use rkube_machinery::Value;

/// By which EndpointSlices name their service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A host and a port to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// Finds where a service is.
pub trait Resolver: Send + Sync {
    /// The addresses to choose from, the one to take first at the beginning; or why there is none.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<Address>, String>;
}

/// Looks at Services and at their EndpointSlices, or Endpoints where they have none.
pub struct ServiceResolver {
    catalog: Weak<Catalog>,
    /// Whose turn it is.
    turn: AtomicUsize,
}

impl ServiceResolver {
    /// The catalog may hold who resolves: it is not kept alive.
    pub fn new(catalog: &Arc<Catalog>) -> ServiceResolver {
        ServiceResolver { catalog: Arc::downgrade(catalog), turn: AtomicUsize::new(0) }
    }
}

impl Resolver for ServiceResolver {
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<Address>, String> {
        let none = || format!("no endpoints available for service \"{name}\"");
        let catalog = self.catalog.upgrade().ok_or_else(none)?;
        let resource = |group: &str, resource: &str| catalog.resource(group, "v1", resource);
        let service = resource("", "services").and_then(|services| services.find(namespace, name));
        let service = service.ok_or_else(|| format!("service \"{name}\" not found"))?;
        let service = service.object.tree();
        let port_name = port_name(service, name, port)?;
        let slices = resource("discovery.k8s.io", "endpointslices").map(|slices| of_service(&slices, namespace, name));
        let slices = slices.unwrap_or_default();
        let mut found = match slices.is_empty() {
            false => in_slices(&slices, service, port_name),
            true => resource("", "endpoints")
                .and_then(|endpoints| endpoints.find(namespace, name))
                .map(|endpoints| in_endpoints(endpoints.object.tree(), port_name))
                .unwrap_or_default(),
        };
        if found.is_empty() {
            return Err(none());
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % found.len();
        found.rotate_left(turn);
        Ok(found)
    }
}

/// The name of the service's port of this number, by which endpoints call it.
fn port_name<'a>(service: &'a Value, name: &str, port: u16) -> Result<&'a str, String> {
    let spec = service.get("spec");
    match spec.str("type") {
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        other => return Err(format!("unsupported service type \"{other}\"")),
    }
    let found = spec.list("ports").iter().find(|candidate| candidate.int("port") == i64::from(port));
    let found = found.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    Ok(found.str("name"))
}

fn of_service(slices: &Resource, namespace: &str, name: &str) -> Vec<Arc<Object>> {
    let mut found = slices.within(namespace);
    found.retain(|slice| slice.label(SERVICE_NAME) == Some(name));
    found
}

/// The ready endpoints, those of the service's first family if there are any.
fn in_slices(slices: &[Arc<Object>], service: &Value, port_name: &str) -> Vec<Address> {
    let preferred = service.at(&["spec", "ipFamilies"]).items().first().map_or("", Value::as_str);
    let (first, others): (Vec<_>, Vec<_>) =
        slices.iter().partition(|slice| slice.tree().str("addressType") == preferred);
    let all = |slices: Vec<&Arc<Object>>| -> Vec<Address> {
        slices.into_iter().flat_map(|slice| in_slice(slice.tree(), port_name)).collect()
    };
    let found = all(first);
    if found.is_empty() { all(others) } else { found }
}

fn in_slice(slice: &Value, port_name: &str) -> Vec<Address> {
    let is_ready = |endpoint: &&Value| match endpoint.get("conditions").get("ready") {
        Value::Bool(ready) => *ready,
        _ => true,
    };
    let hosts = || {
        let ready = slice.list("endpoints").iter().filter(is_ready);
        ready.filter_map(|endpoint| endpoint.list("addresses").first()).map(Value::as_str)
    };
    numbers(slice, port_name).flat_map(|port| hosts().map(move |host| address(host, port))).collect()
}

fn in_endpoints(endpoints: &Value, port_name: &str) -> Vec<Address> {
    let of_subset = |subset: &Value| -> Vec<Address> {
        let hosts = || subset.list("addresses").iter().map(|address| address.str("ip"));
        numbers(subset, port_name).flat_map(|port| hosts().map(move |host| address(host, port))).collect()
    };
    endpoints.list("subsets").iter().flat_map(of_subset).collect()
}

/// The numbers of the ports of this name.
fn numbers(listed: &Value, port_name: &str) -> impl Iterator<Item = u16> {
    let named = listed.list("ports").iter().filter(move |port| port.str("name") == port_name);
    named.filter_map(|port| u16::try_from(port.int("port")).ok().filter(|port| *port > 0))
}

fn address(host: &str, port: u16) -> Address {
    Address { host: host.to_owned(), port }
}
