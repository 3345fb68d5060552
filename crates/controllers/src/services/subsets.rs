//! The subsets of Endpoints: which addresses have which ports, in the one form that everybody gives them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rkube_machinery::Text;
use serde::{Deserialize, Deserializer, Serialize};

use super::Port;
use super::port::fnv;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Subset {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub not_ready_addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    pub ip: String,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub hostname: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Reference>,
}

/// An object. What revision it had is not kept: that changes with everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Reference {
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub api_version: Text,
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub kind: Text,
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub namespace: Text,
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub name: Text,
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub uid: Text,
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub field_path: Text,
}

/// A list that may be null.
pub fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

type AddressKey<'a> = (&'a str, &'a str);

impl Address {
    /// Two of one address may be of different pods.
    fn key(&self) -> AddressKey<'_> {
        (&self.ip, self.target_ref.as_ref().map_or("", |target| &target.uid))
    }
}

/// Brings subsets into the usual form: ports that the same addresses have are together, addresses and ports in order.
pub fn repack(subsets: &[Subset]) -> Vec<Subset> {
    // Of each address what was said of it first; and of each port, who has it, and whether they are ready.
    let mut addresses: BTreeMap<AddressKey<'_>, &Address> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<&Port>, BTreeMap<AddressKey<'_>, bool>> = BTreeMap::new();
    for subset in subsets {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let with_state: Vec<_> =
            ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false))).collect();
        let ports = subset.ports.iter().map(Some).chain(subset.ports.is_empty().then_some(None));
        for port in ports {
            for (address, ready) in &with_state {
                addresses.entry(address.key()).or_insert(address);
                // Who is not ready once is not ready.
                by_port.entry(port).or_default().entry(address.key()).and_modify(|was| *was &= ready).or_insert(*ready);
            }
        }
    }
    let mut by_addresses: BTreeMap<Vec<(AddressKey<'_>, bool)>, Vec<&Port>> = BTreeMap::new();
    for (port, members) in by_port {
        by_addresses.entry(members.into_iter().collect()).or_default().extend(port);
    }
    let mut packed: Vec<Subset> = Vec::with_capacity(by_addresses.len());
    for (members, mut ports) in by_addresses {
        ports.sort_by_cached_key(|port| port.order_in_endpoints());
        let of = |wanted: bool| members.iter().filter(move |(_, ready)| *ready == wanted);
        let full = |(key, _): &(AddressKey<'_>, bool)| addresses.get(key).map(|address| (*address).clone());
        packed.push(Subset {
            addresses: of(true).filter_map(full).collect(),
            not_ready_addresses: of(false).filter_map(full).collect(),
            ports: ports.into_iter().cloned().collect(),
        });
    }
    if packed.len() > 1 {
        packed.sort_by_cached_key(|subset| fnv(go_text(subset).as_bytes()));
    }
    packed
}

/// As Go prints it. (Upstream orders by the hash of that, and the order is seen.)
fn go_text(subset: &Subset) -> String {
    let mut text = String::with_capacity(256);
    // Writing to a string does not fail.
    let _ = write!(text, "(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress)");
    go_list(&mut text, &subset.addresses, go_address);
    let _ = write!(text, " NotReadyAddresses:([]v1.EndpointAddress)");
    go_list(&mut text, &subset.not_ready_addresses, go_address);
    let _ = write!(text, " Ports:([]v1.EndpointPort)");
    go_list(&mut text, &subset.ports, |text, port| text.push_str(&port.go_fields()));
    text.push('}');
    text
}

fn go_list<T>(text: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    if items.is_empty() {
        return text.push_str("<nil>");
    }
    text.push('[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            text.push(' ');
        }
        write(text, item);
    }
    text.push(']');
}

fn go_address(text: &mut String, address: &Address) {
    let Address { ip, hostname, node_name, target_ref } = address;
    let node = node_name.as_deref().unwrap_or("<nil>");
    let _ = write!(text, "{{IP:(string){ip} Hostname:(string){hostname} NodeName:(*string){node} TargetRef:");
    let _ = match target_ref {
        None => write!(text, "(*v1.ObjectReference)<nil>}}"),
        Some(Reference { api_version, kind, namespace, name, uid, field_path }) => write!(
            text,
            "(*v1.ObjectReference){{Kind:(string){kind} Namespace:(string){namespace} Name:(string){name} \
             UID:(types.UID){uid} APIVersion:(string){api_version} ResourceVersion:(string) \
             FieldPath:(string){field_path}}}}}"
        ),
    };
}

