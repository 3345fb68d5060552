//! Which EndpointSlices mirror Endpoints, as pure functions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rkube_machinery::Text;
use rkube_machinery::names::address;

use crate::services::slices::{BY_MIRRORING, Conditions, Endpoint, MANAGED_BY, SERVICE_NAME, Slice};
use crate::services::subsets::{Address, Subset, repack};
use crate::services::{Family, Port, TRIGGER_TIME};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is mirrored.
pub struct Mirrored<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub annotations: &'a BTreeMap<String, String>,
    pub subsets: &'a [Subset],
    /// No more addresses of a subset are mirrored.
    pub addresses_max: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub create: Vec<Content>,
    /// By name.
    pub update: Vec<(Text, Content)>,
    /// What would be made takes the place of what would be deleted, by name.
    pub recycle: Vec<(Text, Content)>,
    pub delete: Vec<Text>,
    /// How many are no addresses.
    pub invalid: usize,
    /// How many were left out, these included.
    pub skipped: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Content {
    pub family: Family,
    pub ports: Vec<Port>,
    pub endpoints: Vec<Endpoint>,
}

pub fn plan(mirrored: &Mirrored<'_>, existing: &[Arc<Slice>]) -> Plan {
    let mut plan = Plan::default();
    let mut left: Vec<&Arc<Slice>> = existing.iter().collect();
    let mut deleted: Vec<&Arc<Slice>> = Vec::new();
    for content in contents(mirrored, &mut plan) {
        let fits = |slice: &&Arc<Slice>| slice.address_type == content.family.name() && slice.ports == content.ports;
        let (slices, others) = left.into_iter().partition(fits);
        left = others;
        let mut slices: std::vec::IntoIter<&Arc<Slice>> = Vec::into_iter(slices);
        match slices.next() {
            None => plan.create.push(content),
            Some(first) if !is_same(mirrored, first, &content) => plan.update.push((first.name.clone(), content)),
            Some(_) => {}
        }
        deleted.extend(slices);
    }
    deleted.extend(left);
    // Instead of deleting one and making another, it is changed.
    for slice in deleted {
        match plan.create.iter().position(|content| slice.address_type == content.family.name()) {
            Some(place) => plan.recycle.push((slice.name.clone(), plan.create.remove(place))),
            None => plan.delete.push(slice.name.clone()),
        }
    }
    plan
}

/// What is to be there, of each family and combination of ports.
fn contents(mirrored: &Mirrored<'_>, plan: &mut Plan) -> Vec<Content> {
    let mut contents: Vec<Content> = Vec::new();
    for subset in repack(mirrored.subsets) {
        let mut ports = subset.ports;
        ports.sort_by_cached_key(Port::order_in_slice);
        let ready = subset.addresses.iter().map(|address| (address, true));
        let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
        let total = subset.addresses.len() + subset.not_ready_addresses.len();
        let mut added = 0;
        for (address, ready) in all {
            if added >= mirrored.addresses_max {
                break;
            }
            let Some((family, endpoint)) = endpoint(address, ready) else {
                plan.invalid += 1;
                continue;
            };
            added += 1;
            match contents.iter_mut().find(|content| content.family == family && content.ports == ports) {
                Some(content) => content.endpoints.push(endpoint),
                None => contents.push(Content { family, ports: ports.clone(), endpoints: vec![endpoint] }),
            }
        }
        plan.skipped += total - added;
    }
    for content in &mut contents {
        let mut seen = std::collections::HashSet::new();
        content.endpoints.retain(|endpoint| seen.insert(endpoint.identity()));
    }
    contents
}

