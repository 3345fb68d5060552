//! Addresses and node ports of services: taken when a service is written, given back when it goes or the write fails.
//!
//! What is taken is a key in the store that nobody else can make: an IPAddress object per address, a small record per
//! port. So however many control planes share a store, no two hand out the same. A control plane that dies between
//! taking and writing leaves something behind; `repair` finds it.
//!
//! Flags say which families of addresses there are and which of them is the default; ServiceCIDR objects say from which
//! ranges addresses come. `default_range` keeps the one that flags ask for.

pub mod addresses;
mod ports;

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rkube_kinds::kind::Part;
use rkube_kinds::service::allocation::{self, AllocationError, Claims, DRY_RUN_PORT, Plan, WantedAddress, WantedPort};
use rkube_kinds::service::families::Family;
use rkube_kinds::service::pools::{IpRange, PoolError, PortRange};
use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Status, Value};

pub use addresses::{AddressRecords, DEFAULT_RANGE, GROUP, Owner};
use ports::NodePorts;
use rkube_catalog::{Catalog, Served};
use rkube_machinery::host::Entropy;
use rkube_store::Store;

/// Whose write claims addresses and ports.
pub struct Claimant<'a> {
    pub served: &'a Served,
    /// The part of the object that is written.
    pub part: Part,
    pub dry_run: bool,
    pub records: &'a dyn AddressRecords,
}

/// From which addresses and ports services get theirs.
pub struct Ranges {
    /// The family that services get by default, and its range.
    first: IpRange,
    /// A range of the other family.
    second: Option<IpRange>,
    ports: PortRange,
}

impl Ranges {
    pub fn new(addresses: &[Subnet], ports: RangeInclusive<u16>) -> Result<Ranges, String> {
        let (first, second) = match addresses {
            [first] => (IpRange::new(*first), None),
            [first, second] => (IpRange::new(*first), Some(IpRange::new(*second))),
            _ => return Err("services get their addresses from one range, or from one of each family".to_owned()),
        };
        if second.is_some_and(|second| second.family() == first.family()) {
            return Err("the two ranges of service addresses are of the same family".to_owned());
        }
        if ports.is_empty() {
            return Err("the range of node ports is empty; give one like 30000-32767".to_owned());
        }
        Ok(Ranges { first, second, ports: PortRange::new(*ports.start(), *ports.end()) })
    }

    fn addresses(&self) -> impl Iterator<Item = &IpRange> {
        std::iter::once(&self.first).chain(&self.second)
    }
}

pub struct Allocation {
    catalog: Arc<Catalog>,
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    ranges: Ranges,
    pub ports: NodePorts,
    /// The families of the ranges.
    families: Vec<Family>,
}

impl Allocation {
    pub fn new(ranges: Ranges, catalog: Arc<Catalog>, store: Arc<dyn Store>, entropy: Arc<dyn Entropy>) -> Allocation {
        let families = ranges.addresses().map(IpRange::family).collect();
        Allocation { catalog, store, entropy, ports: NodePorts::new(ranges.ports), families, ranges }
    }

    /// The address of the `kubernetes` service.
    pub fn first_address(&self) -> String {
        self.ranges.first.first().to_string()
    }

    /// The ranges of addresses that flags ask for.
    pub fn cidrs(&self) -> Vec<String> {
        self.ranges.addresses().map(ToString::to_string).collect()
    }

    pub async fn begin_create(&self, claimant: &Claimant<'_>, value: &mut Value) -> Result<Held, Status> {
        if !applies(claimant.served) {
            return Ok(Held::default());
        }
        let plan =
            allocation::begin_create(value, &self.families).map_err(|error| refusal(claimant.served, value, error))?;
        self.carry_out(claimant, value, plan).await
    }

    pub async fn begin_update(&self, claimant: &Claimant<'_>, value: &mut Value, old: &Value) -> Result<Held, Status> {
        if !applies(claimant.served) || claimant.part != Part::Main {
            return Ok(Held::default());
        }
        let plan = allocation::begin_update(value, old, &self.families)
            .map_err(|error| refusal(claimant.served, value, error))?;
        self.carry_out(claimant, value, plan).await
    }

    /// Takes what the plan wants and writes it into the service. All or nothing: what was taken before an error is
    /// given back. A dry run takes nothing and shows stand-ins.
    async fn carry_out(&self, claimant: &Claimant<'_>, value: &mut Value, plan: Plan) -> Result<Held, Status> {
        let owner = Owner::of(value);
        let mut taken = Claims::default();
        let done = self.take(claimant, value, &plan, &owner, &mut taken).await;
        if claimant.dry_run {
            return done.map(|()| Held::default()).map_err(|error| refusal(claimant.served, value, error));
        }
        match done {
            Ok(()) => Ok(Held { owner, taken, freed: plan.release }),
            Err(error) => {
                self.give_back(claimant.records, &owner, &taken).await;
                Err(refusal(claimant.served, value, error))
            }
        }
    }

