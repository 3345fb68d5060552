//! Which EndpointSlices of a service are to be made, changed and deleted, as pure functions.
//!
//! As few slices change as can be: what is in a slice stays there, what is new goes first into slices that change
//! anyway, then into the one that it fills best, and only then into new ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rkube_machinery::Text;

use crate::pods::Pod;
use crate::services::slices::{
    BY_PODS, Conditions, Endpoint, Hints, MANAGED_BY, Named, SERVICE_NAME, Slice, hints_digest,
};
use crate::services::subsets::Reference;
use crate::services::{ClusterIp, Family, HEADLESS, Port, Service, Traffic};

/// What is to be done for one family of addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub create: Vec<Content>,
    /// By name.
    pub update: Vec<(Text, Content)>,
    pub delete: Vec<Text>,
    /// Pods that are left out because their nodes are unknown, in upstream's words.
    pub left_out: Vec<String>,
}

/// What a slice holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub ports: Vec<Port>,
    pub endpoints: Vec<Endpoint>,
}

impl Plan {
    /// What slices that are made or change are to hold.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        self.create.iter().chain(self.update.iter().map(|(_, content)| content))
    }

    pub fn contents_mut(&mut self) -> impl Iterator<Item = &mut Content> {
        self.create.iter_mut().chain(self.update.iter_mut().map(|(_, content)| content))
    }
}

/// A slice that is as it is to be, but perhaps for hints.
pub struct Unchanged<'a> {
    slice: &'a Arc<Slice>,
    /// In the order in which the slice has it.
    pub content: Content,
}

impl Unchanged<'_> {
    pub fn has_hints(&self) -> bool {
        self.slice.endpoints.iter().any(|known| known.hints != 0)
    }

    /// The hints of its endpoints that are ready.
    pub fn hints_of_ready(&self) -> impl Iterator<Item = u64> {
        self.ready().map(|(hints, _)| hints)
    }

    fn ready(&self) -> impl Iterator<Item = (u64, &Endpoint)> {
        let known = self.slice.endpoints.iter().map(|known| known.hints);
        known.zip(&self.content.endpoints).filter(|(_, endpoint)| endpoint.is_ready())
    }

    pub fn into_update(self) -> (Text, Content) {
        (self.slice.name.clone(), self.content)
    }
}

/// The families that the service has slices of.
pub fn families(service: &Service) -> Vec<Family> {
    match (service.cluster_ip, service.families.as_slice()) {
        (ClusterIp::Set(family), []) => vec![family],
        (_, []) => vec![Family::V4, Family::V6],
        (_, families) => families.to_vec(),
    }
}

/// `zone` says of a node in which it is (empty: in none), if the node is known. `existing` are slices of this family.
/// With the plan comes what stays as it is but for [`hints`](give_hints).
pub fn plan<'a>(
    service: &Service,
    pods: &[Arc<Pod>],
    zone: &dyn Fn(&str) -> Option<Text>,
    existing: &[&'a Arc<Slice>],
    family: Family,
    endpoints_max: usize,
) -> (Plan, Vec<Unchanged<'a>>) {
    let (mut plan, mut unchanged) = (Plan::default(), Vec::new());
    let labels = labels(service);
    let (owned, foreign): (Vec<&'a Arc<Slice>>, Vec<&'a Arc<Slice>>) =
        existing.iter().copied().partition(|slice| is_owned(slice, service));
    let mut deleted: Vec<&Arc<Slice>> = foreign;
    let mut by_ports: HashMap<&[Port], Vec<&'a Arc<Slice>>> = HashMap::new();
    for slice in owned.iter().copied() {
        by_ports.entry(&slice.ports).or_default().push(slice);
    }
    for (ports, wanted) in desired(service, pods, zone, family, &mut plan.left_out) {
        let slices = by_ports.remove(ports.as_slice()).unwrap_or_default();
        let group = Group { labels: &labels, ports, slices, wanted, endpoints_max };
        unchanged.extend(pack(&mut plan, &mut deleted, group));
    }
    deleted.extend(owned.iter().filter(|slice| by_ports.contains_key(slice.ports.as_slice())));
    if deleted.len() == existing.len() && plan.create.is_empty() {
        // There is always one, be it empty.
        match deleted.as_slice() {
            [one] if one.ports.is_empty() && one.endpoints.is_empty() && same_labels(one, &labels) => deleted.clear(),
            _ => plan.create.push(Content::default()),
        }
    }
    recycle(&mut plan, deleted, service);
    (plan, unchanged)
}