fn endpoint(address: &Address, ready: bool) -> Option<(Family, Endpoint)> {
    let parsed = address::parse_sloppy(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![parsed.to_canonical().to_string()],
        conditions: Conditions { ready: Some(ready), ..Conditions::default() },
        hostname: (!address.hostname.is_empty()).then(|| address.hostname.clone()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    };
    Some((Family::of(parsed), endpoint))
}

fn is_same(mirrored: &Mirrored<'_>, slice: &Slice, content: &Content) -> bool {
    let there: HashMap<u64, u64> = slice.endpoints.iter().map(|known| (known.identity, known.state)).collect();
    let same_endpoints = slice.endpoints.len() == content.endpoints.len()
        && content.endpoints.iter().map(Endpoint::known).all(|known| there.get(&known.identity) == Some(&known.state));
    let own = |key: &str| key == MANAGED_BY || key == SERVICE_NAME;
    let labels = slice.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).filter(|(key, _)| !own(key));
    let wanted = mirrored.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let annotations = slice.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let mut owners = slice.owners.iter();
    let of_another =
        owners.any(|owner| owner.kind == "Endpoints" && owner.name == mirrored.name && owner.uid != mirrored.uid);
    same_endpoints && labels.eq(wanted) && annotations.eq(copied(mirrored.annotations)) && !of_another
}

/// The annotations that slices have, too.
fn copied(annotations: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    let pairs = annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    pairs.filter(|(key, _)| *key != TRIGGER_TIME && *key != LAST_APPLIED)
}