    async fn take(
        &self,
        claimant: &Claimant<'_>,
        value: &mut Value,
        plan: &Plan,
        owner: &Owner,
        taken: &mut Claims,
    ) -> Result<(), AllocationError> {
        let mut found = Vec::with_capacity(plan.addresses.len());
        // A family that the cluster does not have is refused by validation.
        for want in plan.addresses.iter().filter(|want| self.families.contains(&want.family)) {
            let address = self.take_address(claimant, want, owner).await.map_err(|error| want.refuse(value, &error))?;
            taken.addresses.push(address);
            found.push((want, address));
        }
        // Not before all are there: a refusal shows what was asked for.
        for (want, address) in found {
            want.write(value, address);
        }
        for want in &plan.ports {
            let port = self.take_port(claimant, want, owner, taken).await.map_err(|error| want.refuse(&error))?;
            taken.ports.push(port);
            want.write(value, port);
        }
        Ok(())
    }

    async fn take_address(
        &self,
        claimant: &Claimant<'_>,
        want: &WantedAddress,
        owner: &Owner,
    ) -> Result<IpAddr, PoolError> {
        let records = claimant.records;
        let ranges = addresses::ready(&self.catalog, want.family);
        match (want.address, claimant.dry_run) {
            (Some(address), true) => {
                let range = ranges.iter().find(|range| range.contains(address)).or(ranges.first());
                range.ok_or(PoolError::NotReady)?.check(address).map(|()| address)
            }
            (None, true) => ranges.first().map(IpRange::network).ok_or(PoolError::NotReady),
            (Some(address), false) => addresses::take(records, &ranges, address, owner).await.map(|()| address),
            (None, false) => addresses::take_any((records, &self.catalog), &*self.entropy, &ranges, owner).await,
        }
    }

    async fn take_port(
        &self,
        claimant: &Claimant<'_>,
        want: &WantedPort,
        owner: &Owner,
        taken: &Claims,
    ) -> Result<i64, PoolError> {
        let store = &*self.store;
        match (want.port, claimant.dry_run) {
            (Some(port), true) if taken.ports.contains(&port) => Err(PoolError::PortTaken),
            (Some(port), true) => match self.ports.owner(store, port).await? {
                Some(_) => Err(PoolError::PortTaken),
                None => Ok(port),
            },
            (None, true) => Ok(taken.ports.iter().max().map_or(DRY_RUN_PORT, |port| port + 1)),
            (Some(port), false) => self.ports.take(store, port, owner).await.map(|()| port),
            (None, false) => self.ports.take_any(store, &*self.entropy, owner).await,
        }
    }

    /// Gives back what a service that is gone held.
    pub async fn release(&self, claimant: &Claimant<'_>, service: &Value) {
        if applies(claimant.served) {
            self.give_back(claimant.records, &Owner::of(service), &Claims::of(service)).await;
        }
    }

    /// The write is done: what it took stays taken, what it left goes back.
    pub async fn keep(&self, records: &dyn AddressRecords, held: Held) {
        self.give_back(records, &held.owner, &held.freed).await;
    }

    /// The write failed: what it took goes back.
    pub async fn abandon(&self, records: &dyn AddressRecords, held: Held) {
        self.give_back(records, &held.owner, &held.taken).await;
    }

    /// What cannot be given back now is found by the repair loop.
    async fn give_back(&self, records: &dyn AddressRecords, owner: &Owner, claims: &Claims) {
        for address in &claims.addresses {
            addresses::release(records, *address, owner).await;
        }
        for port in &claims.ports {
            self.ports.release(&*self.store, *port, owner).await;
        }
    }
}

/// What was taken for a write that is not done yet, and what the write leaves.
#[derive(Default)]
pub struct Held {
    owner: Owner,
    taken: Claims,
    freed: Claims,
}

fn applies(served: &Served) -> bool {
    served.kind.resource == "services" && served.kind.group.is_empty()
}

fn refusal(served: &Served, value: &Value, error: AllocationError) -> Status {
    match error {
        AllocationError::Invalid(errors) => {
            Status::invalid(&served.kind.group_kind(), value.get("metadata").str("name"), &errors)
        }
        AllocationError::Internal(why) => Status::internal(why),
        AllocationError::Plain(message) => Status { code: 500, message, ..Status::default() },
    }
}