/// The endpoints that are to be there, of each combination of ports.
fn desired(
    service: &Service,
    pods: &[Arc<Pod>],
    zone: &dyn Fn(&str) -> Option<Text>,
    family: Family,
    left_out: &mut Vec<String>,
) -> Vec<(Vec<Port>, Wanted)> {
    let mut groups: Vec<(Vec<Port>, Wanted)> = Vec::new();
    for pod in pods {
        if pod.is_terminal() || pod.network.addresses.is_empty() {
            continue;
        }
        let mut ports: Vec<Port> = service.ports.iter().filter_map(|port| port.on(pod)).collect();
        if ports.len() > 1 {
            ports.sort_by_cached_key(Port::order_in_slice);
        }
        let place = groups.iter().position(|(known, _)| *known == ports).unwrap_or_else(|| {
            groups.push((ports, Wanted::default()));
            groups.len() - 1
        });
        let zone = zone(&pod.node);
        if zone.is_none() && !service.publish_not_ready {
            left_out.push(format!(
                "skipping Pod {} for Service {}/{}: Node {} Not Found",
                pod.name, service.namespace, service.name, pod.node
            ));
            continue;
        }
        if let Some(endpoint) = endpoint(service, pod, zone.unwrap_or_default(), family) {
            groups[place].1.insert(endpoint);
        }
    }
    groups
}

fn endpoint(service: &Service, pod: &Pod, zone: Text, family: Family) -> Option<Endpoint> {
    let own = pod.network.addresses.iter().filter(|address| Family::of(**address) == family);
    let addresses: Vec<String> = own.map(|address| address.to_canonical().to_string()).collect();
    if addresses.is_empty() {
        return None;
    }
    let terminating = pod.deleted.is_some();
    let some = |text: &Text| (!text.is_empty()).then(|| text.clone());
    Some(Endpoint {
        addresses,
        conditions: Conditions {
            ready: Some(service.publish_not_ready || (pod.ready && !terminating)),
            serving: Some(pod.ready),
            terminating: Some(terminating),
        },
        hostname: service.names(pod).then(|| pod.network.hostname.clone()),
        target_ref: Some(Reference {
            kind: "Pod".into(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            ..Reference::default()
        }),
        node_name: some(&pod.node),
        zone: some(&zone),
        hints: None,
    })
}

/// Endpoints that are to be in slices and are in none yet, in the order of their pods.
#[derive(Default)]
struct Wanted {
    in_order: Vec<Option<Endpoint>>,
    by_identity: HashMap<u64, usize>,
    next: usize,
}

impl Wanted {
    fn insert(&mut self, endpoint: Endpoint) {
        let place = *self.by_identity.entry(endpoint.identity()).or_insert(self.in_order.len());
        if place == self.in_order.len() {
            self.in_order.push(None);
        }
        self.in_order[place] = Some(endpoint);
    }

    fn take(&mut self, identity: u64) -> Option<Endpoint> {
        let place = self.by_identity.remove(&identity)?;
        self.in_order[place].take()
    }

    fn len(&self) -> usize {
        self.by_identity.len()
    }

    /// Moves as many as fit.
    fn fill(&mut self, endpoints: &mut Vec<Endpoint>, endpoints_max: usize) {
        while endpoints.len() < endpoints_max
            && let Some(slot) = self.in_order.get_mut(self.next)
        {
            self.next += 1;
            if let Some(endpoint) = slot.take() {
                self.by_identity.remove(&endpoint.identity());
                endpoints.push(endpoint);
            }
        }
    }
}

/// Slices with the same ports, and what is to be in them.
struct Group<'a, 'b> {
    labels: &'b BTreeMap<String, String>,
    ports: Vec<Port>,
    slices: Vec<&'a Arc<Slice>>,
    wanted: Wanted,
    /// So many are in one slice at most.
    endpoints_max: usize,
}

/// A slice, and what is to be in it.
type Kept<'a> = (&'a Arc<Slice>, Vec<Endpoint>);