pub fn annotations(mirrored: &Mirrored<'_>) -> BTreeMap<String, String> {
    copied(mirrored.annotations).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

pub fn labels(mirrored: &Mirrored<'_>) -> BTreeMap<String, String> {
    let mut labels = mirrored.labels.clone();
    labels.insert(SERVICE_NAME.to_owned(), mirrored.name.to_owned());
    labels.insert(MANAGED_BY.to_owned(), BY_MIRRORING.to_owned());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Labels, Owner};

    fn addresses(text: &str) -> Vec<Address> {
        text.split_whitespace().map(|ip| Address { ip: ip.to_owned(), ..Address::default() }).collect()
    }

    /// `ready ! not : port`
    fn subset(text: &str) -> Subset {
        let (members, port) = text.rsplit_once(" : ").unwrap();
        let (ready, not_ready) = members.split_once('!').unwrap_or((members, ""));
        let port = Port { name: "p".into(), port: port.parse().unwrap(), protocol: "TCP".into(), app_protocol: None };
        Subset { addresses: addresses(ready), not_ready_addresses: addresses(not_ready), ports: vec![port] }
    }

    fn pairs(text: &str) -> BTreeMap<String, String> {
        text.split_whitespace()
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(key, value)| (key.into(), value.into()))
            .collect()
    }

    struct Given {
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
        subsets: Vec<Subset>,
        uid: &'static str,
    }

    impl Given {
        fn new(subsets: &[&str]) -> Given {
            let subsets = subsets.iter().copied().map(subset).collect();
            Given { labels: pairs("a=1"), annotations: pairs("b=2"), subsets, uid: "u" }
        }

        fn mirrored(&self) -> Mirrored<'_> {
            let Given { labels, annotations, subsets, uid } = self;
            Mirrored { name: "e", uid, labels, annotations, subsets, addresses_max: 1000 }
        }

        /// The slices that would be made.
        fn slices(&self) -> Vec<Arc<Slice>> {
            let owned = |map: BTreeMap<String, String>| {
                Arc::new(Labels::new(map.iter().map(|(key, value)| (Text::new(key), Text::new(value)))))
            };
            let made = plan(&self.mirrored(), &[]).create.into_iter().enumerate().map(|(place, content)| {
                let owner = Owner {
                    api_version: "v1".into(),
                    kind: "Endpoints".into(),
                    name: "e".into(),
                    uid: self.uid.into(),
                };
                Arc::new(Slice {
                    name: format!("e-{place}").into(),
                    address_type: content.family.name().into(),
                    ports: content.ports,
                    labels: owned(labels(&self.mirrored())),
                    annotations: owned(annotations(&self.mirrored())),
                    owners: vec![Arc::new(owner)],
                    endpoints: content.endpoints.iter().map(Endpoint::known).collect(),
                    ..Slice::default()
                })
            });
            made.collect()
        }
    }

    /// `+family:addresses` makes a slice, `name=addresses` changes one, `name~addresses` makes one of another, `-name` deletes one.
    fn shown(plan: &Plan) -> String {
        let list = |content: &Content| {
            let endpoints = content
                .endpoints
                .iter()
                .map(|endpoint| format!("{}{}", endpoint.addresses[0], if endpoint.is_ready() { "" } else { "!" }));
            endpoints.collect::<Vec<_>>().join(",")
        };
        let create = plan.create.iter().map(|content| format!("+{}:{}", content.family.name(), list(content)));
        let update = plan.update.iter().map(|(name, content)| format!("{name}={}", list(content)));
        let recycle = plan.recycle.iter().map(|(name, content)| format!("{name}~{}", list(content)));
        let delete = plan.delete.iter().map(|name| format!("-{name}"));
        let mut words: Vec<String> = create.chain(update).chain(recycle).chain(delete).collect();
        words.sort();
        words.join(" ")
    }

    #[test]
    fn endpoints_are_mirrored() {
        // What was there, what is, and what is done.
        let table: [(&[&str], &[&str], &str); 9] = [
            (&[], &[], ""),
            (&[], &["1.1.1.1 ! 1.1.1.2 : 80"], "+IPv4:1.1.1.1,1.1.1.2!"),
            (&[], &["1.1.1.1 fd00::1 : 80"], "+IPv4:1.1.1.1 +IPv6:fd00::1"),
            (&["1.1.1.1 : 80"], &["1.1.1.1 : 80"], ""),
            (&["1.1.1.1 : 80"], &["1.1.1.1 1.1.1.2 : 80"], "e-0=1.1.1.1,1.1.1.2"),
            (&["1.1.1.1 : 80"], &["! 1.1.1.1 : 80"], "e-0=1.1.1.1!"),
            (&["1.1.1.1 : 80"], &["1.1.1.1 : 81"], "e-0~1.1.1.1"),
            (&["1.1.1.1 fd00::1 : 80"], &["1.1.1.1 : 80"], "-e-1"),
            (&["1.1.1.1 : 80"], &["fd00::1 : 81"], "+IPv6:fd00::1 -e-0"),
        ];
        for (before, now, expected) in table {
            let (before, now) = (Given::new(before), Given::new(now));
            assert_eq!(shown(&plan(&now.mirrored(), &before.slices())), expected);
        }
    }

    #[test]
    fn labels_annotations_and_owner_are_followed() {
        let before = Given::new(&["1.1.1.1 : 80"]).slices();
        let now = || Given::new(&["1.1.1.1 : 80"]);
        let changed = "e-0=1.1.1.1";
        let table = [
            (now(), ""),
            (Given { labels: pairs("a=2"), ..now() }, changed),
            (Given { annotations: pairs("b=3"), ..now() }, changed),
            (Given { uid: "another", ..now() }, changed),
            (Given { annotations: pairs(&format!("b=2 {TRIGGER_TIME}=x {LAST_APPLIED}=y")), ..now() }, ""),
        ];
        for (now, expected) in table {
            assert_eq!(shown(&plan(&now.mirrored(), &before)), expected);
        }
    }

    #[test]
    fn what_is_no_address_and_what_is_too_much_is_left_out() {
        let given = Given::new(&["x 1.1.1.1 : 80"]);
        let odd = plan(&given.mirrored(), &[]);
        assert_eq!((shown(&odd).as_str(), odd.invalid, odd.skipped), ("+IPv4:1.1.1.1", 1, 1));
        let many: Vec<String> = (0..1100).map(|number| format!("10.0.{}.{}", number / 250, number % 250)).collect();
        let given = Given::new(&[&format!("{} : 80", many.join(" "))]);
        let much = plan(&given.mirrored(), &[]);
        assert_eq!((much.create[0].endpoints.len(), much.invalid, much.skipped), (1000, 0, 100));
    }
}
