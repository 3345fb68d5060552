//! Looks for services whose address or port nobody recorded, and for records that no service stands behind: once before
//! the server answers, then from time to time, and at once where somebody touches the record of an address.

// tidy: types Event IPAddress Service

mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Weak;
use std::time::Duration;

use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Value, object, time};

use crate::allocation::{AddressRecords as _, GROUP, Owner, addresses};
use crate::registry::{InternalWriter, Registry};
use plan::{AddressRepair, RecordRepair, Report};
use rkube_catalog::{Entry, Limit, Subscription};

const INTERVAL: Duration = Duration::from_secs(180);
const EVENTS: Limit = Limit { events: 256, bytes: usize::MAX };
const ADDRESS_CONTROLLER: &str = "ipallocator-repair-controller";
const PORT_CONTROLLER: &str = "portallocator-repair-controller";

/// What is remembered from one look to the next.
#[derive(Default)]
pub struct Repair {
    /// How often a port was seen without a service.
    leaks: BTreeMap<u16, u8>,
    /// Records to look at again: when, in seconds since 1970, and which.
    later: BTreeSet<(i64, String)>,
}

impl Repair {
    /// Makes sure that everything that services have is recorded: before that, nothing may be handed out.
    pub async fn services(&mut self, registry: &Registry) {
        let services: Vec<Value> = entries(registry, "", "services").iter().map(value_of).collect();
        self.ports(registry, &services).await;
        let ranges = subnets(registry);
        for service in &services {
            repair_service(registry, service, &ranges).await;
        }
    }

    /// Looks at everything.
    async fn all(&mut self, registry: &Registry) {
        self.services(registry).await;
        self.records(registry).await;
    }

    async fn records(&mut self, registry: &Registry) {
        for entry in entries(registry, GROUP, "ipaddresses") {
            self.record(registry, &entry).await;
        }
    }

    async fn ports(&mut self, registry: &Registry, services: &[Value]) {
        let (pool, store) = (&registry.allocation.ports, &*registry.store);
        let taken = match pool.load(store).await {
            Ok(taken) => taken,
            Err(error) => return tracing::warn!(%error, "cannot look at the node ports of services"),
        };
        let repair = plan::of_ports(services, &taken, pool.range, &mut self.leaks);
        for (port, owner) in &repair.take {
            // Whoever else took it in the meantime: the next look tells.
            drop(pool.create(store, *port, owner).await);
        }
        for (index, report) in &repair.reports {
            tell(registry, &services[*index], PORT_CONTROLLER, "PortAllocation", report).await;
        }
        for port in repair.free {
            tracing::warn!(port, "a node port appears to have leaked: freed");
            if pool.clean(store, port).await.is_ok() {
                self.leaks.remove(&port);
            }
        }
    }

    /// Looks at one record of an address.
    async fn record(&mut self, registry: &Registry, entry: &Entry) {
        let record = value_of(entry);
        let service = service_of(registry, &Owner::of_address(&record));
        let now = registry.clock.now_seconds();
        match plan::of_record(&record, service.as_ref(), now) {
            RecordRepair::Nothing => {}
            RecordRepair::Later(seconds) => drop(self.later.insert((now + seconds, entry.object.name.to_string()))),
            RecordRepair::Remove(report) => {
                tell(registry, &record, ADDRESS_CONTROLLER, "IPAddressAllocation", &report).await;
                remove(registry, entry).await;
            }
        }
    }

    /// What was put off and is due now.
    async fn due(&mut self, registry: &Registry) {
        let now = registry.clock.now_seconds();
        while let Some((when, name)) = self.later.pop_first() {
            if when > now {
                self.later.insert((when, name));
                return;
            }
            if let Some(entry) = find(registry, GROUP, "ipaddresses", "", &name) {
                self.record(registry, &entry).await;
            }
        }
    }

    fn next_wait(&self, registry: &Registry) -> Duration {
        let first = self.later.first().map(|(when, _)| when - registry.clock.now_seconds());
        first.map_or(INTERVAL, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1)))
    }
}

/// Goes on looking until the server is gone.
pub async fn run(registry: Weak<Registry>, mut repair: Repair) {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + INTERVAL, INTERVAL);
    let Some(mut changes) = registry.upgrade().and_then(|registry| subscribe(&registry)) else { return };
    if let Some(registry) = registry.upgrade() {
        repair.records(&registry).await;
    }
    loop {
        let Some(wait) = registry.upgrade().map(|registry| repair.next_wait(&registry)) else { return };
        let events = tokio::select! {
            biased;
            _ = ticks.tick() => None,
            taken = changes.next(EVENTS) => Some(taken.map(|taken| taken.map_or_else(Vec::new, |taken| taken.events))),
            () = tokio::time::sleep(wait) => Some(Ok(Vec::new())),
        };
        let Some(registry) = registry.upgrade() else { return };
        match events {
            Some(Ok(events)) => {
                for event in events {
                    repair.changed(&registry, &event).await;
                }
                repair.due(&registry).await;
            }
            Some(Err(_)) => {
                let Some(again) = subscribe(&registry) else { return };
                changes = again;
                repair.all(&registry).await;
            }
            None => repair.all(&registry).await,
        }
    }
}