/// Plans what a group needs. What stays as it is.
fn pack<'a>(plan: &mut Plan, deleted: &mut Vec<&'a Arc<Slice>>, group: Group<'a, '_>) -> Vec<Unchanged<'a>> {
    let Group { labels, ports, slices, mut wanted, endpoints_max } = group;
    // What stays in each slice.
    let (mut changed, mut unchanged): (Vec<Kept<'_>>, Vec<Kept<'_>>) = Default::default();
    for slice in slices {
        let mut kept = Vec::with_capacity(slice.endpoints.len());
        let mut same = true;
        for known in &slice.endpoints {
            match wanted.take(known.identity) {
                Some(endpoint) => {
                    same &= endpoint.known().state == known.state;
                    kept.push(endpoint);
                }
                None => same = false,
            }
        }
        match (same, kept.is_empty()) {
            (false, true) => deleted.push(slice),
            (true, _) if same_labels(slice, labels) => unchanged.push((slice, kept)),
            _ => changed.push((slice, kept)),
        }
    }
    // The fullest first.
    changed.sort_by_key(|(_, endpoints)| std::cmp::Reverse(endpoints.len()));
    changed.iter_mut().for_each(|(_, endpoints)| wanted.fill(endpoints, endpoints_max));
    while wanted.len() > 0 {
        match best_fit(&unchanged, wanted.len(), endpoints_max) {
            Some(place) => {
                let (slice, mut endpoints) = unchanged.swap_remove(place);
                wanted.fill(&mut endpoints, endpoints_max);
                changed.push((slice, endpoints));
            }
            None => {
                let mut endpoints = Vec::new();
                wanted.fill(&mut endpoints, endpoints_max);
                plan.create.push(Content { ports: ports.clone(), endpoints });
            }
        }
    }
    let content = |endpoints| Content { ports: ports.clone(), endpoints };
    plan.update.extend(changed.into_iter().map(|(slice, endpoints)| (slice.name.clone(), content(endpoints))));
    unchanged.into_iter().map(|(slice, endpoints)| Unchanged { slice, content: content(endpoints) }).collect()
}

/// The slice that so many more fill best.
fn best_fit(unchanged: &[Kept<'_>], more: usize, endpoints_max: usize) -> Option<usize> {
    if more >= endpoints_max {
        return None;
    }
    let room = |place: &usize| endpoints_max.checked_sub(more + unchanged[*place].1.len());
    (0..unchanged.len()).filter(|place| room(place).is_some()).min_by_key(room)
}

/// Instead of deleting a slice and making one, changes the first to be the second.
fn recycle(plan: &mut Plan, deleted: Vec<&Arc<Slice>>, service: &Service) {
    for slice in deleted {
        match plan.create.pop_if(|_| is_owned(slice, service)) {
            Some(content) => plan.update.push((slice.name.clone(), content)),
            None => plan.delete.push(slice.name.clone()),
        }
    }
}

fn is_owned(slice: &Slice, service: &Service) -> bool {
    let mut owners = slice.owners.iter();
    owners.any(|owner| owner.uid == service.uid && owner.kind == "Service" && owner.api_version == "v1")
}

/// The labels of a service's slices: its own, and those by which slices are found.
pub fn labels(service: &Service) -> BTreeMap<String, String> {
    let own = service.labels.iter().filter(|(key, _)| !is_reserved(key));
    let mut labels: BTreeMap<String, String> = own.map(|(key, value)| (key.to_string(), value.to_string())).collect();
    if !service.has_address() {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.name.to_string());
    labels.insert(MANAGED_BY.to_owned(), BY_PODS.to_owned());
    labels
}

fn is_reserved(key: &str) -> bool {
    [HEADLESS, SERVICE_NAME, MANAGED_BY].contains(&key)
}

/// Whether the slice has the service's labels. The others do not count, as with upstream.
fn same_labels(slice: &Slice, labels: &BTreeMap<String, String>) -> bool {
    let wanted = labels.iter().filter(|(key, _)| !is_reserved(key));
    let there = slice.labels.iter().filter(|(key, _)| !is_reserved(key));
    there
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .eq(wanted.map(|(key, value)| (key.as_str(), value.as_str())))
}

/// Says for whom endpoints are meant: those in their zone, or on their node. What has other hints changes, too.
pub fn give_hints(plan: &mut Plan, unchanged: Vec<Unchanged<'_>>, traffic: Option<Traffic>) {
    let Some(traffic) = traffic else {
        plan.update.extend(unchanged.into_iter().filter(Unchanged::has_hints).map(Unchanged::into_update));
        return;
    };
    let differs = |one: &Unchanged<'_>| {
        one.ready().any(|(there, endpoint)| there != hints_digest(hints(traffic, endpoint).as_ref()))
    };
    plan.update.extend(unchanged.into_iter().filter(differs).map(Unchanged::into_update));
    let endpoints = plan.contents_mut().flat_map(|content| &mut content.endpoints);
    endpoints.filter(|endpoint| endpoint.is_ready()).for_each(|endpoint| endpoint.hints = hints(traffic, endpoint));
}

/// For whom the endpoint is meant: those in its zone, or on its node.
fn hints(traffic: Traffic, endpoint: &Endpoint) -> Option<Hints> {
    let named = |name: &Option<Text>| name.iter().map(|name| Named { name: name.clone() }).collect();
    let for_nodes: Vec<Named> = if traffic == Traffic::SameNode { named(&endpoint.node_name) } else { Vec::new() };
    let hints = Hints { for_zones: named(&endpoint.zone), for_nodes };
    (hints != Hints::default()).then_some(hints)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
