//! Addresses and node ports of services: taken when a service is written, given back when it goes or the write fails.
//!
//! The pools live in memory and are made from the stored services at start. With several control planes on one store
//! each has its own, so that two may hand out the same address at the same moment; that is left to a repair loop.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_kinds::kind::Part;
use rkube_kinds::service::allocation::{self, AllocationError, Claims, Plan, Pools};
use rkube_kinds::service::pools::{Addresses, IpRange, Ports};
use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Status, Value};

use crate::registry::Call;
use crate::resources::{Resources, Served};

/// From which addresses and ports services get theirs.
pub struct Ranges {
    addresses: IpRange,
    ports: RangeInclusive<u16>,
}

impl Ranges {
    pub fn new(cidr: &str, ports: RangeInclusive<u16>) -> Result<Ranges, String> {
        let subnet = Subnet::parse_sloppy(cidr)
            .ok_or_else(|| format!("{cidr:?} is no range of service addresses; give one like 10.96.0.0/12"))?;
        if ports.is_empty() {
            return Err("the range of node ports is empty; give one like 30000-32767".to_owned());
        }
        Ok(Ranges { addresses: IpRange::new(subnet), ports })
    }
}

pub struct Allocation {
    pools: Arc<Mutex<Pools>>,
}

impl Allocation {
    /// The pools without what the stored services hold.
    pub fn new(ranges: Ranges, resources: &Resources) -> Allocation {
        let mut pools = Pools {
            addresses: vec![Addresses::new(ranges.addresses)],
            ports: Ports::new(*ranges.ports.start(), *ranges.ports.end()),
        };
        if let Some(services) = resources.find("", "v1", "services").and_then(|served| served.cache.as_ref()) {
            for entry in services.snapshot().0.values() {
                pools.restore(&Claims::of(&entry.object.value(entry.revision)));
            }
        }
        Allocation { pools: Arc::new(Mutex::new(pools)) }
    }

    /// The address of the `kubernetes` service.
    pub fn first_address(&self) -> String {
        self.pools.lock().addresses.first().map(|pool| pool.range.first().to_string()).unwrap_or_default()
    }

    pub fn begin_create(&self, call: &Call<'_>, value: &mut Value) -> Result<Held, Status> {
        if !applies(call.served) {
            return Ok(Held::default());
        }
        let families = self.pools.lock().families();
        let plan = allocation::begin_create(value, &families).map_err(|error| refusal(call, value, error))?;
        self.carry_out(call, value, &plan)
    }

    pub fn begin_update(&self, call: &Call<'_>, value: &mut Value, old: &Value) -> Result<Held, Status> {
        if !applies(call.served) || call.part != Part::Main {
            return Ok(Held::default());
        }
        let families = self.pools.lock().families();
        let plan = allocation::begin_update(value, old, &families).map_err(|error| refusal(call, value, error))?;
        self.carry_out(call, value, &plan)
    }

    fn carry_out(&self, call: &Call<'_>, value: &mut Value, plan: &Plan) -> Result<Held, Status> {
        let dry_run = call.options.dry_run;
        let mut random = || call.server.entropy.next_u64();
        let taken = plan.carry_out(value, &mut self.pools.lock(), &mut random, dry_run);
        let taken = taken.map_err(|error| refusal(call, value, error))?;
        let freed = if dry_run { Claims::default() } else { plan.release.clone() };
        Ok(Held { pools: Some(self.pools.clone()), taken, freed })
    }

    /// Gives back what a service that is gone held.
    pub fn release(&self, served: &Served, service: &Value) {
        if applies(served) {
            self.pools.lock().release(&Claims::of(service));
        }
    }
}

/// What was taken for a write that is not done yet: given back on drop unless it is kept.
#[derive(Default)]
pub struct Held {
    pools: Option<Arc<Mutex<Pools>>>,
    taken: Claims,
    freed: Claims,
}

impl Held {
    /// The write is done: what it took stays taken, what it left goes back.
    pub fn keep(mut self) {
        if let Some(pools) = self.pools.take() {
            pools.lock().release(&self.freed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(pools) = self.pools.take() {
            pools.lock().release(&self.taken);
        }
    }
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