/// Leaves out what is beyond so many addresses: those that are not ready first, of each subset its share. Whether
/// anything was.
pub fn truncate(subsets: &mut [Subset], max: usize) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
    if ready + not_ready <= max {
        return false;
    }
    let cut_ready = ready > max;
    let (room, total) = if cut_ready { (max, ready) } else { (max - ready, not_ready) };
    let mut left = room;
    for subset in subsets {
        let list = if cut_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        // Rounded up as upstream's floating point does, so that the last gets what is left.
        let share = (list.len() as f64 / total as f64 * room as f64).ceil() as usize;
        list.truncate(share.min(left));
        left -= list.len();
        if cut_ready {
            subset.not_ready_addresses.clear();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, number: i32) -> Port {
        Port { name: name.into(), protocol: "TCP".into(), port: number, app_protocol: None }
    }

    fn address(ip: &str, uid: &str) -> Address {
        let target_ref = (!uid.is_empty()).then(|| Reference { uid: uid.into(), ..Reference::default() });
        Address { ip: ip.to_owned(), target_ref, ..Address::default() }
    }

    fn addresses(text: &str) -> Vec<Address> {
        text.split_whitespace()
            .map(|word| word.split_once('#').unwrap_or((word, "")))
            .map(|(ip, uid)| address(ip, uid))
            .collect()
    }

    /// `1 2#uid ! 3 : http=80 x=81`: ready addresses, others, ports.
    fn subset(text: &str) -> Subset {
        let (members, ports) = text.split_once(':').unwrap();
        let (ready, not_ready) = members.split_once('!').unwrap_or((members, ""));
        let ports = ports.split_whitespace().map(|word| word.split_once('=').unwrap());
        Subset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: ports.map(|(name, number)| port(name, number.parse().unwrap())).collect(),
        }
    }

    #[test]
    fn subsets_are_packed() {
        let table: [(&[&str], &[&str]); 7] = [
            (&[], &[]),
            (&["2 1 : a=1"], &["1 2 : a=1"]),
            (&["1 : a=1", "1 : b=2", "2 : a=1", "2 : b=2"], &["1 2 : a=1 b=2"]),
            (&["1 : a=1", "! 2 : a=1"], &["1 ! 2 : a=1"]),
            // Not ready once is not ready.
            (&["1 : a=1", "! 1 : a=1"], &["! 1 : a=1"]),
            // One address of two pods.
            (&["1#y : a=1", "1#x : a=1"], &["1#x 1#y : a=1"]),
            (&["1 : ", "2 : "], &["1 2 : "]),
        ];
        for (subsets, expected) in table {
            let subsets: Vec<_> = subsets.iter().copied().map(subset).collect();
            let mut packed = repack(&subsets);
            // Their order by hash is another matter.
            packed.iter_mut().for_each(|subset| subset.ports.sort());
            assert_eq!(packed, expected.iter().copied().map(subset).collect::<Vec<_>>(), "{subsets:?}");
        }
    }

    #[test]
    fn what_is_packed_stays_as_it_is() {
        let subsets = ["1 2 : a=1 b=2 c=3", "3 ! 4 : a=1", "5 : d=4"].map(subset);
        let packed = repack(&subsets);
        assert_eq!(repack(&packed), packed);
        assert_eq!(packed.len(), 3);
    }

    #[test]
    fn go_prints_a_subset_like_this() {
        let mut subset = subset("1 : a=1 b=2");
        subset.addresses[0] = Address {
            ip: "10.0.0.1".to_owned(),
            hostname: "h".into(),
            node_name: Some("n".into()),
            target_ref: Some(Reference {
                kind: "Pod".into(),
                name: "p".into(),
                uid: "u".into(),
                ..Reference::default()
            }),
        };
        let expected = "(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)[{IP:(string)10.0.0.1 Hostname:(string)h \
                        NodeName:(*string)n TargetRef:(*v1.ObjectReference){Kind:(string)Pod Namespace:(string) \
                        Name:(string)p UID:(types.UID)u APIVersion:(string) ResourceVersion:(string) \
                        FieldPath:(string)}}] NotReadyAddresses:([]v1.EndpointAddress)<nil> \
                        Ports:([]v1.EndpointPort)[{Name:(string)a Port:(int32)1 Protocol:(v1.Protocol)TCP \
                        AppProtocol:(*string)<nil>} {Name:(string)b Port:(int32)2 Protocol:(v1.Protocol)TCP \
                        AppProtocol:(*string)<nil>}]}";
        assert_eq!(go_text(&subset), expected);
    }

    #[test]
    fn too_many_addresses_are_cut() {
        // How many are ready and not in each subset, how many may be, and how many are left.
        type Sizes<'a> = &'a [(usize, usize)];
        let table: [(Sizes<'_>, usize, Sizes<'_>, bool); 5] = [
            (&[(2, 2)], 4, &[(2, 2)], false),
            (&[(2, 3)], 4, &[(2, 2)], true),
            (&[(6, 3)], 4, &[(4, 0)], true),
            (&[(3, 0), (3, 1)], 4, &[(2, 0), (2, 0)], true),
            (&[(1, 5), (1, 4)], 7, &[(1, 3), (1, 2)], true),
        ];
        for (sizes, max, expected, cut) in table {
            let many = |count: usize| (0..count).map(|place| address(&place.to_string(), "")).collect();
            let made = sizes.iter().map(|(ready, not)| Subset {
                addresses: many(*ready),
                not_ready_addresses: many(*not),
                ports: Vec::new(),
            });
            let mut subsets: Vec<Subset> = made.collect();
            assert_eq!(truncate(&mut subsets, max), cut);
            let left = subsets.iter().map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len()));
            assert_eq!(left.collect::<Vec<_>>(), expected, "{sizes:?} {max}");
        }
    }
}
