//! Addresses and node ports of services: taken when a service is written, given back when it goes or the write fails.
//!
//! What is taken is a key in the store that nobody else can make: an IPAddress object per address, a small record per
//! port. So however many control planes share a store, no two hand out the same. A control plane that dies between
//! taking and writing leaves something behind; [`repair`] finds it.

mod addresses;
mod findings;
mod ports;
pub mod repair;

use std::ops::RangeInclusive;

use rkube_kinds::kind::Part;
use rkube_kinds::service::allocation::{self, AllocationError, Claims, DRY_RUN_PORT, Plan, WantedAddress, WantedPort};
use rkube_kinds::service::pools::{IpRange, PoolError, PortRange};
use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Status, Value};

use crate::registry::Call;
use crate::resources::Served;
use crate::server::ApiServer;
use addresses::Owner;
use ports::NodePorts;

/// The name of the range of addresses that flags ask for.
pub const DEFAULT_RANGE: &str = "kubernetes";

/// From which addresses and ports services get theirs.
pub struct Ranges {
    addresses: IpRange,
    cidr: String,
    ports: PortRange,
}

impl Ranges {
    pub fn new(cidr: &str, ports: RangeInclusive<u16>) -> Result<Ranges, String> {
        let subnet = Subnet::parse_sloppy(cidr)
            .ok_or_else(|| format!("{cidr:?} is no range of service addresses; give one like 10.96.0.0/12"))?;
        if ports.is_empty() {
            return Err("the range of node ports is empty; give one like 30000-32767".to_owned());
        }
        let ports = PortRange::new(*ports.start(), *ports.end());
        Ok(Ranges { addresses: IpRange::new(subnet), cidr: subnet.to_string(), ports })
    }
}

pub struct Allocation {
    ranges: Ranges,
    ports: NodePorts,
}

impl Allocation {
    pub fn new(ranges: Ranges) -> Allocation {
        Allocation { ports: NodePorts::new(ranges.ports), ranges }
    }

    /// The address of the `kubernetes` service.
    pub fn first_address(&self) -> String {
        self.ranges.addresses.first().to_string()
    }

    /// The range of addresses that flags ask for.
    pub fn default_cidr(&self) -> &str {
        &self.ranges.cidr
    }

    pub async fn begin_create(&self, call: &Call<'_>, value: &mut Value) -> Result<Held, Status> {
        if !applies(call.served) {
            return Ok(Held::default());
        }
        let families = [self.ranges.addresses.family()];
        let plan = allocation::begin_create(value, &families).map_err(|error| refusal(call, value, error))?;
        self.carry_out(call, value, plan).await
    }

    pub async fn begin_update(&self, call: &Call<'_>, value: &mut Value, old: &Value) -> Result<Held, Status> {
        if !applies(call.served) || call.part != Part::Main {
            return Ok(Held::default());
        }
        let families = [self.ranges.addresses.family()];
        let plan = allocation::begin_update(value, old, &families).map_err(|error| refusal(call, value, error))?;
        self.carry_out(call, value, plan).await
    }

    /// Takes what the plan wants and writes it into the service. All or nothing: what was taken before an error is
    /// given back. A dry run takes nothing and shows stand-ins.
    async fn carry_out(&self, call: &Call<'_>, value: &mut Value, plan: Plan) -> Result<Held, Status> {
        let owner = Owner::of(value);
        let mut taken = Claims::default();
        let done = self.take(call, value, &plan, &owner, &mut taken).await;
        if call.options.dry_run {
            return done.map(|()| Held::default()).map_err(|error| refusal(call, value, error));
        }
        match done {
            Ok(()) => Ok(Held { owner, taken, freed: plan.release }),
            Err(error) => {
                self.give_back(call.server, &owner, &taken).await;
                Err(refusal(call, value, error))
            }
        }
    }

    async fn take(
        &self,
        call: &Call<'_>,
        value: &mut Value,
        plan: &Plan,
        owner: &Owner,
        taken: &mut Claims,
    ) -> Result<(), AllocationError> {
        for want in plan.addresses.iter().filter(|want| want.family == self.ranges.addresses.family()) {
            let found = self.take_address(call, want, owner).await;
            let address = found.map_err(|error| want.refuse(value, &error))?;
            taken.addresses.push(address);
            want.write(value, address);
        }
        for want in &plan.ports {
            let port = self.take_port(call, want, owner, taken).await.map_err(|error| want.refuse(&error))?;
            taken.ports.push(port);
            want.write(value, port);
        }
        Ok(())
    }

    async fn take_address(
        &self,
        call: &Call<'_>,
        want: &WantedAddress,
        owner: &Owner,
    ) -> Result<std::net::IpAddr, PoolError> {
        let server = call.server;
        let ranges = addresses::ready(server, want.family);
        match (want.address, call.options.dry_run) {
            (Some(address), true) => {
                let range = ranges.iter().find(|range| range.contains(address)).or(ranges.first());
                range.unwrap_or(&self.ranges.addresses).check(address).map(|()| address)
            }
            (None, true) => Ok(ranges.first().unwrap_or(&self.ranges.addresses).network()),
            (Some(address), false) => addresses::take(server, &ranges, address, owner).await.map(|()| address),
            (None, false) => addresses::take_any(server, &ranges, owner).await,
        }
    }

    async fn take_port(
        &self,
        call: &Call<'_>,
        want: &WantedPort,
        owner: &Owner,
        taken: &Claims,
    ) -> Result<i64, PoolError> {
        let store = &*call.server.store;
        match (want.port, call.options.dry_run) {
            (Some(port), true) if taken.ports.contains(&port) => Err(PoolError::PortTaken),
            (Some(port), true) => match self.ports.owner(store, port).await? {
                Some(_) => Err(PoolError::PortTaken),
                None => Ok(port),
            },
            (None, true) => Ok(taken.ports.iter().max().map_or(DRY_RUN_PORT, |port| port + 1)),
            (Some(port), false) => self.ports.take(store, port, owner).await.map(|()| port),
            (None, false) => self.ports.take_any(store, &*call.server.entropy, owner).await,
        }
    }

    /// Gives back what a service that is gone held.
    pub async fn release(&self, call: &Call<'_>, service: &Value) {
        if applies(call.served) {
            self.give_back(call.server, &Owner::of(service), &Claims::of(service)).await;
        }
    }

    /// The write is done: what it took stays taken, what it left goes back.
    pub async fn keep(&self, call: &Call<'_>, held: Held) {
        self.give_back(call.server, &held.owner, &held.freed).await;
    }

    /// The write failed: what it took goes back.
    pub async fn abandon(&self, call: &Call<'_>, held: Held) {
        self.give_back(call.server, &held.owner, &held.taken).await;
    }

    /// What cannot be given back now is found by the repair loop.
    async fn give_back(&self, server: &ApiServer, owner: &Owner, claims: &Claims) {
        for address in &claims.addresses {
            addresses::release(server, *address, owner).await;
        }
        for port in &claims.ports {
            self.ports.release(&*server.store, *port, owner).await;
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

fn refusal(call: &Call<'_>, value: &Value, error: AllocationError) -> Status {
    match error {
        AllocationError::Invalid(errors) => {
            Status::invalid(&call.served.kind.group_kind(), value.get("metadata").str("name"), &errors)
        }
        AllocationError::Internal(why) => Status::internal(why),
        AllocationError::Plain(message) => Status { code: 500, message, ..Status::default() },
    }
}
