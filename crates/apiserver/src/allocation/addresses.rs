//! Service addresses: each that is taken is an IPAddress object, whose creation is the taking.

// tidy: types IPAddress Service ServiceCIDR

use std::collections::BTreeSet;
use std::net::IpAddr;

use rkube_kinds::service::families::Family;
use rkube_kinds::service::pools::{IpRange, PoolError};
use rkube_machinery::names::address::{self, Subnet};
use rkube_machinery::{Value, object};

use futures::future::BoxFuture;
use rkube_catalog::{Catalog, Entry};
use rkube_machinery::Status;
use rkube_machinery::host::Entropy;

pub const GROUP: &str = "networking.k8s.io";
pub const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
pub const MANAGER_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
pub const MANAGER: &str = "ipallocator.k8s.io";
/// Larger ranges of IPv6 are not handed out from.
const PREFIX_MIN_V6: u8 = 64;

/// The ServiceCIDR object that flags ask for.
pub const DEFAULT_RANGE: &str = "kubernetes";

/// The IPAddress objects, by whoever reads and writes objects: what is made goes through admission like any other.
pub trait AddressRecords: Send + Sync {
    fn create(&self, record: Value) -> BoxFuture<'_, Result<(), Status>>;

    /// The newest that there is.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Entry>, Status>>;

    /// Removes the record if it is still the one of this uid. That it is gone already is fine.
    fn delete<'a>(&'a self, name: &'a str, uid: &'a str) -> BoxFuture<'a, Result<(), Status>>;
}

/// The service that holds something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub namespace: String,
    pub name: String,
}

impl Owner {
    pub fn of(service: &Value) -> Owner {
        let metadata = service.get("metadata");
        Owner { namespace: metadata.str("namespace").to_owned(), name: metadata.str("name").to_owned() }
    }

    /// Whom an IPAddress names.
    pub fn of_address(address: &Value) -> Owner {
        let parent = address.at(&["spec", "parentRef"]);
        Owner { namespace: parent.str("namespace").to_owned(), name: parent.str("name").to_owned() }
    }
}

/// A ServiceCIDR object as far as it matters here.
pub struct Range {
    pub subnets: Vec<Subnet>,
    pub is_ready: bool,
}

/// All ranges, the default one first.
pub fn ranges(catalog: &Catalog) -> Vec<Range> {
    let Some(cache) = catalog.resource(GROUP, "v1", "servicecidrs") else { return Vec::new() };
    let mut entries: Vec<_> = cache.snapshot().0.values().cloned().collect();
    entries.sort_by_key(|entry| entry.object.name != DEFAULT_RANGE);
    let ranges = entries.iter().map(|entry| {
        let value = entry.object.value(entry.revision);
        let cidrs = value.get("spec").list("cidrs").iter();
        let mut conditions = value.get("status").list("conditions").iter();
        // Where nobody says anything about it, the range may be used.
        let is_ready = conditions.find(|one| one.str("type") == "Ready").is_none_or(|one| one.str("status") == "True");
        Range {
            subnets: cidrs.filter_map(|cidr| Subnet::parse_sloppy(cidr.as_str())).collect(),
            is_ready: is_ready && !entry.object.deleting,
        }
    });
    ranges.collect()
}

/// The ranges of a family from which addresses are handed out now.
pub fn ready(catalog: &Catalog, family: Family) -> Vec<IpRange> {
    let ready = ranges(catalog).into_iter().filter(|range| range.is_ready).flat_map(|range| range.subnets);
    let usable = ready.filter(|subnet| subnet.address.is_ipv4() || subnet.length >= PREFIX_MIN_V6);
    usable.map(IpRange::new).filter(|range| range.family() == family).collect()
}

/// Takes this address.
pub async fn take(
    records: &dyn AddressRecords,
    ranges: &[IpRange],
    wanted: IpAddr,
    owner: &Owner,
) -> Result<(), PoolError> {
    // The first and last address of a network are in no range.
    if !ranges.iter().any(|range| range.check(wanted).is_ok()) {
        return Err(PoolError::WrongNetwork);
    }
    create(records, wanted, owner).await
}

/// Takes any address.
pub async fn take_any(
    (records, catalog): (&dyn AddressRecords, &Catalog),
    entropy: &dyn Entropy,
    ranges: &[IpRange],
    owner: &Owner,
) -> Result<IpAddr, PoolError> {
    let taken = catalog.resource(GROUP, "v1", "ipaddresses");
    for range in ranges {
        // What others took a moment ago may not be in the cache yet.
        let mut tried = BTreeSet::new();
        loop {
            let free = |address: IpAddr| {
                let known = taken.as_ref().is_some_and(|taken| taken.find("", &address.to_string()).is_some());
                !known && !tried.contains(&address)
            };
            let Some(picked) = range.pick(entropy.next_u64(), free) else { break };
            match create(records, picked, owner).await {
                Ok(()) => return Ok(picked),
                Err(PoolError::AddressTaken) => tried.insert(picked),
                Err(error) => return Err(error),
            };
        }
    }
    Err(PoolError::Full)
}

/// Makes the object that says who has the address.
pub async fn create(records: &dyn AddressRecords, address: IpAddr, owner: &Owner) -> Result<(), PoolError> {
    let made = records.create(object_of(address, owner)).await;
    match made {
        Ok(()) => Ok(()),
        Err(status) if status.reason == "AlreadyExists" => Err(PoolError::AddressTaken),
        Err(status) => Err(PoolError::Failed(status.message)),
    }
}

/// Frees the address if this service has it.
pub async fn release(records: &dyn AddressRecords, address: IpAddr, owner: &Owner) {
    let name = address.to_string();
    let found = match records.find(&name).await {
        Ok(found) => found.filter(|entry| Owner::of_address(&entry.object.value(entry.revision)) == *owner),
        Err(status) => return tracing::warn!(address = name, why = status.message, "cannot free a service's address"),
    };
    let Some(entry) = found else { return };
    if let Err(status) = records.delete(&name, &entry.object.uid).await {
        tracing::warn!(address = name, why = status.message, "cannot free a service's address");
    }
}

fn object_of(address: IpAddr, owner: &Owner) -> Value {
    let mut labels = Value::object();
    labels.set(FAMILY_LABEL, Family::of(address).name());
    labels.set(MANAGER_LABEL, MANAGER);
    let parent = object! { "resource": "services", "namespace": owner.namespace.as_str(), "name": owner.name.as_str() };
    object! {
        "kind": "IPAddress",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": object! { "name": address.to_string(), "labels": labels },
        "spec": object! { "parentRef": parent },
    }
}

/// The addresses that a stored service says it has.
pub fn of_service(service: &Value) -> impl Iterator<Item = IpAddr> + '_ {
    let spec = service.get("spec");
    let has = spec.str("type") != "ExternalName" && !matches!(spec.str("clusterIP"), "" | "None");
    let list = if has { spec.list("clusterIPs") } else { &[] };
    list.iter().filter_map(|ip| address::parse_sloppy(ip.as_str()))
}
