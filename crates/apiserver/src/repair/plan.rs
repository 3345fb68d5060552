//! What can be wrong between services and the addresses and ports that are taken, as pure functions.

// tidy: types IPAddress Service

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rkube_kinds::service::families::Family;
use rkube_kinds::service::pools::PortRange;
use rkube_machinery::names::address::{self, Subnet};
use rkube_machinery::{Value, time};

use crate::allocation::addresses::{FAMILY_LABEL, MANAGER, MANAGER_LABEL, Owner, of_service};

/// A taken address whose service is not there may belong to one that is being made: so long a request may take.
const REQUEST_SECONDS: i64 = 60;
/// A taken address that its service does not name may belong to a write that is about to fail, or that is about to give
/// the service a second address.
const FAILURE_SECONDS: i64 = 5;
/// So often a port is seen without a service before it is freed.
const LEAK_SIGHTINGS: u8 = 3;

/// Something to tell people, as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub reason: &'static str,
    pub note: String,
}

/// What to do about an address of a service.
#[derive(Debug, PartialEq, Eq)]
pub enum AddressRepair {
    /// It can only be said.
    Report(Report),
    /// Nobody has it: the service gets it.
    Take(IpAddr, Report),
    /// Its record is wrong: made anew.
    Retake(IpAddr, Option<Report>),
}

/// Checks the addresses that a service has. `record`: the IPAddress of this name; `names`: whether the service that is
/// there names the address, none where it is not there.
pub fn of_addresses(
    service: &Value,
    ranges: &[Subnet],
    record: impl Fn(IpAddr) -> Option<Value>,
    names: impl Fn(&Owner, IpAddr) -> Option<bool>,
) -> Vec<AddressRepair> {
    let owner = Owner::of(service);
    let (namespace, name) = (&owner.namespace, &owner.name);
    let check = |address: IpAddr| {
        let family = Family::of(address).name();
        let report = |reason, note| Report { reason, note };
        if !ranges.iter().any(|range| range.contains(address)) {
            let note = format!(
                "Cluster IP [{family}]: {address} is not within any configured Service CIDR; please recreate service"
            );
            return Some(AddressRepair::Report(report("ClusterIPOutOfRange", note)));
        }
        let Some(found) = record(address) else {
            let note = format!("Cluster IP [{family}]: {address} is not allocated; repairing");
            return Some(AddressRepair::Take(address, report("ClusterIPNotAllocated", note)));
        };
        let wrong = || {
            let note = format!(
                "the ClusterIP [{family}]: {address} for Service {namespace}/{name} has a wrong reference; repairing"
            );
            Some(AddressRepair::Retake(address, Some(report("ClusterIPNotAllocated", note))))
        };
        if !is_of_service(&found) {
            return wrong();
        }
        let parent = Owner::of_address(&found);
        if parent != owner {
            match names(&parent, address) {
                None => return wrong(),
                Some(true) => {
                    let note = format!(
                        "Cluster IP [{family}]:{address} was assigned to multiple services; please recreate service"
                    );
                    return Some(AddressRepair::Report(report("ClusterIPAlreadyAllocated", note)));
                }
                Some(false) => {}
            }
        }
        let labels = found.at(&["metadata", "labels"]);
        let labelled = labels.str(FAMILY_LABEL) == family && labels.str(MANAGER_LABEL) == MANAGER;
        (!labelled).then_some(AddressRepair::Retake(address, None))
    };
    of_service(service).filter_map(check).collect()
}

/// What to do about an IPAddress object.
#[derive(Debug, PartialEq, Eq)]
pub enum RecordRepair {
    Nothing,
    /// To be looked at again after so many seconds.
    Later(i64),
    Remove(Report),
}

/// Checks an IPAddress. `service`: the one that it names, if it is there.
pub fn of_record(record: &Value, service: Option<&Value>, now: i64) -> RecordRepair {
    let metadata = record.get("metadata");
    if metadata.get("labels").str(MANAGER_LABEL) != MANAGER {
        return RecordRepair::Nothing;
    }
    let address = metadata.str("name");
    let remove = |reason, note| RecordRepair::Remove(Report { reason, note });
    if !is_of_service(record) {
        let parent = record.at(&["spec", "parentRef"]);
        let fields = ["group", "resource", "namespace", "name"].map(|field| parent.str(field)).join(" ");
        let note = format!(
            "IPAddress {address} appears to have been modified, not referencing a Service &{{{fields}}}: cleaning up"
        );
        return remove("IPAddressNotAllocated", note);
    }
    let Owner { namespace, name } = Owner::of_address(record);
    let (made, _) = time::parse(metadata.str("creationTimestamp")).unwrap_or((0, 0));
    let age = now - made;
    let Some(service) = service else {
        if age <= REQUEST_SECONDS {
            return RecordRepair::Later(REQUEST_SECONDS - age + 1);
        }
        let note = format!("IPAddress: {address} for Service {namespace}/{name} appears to have leaked: cleaning up");
        return remove("IPAddressNotAllocated", note);
    };
    // A service may spell an address in its own way.
    let parsed = address::parse_sloppy(address);
    if of_service(service).any(|one| Some(one) == parsed) {
        return RecordRepair::Nothing;
    }
    // A name outside the cluster becomes a service with an address: the address is taken first.
    if service.get("spec").str("type") == "ExternalName" && age < REQUEST_SECONDS {
        return RecordRepair::Later(REQUEST_SECONDS - age);
    }
    if age < FAILURE_SECONDS {
        return RecordRepair::Later(FAILURE_SECONDS);
    }
    let note = format!("IPAddress: {address} for Service {namespace}/{name} has a wrong reference; cleaning up");
    remove("IPAddressWrongReference", note)
}

