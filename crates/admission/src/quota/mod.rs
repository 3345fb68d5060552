//! ResourceQuota: what is about to be written is charged to the quotas of its namespace, and refused where one has not
//! enough left. The last plugin of all: nothing but the store comes after it.
//!
//! A charge is written into the quota's status, by compare-and-swap, before the object is stored; so that whoever writes
//! at the same time, by this server or another, sees it. What is charged for an object that comes to nothing after all is
//! found out by the controller, which also makes good what objects leave that go.
//!
//! Where a namespace has no quota, that costs a look at the cache. Else `demand` says whether a quota has anything to say,
//! from the cache; only who has to be charged waits, in `charging`.

mod charging;
mod demand;
mod known;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use rkube_catalog::{Entry, Resource};
use rkube_machinery::host::Clock;
use rkube_machinery::{Status, Value};
use rkube_quota::Evaluator;

use crate::{Attributes, Operation, Plugin, Step};
use charging::{Charging, Failure};
use demand::{Demand, Running};
use known::Known;

pub const NAME: &str = "ResourceQuota";

/// So long a write waits to be charged.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Who reads quotas past the cache, and writes their status.
pub trait Quotas: Send + Sync {
    /// The quota as the store has it.
    fn read<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Option<Entry>, Status>>;

    /// Writes what is used of a quota, if it is still this one: a conflict if not.
    fn write_used<'a>(&'a self, quota: &'a Entry, used: Value) -> BoxFuture<'a, Result<Entry, Status>>;
}

/// Where the one is found who does; there is nobody before the server starts, and after its end.
pub type QuotasHandle = Arc<OnceLock<Weak<dyn Quotas>>>;

pub struct ResourceQuota {
    /// None where they are not served.
    cache: Option<Arc<Resource>>,
    clock: Arc<dyn Clock>,
    known: Arc<Known>,
    charging: Arc<Charging>,
}

impl ResourceQuota {
    pub fn new(cache: Option<Arc<Resource>>, quotas: QuotasHandle, clock: Arc<dyn Clock>) -> ResourceQuota {
        let known = Arc::new(Known::default());
        let charging = Arc::new(Charging::new(cache.clone(), known.clone(), quotas));
        ResourceQuota { cache, clock, known, charging }
    }
}

impl Plugin for ResourceQuota {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create_or_update() && !attributes.namespace.is_empty() && !attributes.is_about("", "namespaces")
    }

    fn validate<'a>(&'a self, attributes: &'a mut Attributes<'_>, object: &'a Value) -> Step<'a> {
        let Some(cache) = &self.cache else { return Step::Now(Ok(())) };
        let entries = cache.entries_within(attributes.namespace);
        if entries.is_empty() {
            return Step::Now(Ok(()));
        }
        let Some(demand) = demand_of(attributes, object, self.clock.now_micros()) else { return Step::Now(Ok(())) };
        let quotas: Vec<Running> = entries.into_iter().map(|entry| Running::new(entry, &self.known)).collect();
        match demand.check(&quotas) {
            Err(why) => return Step::Now(Err(attributes.forbidden(object, why))),
            Ok(charges) if charges.is_empty() || attributes.dry_run => return Step::Now(Ok(())),
            Ok(_) => {}
        }
        Step::Later(Box::pin(async move {
            let charged = self.charging.charge(attributes.namespace, demand);
            match tokio::time::timeout(TIMEOUT, charged).await {
                Ok(Ok(Ok(()))) => Ok(()),
                Ok(Ok(Err(Failure::Exceeded(why)))) => Err(attributes.forbidden(object, why)),
                Ok(Ok(Err(Failure::Other(status)))) => Err(*status),
                Ok(Err(_)) => Err(Status::internal("resource quota evaluation failed")),
                Err(_) => Err(Status::internal("resource quota evaluation timed out")),
            }
        }))
    }
}

/// What a write asks for. None: it cannot change what any quota counts.
fn demand_of(attributes: &Attributes<'_>, object: &Value, now_micros: i64) -> Option<Demand> {
    let kind = &attributes.served.kind;
    let evaluator = Evaluator::of(&kind.group, &kind.resource)?;
    let is_update = attributes.operation == Operation::Update;
    let may_change = match (&evaluator, attributes.subresource) {
        (Evaluator::Count { .. }, "") => !is_update,
        (Evaluator::Pods, "") => !is_update || attributes.old.is_some_and(|old| deadline(old) != deadline(object)),
        (Evaluator::Pods, "resize") | (Evaluator::VolumeClaims, "status") => is_update,
        (Evaluator::Services | Evaluator::VolumeClaims | Evaluator::ResourceClaims, "") => true,
        _ => false,
    };
    may_change.then(|| Demand::new(evaluator, attributes, object, now_micros))
}

/// Whether a pod has a time at which it ends: it is in another scope then.
fn deadline(pod: &Value) -> bool {
    pod.get("spec").get("activeDeadlineSeconds").as_int().is_some_and(|seconds| seconds >= 0)
}
