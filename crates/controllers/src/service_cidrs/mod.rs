//! Lets ranges of service addresses be used, and keeps them until no address needs them. Watches ServiceCIDRs, and whether
//! IPAddresses go; writes the finalizer and the `Ready` condition of ServiceCIDRs.

mod plan;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::kube::api::{Api, ListParams, Patch, PatchParams};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Outcome, Queue, Selection};
use serde_json::json;
use tokio::time::Instant;

use crate::Context;

const NAME: &str = "service-cidr-controller";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const WORKERS: usize = 1;
const OURS: &str = "ipaddress.kubernetes.io/managed-by=ipallocator.k8s.io";
/// Servers may hand out addresses of a range for so long after it is to go.
const GRACE: Duration = Duration::from_secs(10);
const TERMINATING: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

struct Condition {
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// What is to be known of an IPAddress: that it is there.
struct Address;

/// When ranges that are to go were first seen to be.
type Going = Arc<Mutex<HashMap<String, Instant>>>;

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let queue: Queue<String> = Queue::new();
    let going = Going::default();
    let (adding, waiting) = (queue.clone(), going.clone());
    let ranges = caches.objects::<ServiceCIDR>().on_change(move |change| {
        adding.add(change.key.name.clone());
        // Another range may have what one that is to go is still needed for.
        add_going(&adding, &waiting);
    });
    let (adding, waiting) = (queue.clone(), going.clone());
    let metadata = Selection { metadata_only: true, ..Selection::default() };
    let resource = ApiResource::erase::<IPAddress>(&());
    let addresses = caches.view(&resource, metadata, |_| Some(Address)).on_change(move |change| {
        if change.new.is_none() {
            add_going(&adding, &waiting);
        }
    });
    ranges.synced().await;
    addresses.synced().await;
    let watched = Arc::new((ranges, addresses));
    rkube_operator::run(NAME, queue.clone(), WORKERS, move |name: String| {
        let (client, clock, watched, waiting, going) =
            (client.clone(), clock.clone(), watched.clone(), queue.clone(), going.clone());
        async move {
            let ranges = &watched.0;
            let Some(range) = ranges.get("", &name) else {
                going.lock().remove(&name);
                return Ok(Outcome::Unchanged);
            };
            if range.metadata.deletion_timestamp.is_none() {
                return settle(hold(&client, &*clock, &range).await);
            }
            let since = *going.lock().entry(name.clone()).or_insert_with(Instant::now);
            if !plan::may_go(&range, &ranges.all(), &addresses_of_services(&client).await?) {
                let why = Condition { status: "False", reason: "Terminating", message: TERMINATING };
                return settle(set_condition(&client, &*clock, &range, &why).await);
            }
            let left = GRACE.saturating_sub(since.elapsed());
            if !left.is_zero() {
                waiting.add_after(name, left);
                return Ok(Outcome::Unchanged);
            }
            settle(let_go(&client, &range).await)
        }
    })
    .await;
}

/// Looks again at the ranges that are to go.
fn add_going(queue: &Queue<String>, going: &Going) {
    going.lock().keys().for_each(|name| queue.add(name.clone()));
}

/// The addresses that services have.
async fn addresses_of_services(client: &Client) -> Result<Vec<String>, kube::Error> {
    let list = Api::<IPAddress>::all(client.clone()).list_metadata(&ListParams::default().labels(OURS)).await?;
    Ok(list.items.into_iter().filter_map(|address| address.metadata.name).collect())
}

/// Makes sure that the range stays while it is needed, and says that it is ready.
async fn hold(client: &Client, clock: &dyn Clock, range: &ServiceCIDR) -> Result<Outcome, kube::Error> {
    let mut outcome = Outcome::Unchanged;
    if !is_held(range) {
        outcome = patch(client, range, &json!({ "metadata": { "finalizers": [FINALIZER] } })).await?;
    }
    let ready = Condition { status: "True", reason: "", message: "Kubernetes Service CIDR is ready" };
    match set_condition(client, clock, range, &ready).await? {
        Outcome::Unchanged => Ok(outcome),
        Outcome::Wrote => Ok(Outcome::Wrote),
    }
}

async fn let_go(client: &Client, range: &ServiceCIDR) -> Result<Outcome, kube::Error> {
    if !is_held(range) {
        return Ok(Outcome::Unchanged);
    }
    patch(client, range, &json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [FINALIZER] } })).await
}

fn is_held(range: &ServiceCIDR) -> bool {
    range.metadata.finalizers.as_ref().is_some_and(|all| all.iter().any(|one| one == FINALIZER))
}

async fn patch(client: &Client, range: &ServiceCIDR, patch: &serde_json::Value) -> Result<Outcome, kube::Error> {
    let name = range.metadata.name.clone().unwrap_or_default();
    let api: Api<ServiceCIDR> = Api::all(client.clone());
    api.patch(&name, &PatchParams::default(), &Patch::Strategic(patch)).await.map(|_| Outcome::Wrote)
}

async fn set_condition(
    client: &Client,
    clock: &dyn Clock,
    range: &ServiceCIDR,
    wanted: &Condition,
) -> Result<Outcome, kube::Error> {
    let conditions = range.status.as_ref().and_then(|status| status.conditions.as_ref());
    let current = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    let same = current.is_some_and(|current| {
        current.status == wanted.status && current.reason == wanted.reason && current.message == wanted.message
    });
    if same {
        return Ok(Outcome::Unchanged);
    }
    let name = range.metadata.name.clone().unwrap_or_default();
    let condition = json!({
        "type": "Ready",
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": time::format_seconds(clock.now_seconds()),
    });
    let status = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": { "name": name },
        "status": { "conditions": [condition] },
    });
    let api: Api<ServiceCIDR> = Api::all(client.clone());
    api.patch_status(&name, &PatchParams::apply(NAME).force(), &Patch::Apply(&status)).await.map(|_| Outcome::Wrote)
}

/// That the range is gone is no failure.
fn settle(outcome: Result<Outcome, kube::Error>) -> Result<Outcome, kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::Wrote),
        other => other,
    }
}
