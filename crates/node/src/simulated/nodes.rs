//! The nodes themselves: they register, say how they are, and renew their leases; or do not, if they are told to fail.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Text, Value, object};
use rkube_operator::Outcome;

use super::addresses;
use super::behaviour::Settings;
use super::fleet::{Fleet, SimulatedNode};
use super::registration::{self as simulated, Identity};
use crate::api::{self, Answer};
use crate::pod::backoff::micros;
use crate::registration;
use crate::views::NodeView;

/// How often a node says how it is though nothing has changed, as upstream's.
const STATUS_PERIOD: Duration = Duration::from_secs(300);
/// How soon it says that it has other images.
const IMAGES_PERIOD: Duration = Duration::from_secs(10);
/// A lease is renewed four times in its duration.
const RENEWALS: u32 = 4;
/// Nodes renew in so many groups, each at one moment: whoever writes at the same time shares what a write costs.
const GROUPS: u32 = 10;
/// How long a flapping node is away, and then there, if nothing says it.
const FLAPPING_PERIOD: Duration = Duration::from_secs(60);
/// How long a node waits for the range of its pods before it takes one of its own: a cluster's range has an end.
const RANGE_WAIT: Duration = Duration::from_secs(2);
/// With this taint a node is born. Whoever keeps taints by conditions may be off, or late.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// What a node has said, and to whom.
#[derive(Default)]
pub(super) struct Posted {
    /// It was registered once in this life. One that is deleted afterwards stays so, as with a kubelet.
    registered: bool,
    /// What it has said is what it was made with.
    created: bool,
    /// Of the Node that has the status.
    uid: Text,
    status_micros: i64,
    images: usize,
    ready: bool,
    renewed_micros: i64,
    ranges: Vec<Subnet>,
    pub waits_until_micros: i64,
}

/// What annotations of the Node ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    NotReady,
    /// Until somebody takes the annotation away, or for as long.
    Away {
        until_micros: Option<i64>,
    },
    /// Away again at this time.
    There {
        until_micros: i64,
    },
}

pub(super) async fn reconcile(fleet: Arc<Fleet>, name: Text) -> Result<Outcome, api::Error> {
    let Some(node) = fleet.nodes.get(&name) else { return Ok(Outcome::Unchanged) };
    let now = fleet.now_micros();
    let Some(view) = fleet.node_views.get("", &name) else {
        return register(&fleet, node, now).await;
    };
    let fault = fault(&view.object, now);
    let was_away = node.is_away.swap(matches!(fault, Fault::Away { .. }), Ordering::Relaxed);
    let look_at = |at_micros: i64| {
        let delay = u64::try_from(at_micros - now).unwrap_or(0);
        fleet.node_queue.add_after(name.clone(), Duration::from_micros(delay));
    };
    match fault {
        Fault::Away { until_micros } => {
            until_micros.into_iter().for_each(look_at);
            return Ok(Outcome::Unchanged);
        }
        Fault::There { until_micros } => look_at(until_micros),
        Fault::None | Fault::NotReady => {}
    }
    begin_to_wait(node, now);
    let ranges = fleet.ranges(node, Some(&view), now);
    if ranges.is_empty() {
        look_at(node.waits_until());
    }
    let ranges_changed = std::mem::replace(&mut node.posted.lock().ranges, ranges.clone()) != ranges;
    if was_away || ranges_changed {
        fleet.wake_pods(&name);
    }
    let ready = fault != Fault::NotReady;
    if ready {
        remove_first_taint(&fleet, &name, &view).await?;
    }
    post_status(&fleet, node, &name, &view, (ready, now)).await?;
    renew(&fleet, node, &name, &view, now).await?;
    look_at(next_renewal(&fleet, node, now));
    Ok(Outcome::Unchanged)
}

fn fault(node: &Value, now_micros: i64) -> Fault {
    let settings = Settings::of(node);
    match settings.text("fault") {
        Some("not-ready") => Fault::NotReady,
        Some("lost") => Fault::Away { until_micros: None },
        Some("flapping") => {
            let period = settings.duration("fault-period").filter(|period| !period.is_zero());
            let period = micros(period.unwrap_or(FLAPPING_PERIOD));
            let until_micros = (now_micros.div_euclid(period) + 1) * period;
            match now_micros.div_euclid(period) % 2 {
                0 => Fault::There { until_micros },
                _ => Fault::Away { until_micros: Some(until_micros) },
            }
        }
        _ => Fault::None,
    }
}

async fn register(fleet: &Fleet, node: &SimulatedNode, now: i64) -> Result<Outcome, api::Error> {
    if node.posted.lock().registered {
        return Ok(Outcome::Unchanged);
    }
    let range = (!fleet.config.ranges_are_given).then(|| addresses::fallback_range(node.index));
    let object = identity(fleet, node).node(range, now.div_euclid(1_000_000));
    // That it exists already is as good: its status follows.
    let created = api::create(&node.client, "/api/v1/nodes", &object).await?;
    let mut posted = node.posted.lock();
    (posted.registered, posted.created) = (true, created == Answer::Done);
    Ok(Outcome::Unchanged)
}

