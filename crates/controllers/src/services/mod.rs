//! What the controllers of Endpoints and EndpointSlices share: the view of services, who selects a pod, ports, and when
//! the change happened that an object tells of.

pub mod endpoints;
pub mod pause;
pub mod port;
mod read;
pub mod slices;
pub mod subsets;
pub mod trigger;
pub mod write;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::Text;
use rkube_operator::{Caches, Index, Informer, Key, Queue};

use crate::metadata::Labels;
use crate::pods::by_label::{ByLabel, is_indexed, pair};
use crate::pods::{self, Pod};
pub use port::Port;
pub use read::informer;

/// Label of endpoints that belong to a service without an address of its own.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation with the time of the change that led to the object's own.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Pods that begin to terminate do so together, when something is scaled down: so long they are waited for, to be
/// written together.
const TERMINATING_TOGETHER: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, Default)]
pub struct Service {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub labels: Arc<Labels>,
    /// None, and it is not for us to say where it leads.
    pub selector: Option<Arc<Labels>>,
    /// Seconds since 1970.
    pub created: Option<i64>,
    pub deleting: bool,
    pub external_name: bool,
    pub cluster_ip: ClusterIp,
    pub families: Vec<Family>,
    pub publish_not_ready: bool,
    pub ports: Box<[port::OfService]>,
    pub traffic: Option<Traffic>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterIp {
    #[default]
    Unset,
    /// It says that it has none.
    Headless,
    Set(Family),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn of(address: IpAddr) -> Family {
        // As Go counts them: an IPv4 address in IPv6's form is one of IPv4.
        if address.to_canonical().is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// As EndpointSlices name it.
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }
}

/// Whether traffic stays close, and how close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    SameZone,
    SameNode,
    /// In its zone, as far as that has its part of the endpoints.
    ByZones,
}

impl Service {
    /// Whether it is for us to say where it leads.
    pub fn is_selecting(&self) -> bool {
        self.selector.is_some() && !self.external_name
    }

    pub fn key(&self) -> Key {
        Key { namespace: self.namespace.to_string(), name: self.name.to_string() }
    }

    pub fn has_address(&self) -> bool {
        matches!(self.cluster_ip, ClusterIp::Set(_))
    }

    pub fn selects(&self, pod: &Pod) -> bool {
        self.namespace == pod.namespace && self.selector.as_ref().is_some_and(|selector| selector.within(&pod.labels))
    }

    /// Whether the pod has a name of its own under the service's.
    pub fn names(&self, pod: &Pod) -> bool {
        !pod.network.hostname.is_empty() && pod.network.subdomain == self.name
    }

    /// The services that select a pod with these labels. The cost is by those that share a label with it.
    pub fn of_pod(services: &Informer<Service>, namespace: &str, labels: &Labels) -> Vec<Arc<Service>> {
        let keys = labels.iter().map(|(key, value)| pair(namespace, key, value));
        let candidates = keys.flat_map(|key| services.by_index::<BySelector, _>(&key));
        let selecting = |service: &Arc<Service>| {
            service.namespace == namespace && service.selector.as_ref().is_some_and(|selector| selector.within(labels))
        };
        candidates.filter(selecting).collect()
    }

    /// The pods that the service selects, ordered by name. The cost is by those that share a label with it.
    pub fn pods(&self, pods: &Informer<Pod>) -> Vec<Arc<Pod>> {
        let Some(selector) = &self.selector else { return Vec::new() };
        let mut found = match selector.iter().find(|(key, _)| is_indexed(key)) {
            Some((key, value)) => pods.by_index::<ByLabel, _>(&pair(&self.namespace, key, value)),
            None => pods.in_namespace(&self.namespace),
        };
        found.retain(|pod| self.selects(pod));
        found
    }
}

/// Services by the first pair of their selectors.
pub struct BySelector;

impl Index<Service> for BySelector {
    type Key = u64;

    fn keys(_: &Key, service: &Service) -> impl IntoIterator<Item = u64> {
        let first = service.selector.as_ref().and_then(|selector| selector.iter().next());
        first.map(|(key, value)| pair(&service.namespace, key, value))
    }
}