impl Repair {
    /// A record was written or is gone: the service that it named may have lost its address.
    async fn changed(&mut self, registry: &Registry, event: &rkube_catalog::CachedEvent) {
        let entry = Entry::new(event.object.clone(), event.revision);
        if event.event_type != rkube_catalog::EventType::Deleted {
            let current = find(registry, GROUP, "ipaddresses", "", &entry.object.name);
            if current.is_some_and(|current| current.revision == entry.revision) {
                self.record(registry, &entry).await;
            }
            if event.event_type == rkube_catalog::EventType::Added {
                return;
            }
        }
        // A service that goes gives its address back after it is gone: then there is nothing to repair.
        if let Some(service) = service_of(registry, &Owner::of_address(&value_of(&entry))) {
            repair_service(registry, &service, &subnets(registry)).await;
        }
    }
}

fn subnets(registry: &Registry) -> Vec<Subnet> {
    addresses::ranges(&registry.catalog).into_iter().flat_map(|range| range.subnets).collect()
}

fn subscribe(registry: &Registry) -> Option<Subscription> {
    let cache = registry.catalog.resource(GROUP, "v1", "ipaddresses")?;
    let (_, revision) = cache.snapshot();
    cache.subscribe("", revision).ok()
}

async fn repair_service(registry: &Registry, service: &Value, ranges: &[Subnet]) {
    let record =
        |address: IpAddr| find(registry, GROUP, "ipaddresses", "", &address.to_string()).map(|one| value_of(&one));
    let names = |owner: &Owner, address: IpAddr| {
        service_of(registry, owner).map(|other| addresses::of_service(&other).any(|one| one == address))
    };
    let owner = Owner::of(service);
    for repair in plan::of_addresses(service, ranges, record, names) {
        let report = match &repair {
            AddressRepair::Report(report) | AddressRepair::Take(_, report) => Some(report),
            AddressRepair::Retake(_, report) => report.as_ref(),
        };
        if let Some(report) = report {
            tell(registry, service, ADDRESS_CONTROLLER, "ClusterIPAllocation", report).await;
        }
        let address = match repair {
            AddressRepair::Report(_) => continue,
            AddressRepair::Take(address, _) => address,
            AddressRepair::Retake(address, _) => {
                if let Some(entry) = find(registry, GROUP, "ipaddresses", "", &address.to_string()) {
                    remove(registry, &entry).await;
                }
                address
            }
        };
        if let Err(error) = addresses::create(registry, address, &owner).await {
            tracing::warn!(%address, %error, "cannot record the address of a service");
        }
    }
}

async fn remove(registry: &Registry, entry: &Entry) {
    if let Err(status) = registry.delete(&entry.object.name, &entry.object.uid).await {
        tracing::warn!(address = %entry.object.name, why = status.message, "cannot free a service's address");
    }
}

/// Logs what was found and makes an event of it. That the event cannot be stored is no reason to stop.
async fn tell(registry: &Registry, about: &Value, controller: &str, action: &str, report: &Report) {
    let metadata = about.get("metadata");
    tracing::warn!(namespace = metadata.str("namespace"), name = metadata.str("name"), "{}", report.note);
    let namespace = Some(metadata.str("namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    let Some(own) = InternalWriter::new(registry, "events.k8s.io", "v1", "events", namespace) else { return };
    let now = registry.clock.now_micros();
    let mut regarding = object! { "kind": about.str("kind") };
    for (field, value) in [
        ("namespace", metadata.str("namespace")),
        ("name", metadata.str("name")),
        ("uid", metadata.str("uid")),
        ("apiVersion", about.str("apiVersion")),
        ("resourceVersion", metadata.str("resourceVersion")),
    ] {
        if !value.is_empty() {
            regarding.set(field, value);
        }
    }
    let event = object! {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": object! {
            "name": format!("{}.{:016x}", metadata.str("name"), now.saturating_mul(1000)), "namespace": namespace,
        },
        "eventTime": time::format_micros(now),
        "reportingController": controller,
        "reportingInstance": controller,
        "action": action,
        "reason": report.reason,
        "regarding": regarding,
        "note": report.note.as_str(),
        "type": "Warning",
    };
    if let Err(status) = own.create(event).await {
        tracing::debug!(why = status.message, "cannot store an event");
    }
}

fn entries(registry: &Registry, group: &str, resource: &str) -> Vec<Entry> {
    let cache = registry.catalog.resource(group, "v1", resource);
    cache.map_or_else(Vec::new, |cache| cache.snapshot().0.values().cloned().collect())
}

fn find(registry: &Registry, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Entry> {
    registry.catalog.resource(group, "v1", resource)?.find(namespace, name)
}

fn service_of(registry: &Registry, owner: &Owner) -> Option<Value> {
    find(registry, "", "services", &owner.namespace, &owner.name).map(|entry| value_of(&entry))
}

fn value_of(entry: &Entry) -> Value {
    entry.object.value(entry.revision)
}