/// What to do about node ports.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PortRepair {
    pub take: Vec<(u16, Owner)>,
    pub free: Vec<u16>,
    /// By the place of the service in the list.
    pub reports: Vec<(usize, Report)>,
}

/// Checks all ports. `leaks` is kept from one time to the next: how often a port was seen without a service.
pub fn of_ports(
    services: &[Value],
    taken: &BTreeMap<u16, String>,
    range: PortRange,
    leaks: &mut BTreeMap<u16, u8>,
) -> PortRepair {
    let mut repair = PortRepair::default();
    let mut used: BTreeMap<u16, usize> = BTreeMap::new();
    for (index, service) in services.iter().enumerate() {
        for port in ports_of(service) {
            let mut report = |reason, note| repair.reports.push((index, Report { reason, note }));
            let Ok(port) = range.check(port) else {
                report(
                    "PortOutOfRange",
                    format!("Port {port} is not within the port range {range}; please recreate service"),
                );
                continue;
            };
            if used.insert(port, index).is_some() {
                report(
                    "PortAlreadyAllocated",
                    format!("Port {port} was assigned to multiple services; please recreate service"),
                );
            } else if !taken.contains_key(&port) {
                report("PortNotAllocated", format!("Port {port} is not allocated; repairing"));
                repair.take.push((port, Owner::of(service)));
            }
        }
    }
    leaks.retain(|port, _| taken.contains_key(port) && !used.contains_key(port));
    for port in taken.keys().filter(|port| !used.contains_key(port)) {
        let sightings = leaks.entry(*port).or_default();
        *sightings += 1;
        if *sightings > LEAK_SIGHTINGS {
            repair.free.push(*port);
        }
    }
    repair
}