fn begin_to_wait(node: &SimulatedNode, now: i64) {
    let mut posted = node.posted.lock();
    if posted.waits_until_micros == 0 {
        posted.waits_until_micros = now + micros(RANGE_WAIT);
    }
}

fn identity<'a>(fleet: &'a Fleet, node: &SimulatedNode) -> Identity<'a> {
    Identity { template: &fleet.config.template, index: node.index, address: node.address }
}

/// Says how the node is, if that is new or long ago.
async fn post_status(
    fleet: &Fleet,
    node: &SimulatedNode,
    name: &Text,
    view: &NodeView,
    (ready, now): (bool, i64),
) -> Result<(), api::Error> {
    let now_seconds = now.div_euclid(1_000_000);
    let known = view.object.get("status").list("conditions");
    let is_first = {
        let mut posted = node.posted.lock();
        posted.registered = true;
        if std::mem::take(&mut posted.created) {
            posted.uid = view.uid.clone();
            (posted.status_micros, posted.ready) = (now, true);
        }
        let is_first = posted.uid != view.uid;
        let age = now - posted.status_micros;
        let images_changed = posted.images != fleet.images.count(name) && age >= micros(IMAGES_PERIOD);
        // While it was away, others may have said something else.
        let is_so = known.iter().any(|one| one.str("type") == "Ready" && (one.str("status") == "True") == ready);
        if !is_first && !images_changed && is_so && posted.ready == ready && age < micros(STATUS_PERIOD) {
            return Ok(());
        }
        is_first
    };
    let images = fleet.images.reported(name);
    let mut status = match is_first {
        true => identity(fleet, node).status(ready, &images, now_seconds),
        false => object! { "conditions": simulated::conditions(ready, now_seconds), "images": images.clone() },
    };
    registration::keep_times(status.list_mut("conditions"), known);
    let path = format!("/api/v1/nodes/{name}/status");
    if api::patch_strategic(&node.client, &path, &object! { "status": status }).await? == Answer::NotFound {
        return Ok(());
    }
    let mut posted = node.posted.lock();
    posted.uid = view.uid.clone();
    (posted.status_micros, posted.images, posted.ready) = (now, images.len(), ready);
    Ok(())
}

async fn remove_first_taint(fleet: &Fleet, name: &str, view: &NodeView) -> Result<(), api::Error> {
    let taints = view.object.get("spec").list("taints");
    let others: Vec<Value> = taints.iter().filter(|taint| taint.str("key") != NOT_READY).cloned().collect();
    if others.len() < taints.len() {
        let taints = if others.is_empty() { Value::Null } else { others.into() };
        // Somebody else may write taints now: then the watch says so, and this is tried again.
        let metadata = object! { "resourceVersion": view.revision.to_string() };
        let patch = object! { "metadata": metadata, "spec": object! { "taints": taints } };
        api::patch_merge(&fleet.config.keeper, &format!("/api/v1/nodes/{name}"), &patch).await?;
    }
    Ok(())
}

fn renew_period(fleet: &Fleet) -> i64 {
    micros(fleet.config.template.lease_duration / RENEWALS)
}

/// Each group of nodes has its moments, the same in every period.
fn next_renewal(fleet: &Fleet, node: &SimulatedNode, now: i64) -> i64 {
    let period = renew_period(fleet);
    let group = u32::try_from(node.index).unwrap_or(0) % GROUPS;
    let offset = period / i64::from(GROUPS) * i64::from(group);
    ((now - offset).div_euclid(period) + 1) * period + offset
}

async fn renew(fleet: &Fleet, node: &SimulatedNode, name: &str, view: &NodeView, now: i64) -> Result<(), api::Error> {
    // What else wakes a node is no reason to write; a little early is fine, late is not.
    if now - node.posted.lock().renewed_micros < renew_period(fleet) / 2 {
        return Ok(());
    }
    let duration = fleet.config.template.lease_duration;
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let renewal = object! { "spec": registration::renewal(name, duration, now) };
    if api::patch_merge(&node.client, &format!("{path}/{name}"), &renewal).await? == Answer::NotFound {
        let lease = registration::lease(name, Some(&view.uid), duration, now);
        api::create(&node.client, path, &lease).await?;
    }
    node.posted.lock().renewed_micros = now;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn annotations_of_a_node_ask_for_faults() {
        const SECOND: i64 = 1_000_000;
        let at = |annotations: &str, seconds: i64| {
            let text = format!(r#"{{"metadata":{{"annotations":{{{annotations}}}}}}}"#);
            fault(&json::parse(text.as_bytes()).unwrap(), seconds * SECOND)
        };
        assert_eq!(at("", 0), Fault::None);
        assert_eq!(at(r#""sim.rkube.io/fault":"lost""#, 0), Fault::Away { until_micros: None });
        assert_eq!(at(r#""sim.rkube.io/fault":"not-ready""#, 0), Fault::NotReady);
        let flapping = r#""sim.rkube.io/fault":"flapping","sim.rkube.io/fault-period":"10s""#;
        assert_eq!(at(flapping, 3), Fault::There { until_micros: 10 * SECOND });
        assert_eq!(at(flapping, 10), Fault::Away { until_micros: Some(20 * SECOND) });
        assert_eq!(at(flapping, 20), Fault::There { until_micros: 30 * SECOND });
    }
}