/// Follows services and pods, and adds each service that changes, or whose pods do: then after the given time, in which more
/// may change.
pub fn follow(caches: &Caches, queue: &Queue<Key>, batch: Duration) -> (Arc<Informer<Service>>, Informer<Pod>) {
    let adding = queue.clone();
    let services = Arc::new(informer(caches).on_change(move |change| adding.add(change.key.clone())));
    let (adding, selecting) = (queue.clone(), services.clone());
    let pods = pods::informer(caches).indexed::<ByLabel>().on_change(move |change| {
        let (old, new) = (change.old.map(Arc::as_ref), change.new.map(Arc::as_ref));
        for labels in labels_concerned(old, new) {
            for service in Service::of_pod(&selecting, &change.key.namespace, labels) {
                let delay = if begins_to_terminate(old, new) { batch.max(TERMINATING_TOGETHER) } else { batch };
                if delay.is_zero() {
                    adding.add(service.key());
                } else {
                    adding.add_after(service.key(), delay);
                }
            }
        }
    });
    (services, pods)
}

/// Whether this is where the API server itself is reached: the server sees to that.
pub fn is_own_of_server(key: &Key) -> bool {
    key.namespace == "default" && key.name == "kubernetes"
}

/// Whether a change of a pod is one of what services say of it: then the labels by which services are concerned.
fn labels_concerned<'a>(old: Option<&'a Pod>, new: Option<&'a Pod>) -> Vec<&'a Arc<Labels>> {
    // What has no address is not in endpoints, and what came with its end was never there.
    let shown = |pod: &&Pod| !pod.network.addresses.is_empty();
    let (old, new) = match (old.filter(shown), new.filter(shown)) {
        (Some(old), Some(new)) => (old, new),
        (Some(one), None) => return vec![&one.labels],
        (None, Some(one)) if !one.is_terminal() => return vec![&one.labels],
        (None, _) => return Vec::new(),
    };
    // Another pod of the same name is another pod. One that ends without a change of its readiness is told of when
    // something else changes, as upstream, unless it is on its way out.
    let same = old.uid == new.uid
        && old.deleted == new.deleted
        && old.ready == new.ready
        && old.node == new.node
        && old.network == new.network
        && (new.deleted.is_none() || old.is_terminal() == new.is_terminal());
    match (same, old.labels == new.labels) {
        (true, true) => Vec::new(),
        (false, true) => vec![&new.labels],
        (_, false) => vec![&old.labels, &new.labels],
    }
}

fn begins_to_terminate(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return false };
    old.deleted.is_none() && new.deleted.is_some() && old.ready == new.ready && !new.is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::{Network, Phase};

    #[test]
    fn services_hear_of_changes_that_matter() {
        let network = Network { addresses: ["10.0.0.1".parse().unwrap()].into(), ..Network::default() };
        let labels = |value: &str| Arc::new(Labels::new([("app".into(), value.into())]));
        let there = Pod { uid: "1".into(), labels: labels("a"), network, ..Pod::default() };
        let bare = Pod { network: Network::default(), ..there.clone() };
        let ended = Pod { phase: Phase::Failed, ..there.clone() };
        let ready = Pod { ready: true, ..there.clone() };
        let going = Pod { deleted: Some(1), ..there.clone() };
        let gone = Pod { phase: Phase::Failed, ..going.clone() };
        let another = Pod { uid: "2".into(), ..there.clone() };
        let moved = Pod { labels: labels("b"), ..there.clone() };
        let noted = Pod { revision: 9, generation: 9, ..there.clone() };
        // Before and after, by how many labels services are looked for, and whether they are given a moment.
        let table = [
            (None, Some(&bare), 0, false),
            (Some(&bare), None, 0, false),
            (Some(&bare), Some(&there), 1, false),
            (None, Some(&there), 1, false),
            (Some(&there), None, 1, false),
            (Some(&there), Some(&noted), 0, false),
            (Some(&there), Some(&ready), 1, false),
            (Some(&there), Some(&going), 1, true),
            (Some(&there), Some(&ended), 0, false),
            (Some(&ready), Some(&ended), 1, false),
            (Some(&going), Some(&gone), 1, false),
            (None, Some(&ended), 0, false),
            (Some(&ended), None, 1, false),
            (Some(&there), Some(&another), 1, false),
            (Some(&there), Some(&moved), 2, false),
        ];
        for (place, (old, new, expected, moment)) in table.into_iter().enumerate() {
            assert_eq!(labels_concerned(old, new).len(), expected, "{place}");
            assert_eq!(begins_to_terminate(old, new), moment, "{place}");
        }
    }
}