/// The node ports of a service; one that several protocols share counts once, one that stands twice in one protocol
/// twice.
fn ports_of(service: &Value) -> Vec<i64> {
    let spec = service.get("spec");
    let (mut numbers, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut ports = Vec::new();
    let health = ("TCP", spec.int("healthCheckNodePort"));
    let named = spec.list("ports").iter().map(|port| (port.str("protocol"), port.int("nodePort")));
    for (protocol, port) in named.chain([health]).filter(|(_, port)| *port != 0) {
        if numbers.insert(port) | !seen.insert((port, protocol)) {
            ports.push(port);
        }
    }
    ports
}

fn is_of_service(record: &Value) -> bool {
    let parent = record.at(&["spec", "parentRef"]);
    parent.str("group").is_empty() && parent.str("resource") == "services"
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    const NOW: i64 = 1_000_000;

    fn service(name: &str, address: &str) -> Value {
        let made = time::format_seconds(NOW - 1000);
        object! {
            "metadata": object! { "namespace": "default", "name": name, "creationTimestamp": made },
            "spec": object! { "type": "ClusterIP", "clusterIP": address, "clusterIPs": vec![Value::from(address)] },
        }
    }

    fn record(address: &str, name: &str, age: i64) -> Value {
        let mut labels = Value::object();
        labels.set(FAMILY_LABEL, "IPv4");
        labels.set(MANAGER_LABEL, MANAGER);
        let made = time::format_seconds(NOW - age);
        object! {
            "metadata": object! { "name": address, "labels": labels, "creationTimestamp": made },
            "spec": object! {
                "parentRef": object! { "resource": "services", "namespace": "default", "name": name },
            },
        }
    }

    #[test]
    fn addresses_of_services() {
        let ranges = [Subnet::parse_sloppy("10.0.0.0/24").unwrap()];
        let check = |service: &Value, found: Option<Value>, names: Option<bool>| {
            of_addresses(service, &ranges, |_| found.clone(), |_, _| names)
        };
        let web = service("web", "10.0.0.9");
        assert_eq!(check(&web, Some(record("10.0.0.9", "web", 100)), None), []);
        let reasons = [
            (check(&service("web", "10.1.0.9"), None, None), "ClusterIPOutOfRange"),
            (check(&web, None, None), "ClusterIPNotAllocated"),
            (check(&web, Some(record("10.0.0.9", "gone", 100)), None), "ClusterIPNotAllocated"),
            (check(&web, Some(record("10.0.0.9", "other", 100)), Some(true)), "ClusterIPAlreadyAllocated"),
        ];
        for (repairs, reason) in reasons {
            let [
                AddressRepair::Report(report) | AddressRepair::Take(_, report) | AddressRepair::Retake(_, Some(report)),
            ] = repairs.as_slice()
            else {
                panic!("{repairs:?}")
            };
            assert_eq!(report.reason, reason);
        }
        let mut unlabelled = record("10.0.0.9", "web", 100);
        unlabelled.object_mut("metadata").remove("labels");
        assert_eq!(check(&web, Some(unlabelled), None), [AddressRepair::Retake("10.0.0.9".parse().unwrap(), None)]);
    }

    #[test]
    fn each_address_of_a_service_is_looked_at() {
        let ranges = ["10.0.0.0/24", "fd00::/112"].map(|range| Subnet::parse_sloppy(range).unwrap());
        let mut web = service("web", "10.0.0.9");
        web.object_mut("spec").set("clusterIPs", vec!["10.0.0.9".into(), "fd00::9".into()]);
        let second: IpAddr = "fd00::9".parse().unwrap();
        let first_only = |address: IpAddr| address.is_ipv4().then(|| record("10.0.0.9", "web", 100));
        let note = "Cluster IP [IPv6]: fd00::9 is not allocated; repairing".to_owned();
        let report = Report { reason: "ClusterIPNotAllocated", note };
        let repairs = of_addresses(&web, &ranges, first_only, |_, _| None);
        assert_eq!(repairs, [AddressRepair::Take(second, report)]);
        // Flags may take a family away: its addresses can only be told about.
        let repairs = of_addresses(&web, &ranges[..1], first_only, |_, _| None);
        let note = "Cluster IP [IPv6]: fd00::9 is not within any configured Service CIDR; please recreate service";
        let report = Report { reason: "ClusterIPOutOfRange", note: note.to_owned() };
        assert_eq!(repairs, [AddressRepair::Report(report)]);
        assert_eq!(of_record(&record("fd00::9", "web", 100), Some(&web), NOW), RecordRepair::Nothing);
    }

    #[test]
    fn records_of_addresses() {
        let web = service("web", "10.0.0.9");
        assert_eq!(of_record(&record("10.0.0.9", "web", 9), Some(&web), NOW), RecordRepair::Nothing);
        assert_eq!(of_record(&record("10.0.0.9", "web", 9), None, NOW), RecordRepair::Later(52));
        assert_eq!(of_record(&record("10.0.0.8", "web", 2), Some(&web), NOW), RecordRepair::Later(5));
        let spelled = service("web", "fd00:0:0:0:0:0:0:0009");
        assert_eq!(of_record(&record("fd00::9", "web", 99), Some(&spelled), NOW), RecordRepair::Nothing);
        let reason = |repair: RecordRepair| match repair {
            RecordRepair::Remove(report) => report.reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(of_record(&record("10.0.0.9", "web", 61), None, NOW)), "IPAddressNotAllocated");
        assert_eq!(reason(of_record(&record("10.0.0.8", "web", 6), Some(&web), NOW)), "IPAddressWrongReference");
    }

    #[test]
    fn ports_that_leaked_are_freed_after_a_while() {
        let port = |number: i64, protocol: &str| object! { "protocol": protocol, "nodePort": number };
        let mut web = service("web", "10.0.0.9");
        web.object_mut("spec").set("ports", vec![port(30001, "TCP"), port(30001, "UDP"), port(30002, "TCP")]);
        let taken = BTreeMap::from([(30001, "default/web".to_owned()), (30009, "default/gone".to_owned())]);
        let (range, mut leaks) = (PortRange::new(30000, 32767), BTreeMap::new());
        for round in 1..=4 {
            let repair = of_ports(&[web.clone()], &taken, range, &mut leaks);
            assert_eq!(repair.take, [(30002, Owner { namespace: "default".into(), name: "web".into() })]);
            assert_eq!(repair.reports[0].1.note, "Port 30002 is not allocated; repairing");
            assert_eq!(repair.free, if round == 4 { vec![30009] } else { vec![] });
        }
        let repair = of_ports(&[web.clone(), web], &taken, range, &mut leaks);
        assert_eq!(repair.reports.iter().filter(|(index, _)| *index == 1).count(), 2);
    }

    #[test]
    fn ports_of_a_service_count_once() {
        let ports = |all: &mut dyn Iterator<Item = (i64, &str)>| {
            let ports: Vec<Value> =
                all.map(|(port, protocol)| object! { "protocol": protocol, "nodePort": port }).collect();
            ports_of(&object! { "spec": object! { "ports": ports, "healthCheckNodePort": 7 } })
        };
        let shared = [(1, "TCP"), (1, "UDP"), (2, "TCP"), (0, "TCP"), (2, "TCP"), (7, "UDP")];
        assert_eq!(ports(&mut shared.into_iter()), [1, 2, 2, 7]);
        // As many as a body has room for.
        assert_eq!(ports(&mut (1..=60_000).map(|port| (port, "UDP"))).len(), 60_000);
    }
}
