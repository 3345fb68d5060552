//! What the objects are to be, and what makes them so: pure functions.

// tidy: types Endpoints EndpointSlice

use std::net::IpAddr;

use rkube_machinery::{Value, object};

use super::NAME;

const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Where a server answers. In the order of ports: those of one port are one subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pub port: u16,
    pub address: IpAddr,
}

/// How an object becomes what it is to be.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Nothing,
    Create(Value),
    Update(Value),
    /// Something that no update can change is wrong.
    Replace(Value),
}

/// `members` are sorted. What others said of the object stays.
pub(super) fn endpoints(members: &[Member], current: Option<&Value>) -> Step {
    let subsets: Vec<Value> = members
        .chunk_by(|one, other| one.port == other.port)
        .map(|subset| {
            let addresses: Vec<Value> =
                subset.iter().map(|member| object! { "ip": member.address.to_string() }).collect();
            object! { "addresses": addresses, "ports": vec![port(subset[0].port)] }
        })
        .collect();
    let Some(current) = current else {
        return Step::Create(object! {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": object! { "name": NAME, "labels": label(SKIP_MIRROR, "true") },
            "subsets": subsets,
        });
    };
    let skips_mirror = current.at(&["metadata", "labels", SKIP_MIRROR]).as_str() == "true"; // tidy: key
    if skips_mirror && current.list("subsets") == subsets {
        return Step::Nothing;
    }
    let mut wanted = current.clone();
    wanted.object_mut("metadata").object_mut("labels").set(SKIP_MIRROR, "true");
    wanted.set("subsets", subsets);
    Step::Update(wanted)
}

/// A slice has one list of ports and one family: those of the first member count.
pub(super) fn slice(members: &[Member], current: Option<&Value>) -> Step {
    let first = members.first();
    let alike = |member: &&Member| {
        first.is_some_and(|first| first.port == member.port && first.address.is_ipv4() == member.address.is_ipv4())
    };
    let endpoints: Vec<Value> = members
        .iter()
        .filter(alike)
        .map(|member| {
            let address = Value::from(member.address.to_string());
            object! { "addresses": vec![address], "conditions": object! { "ready": true } }
        })
        .collect();
    let ports: Vec<Value> = first.map(|first| port(first.port)).into_iter().collect();
    let family = if first.is_some_and(|first| first.address.is_ipv6()) { "IPv6" } else { "IPv4" };
    let labels = label(SERVICE_NAME, NAME);
    let wanted = |current: Option<&Value>| {
        let mut slice = object! {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": object! { "name": NAME, "labels": labels.clone() },
            "addressType": family,
            "endpoints": endpoints.clone(),
            "ports": ports.clone(),
        };
        if let Some(current) = current {
            let version = current.get("metadata").get("resourceVersion").clone();
            slice.object_mut("metadata").set("resourceVersion", version);
        }
        slice
    };
    match current {
        None => Step::Create(wanted(None)),
        // Without addresses a slice is of either family.
        Some(current) if current.str("addressType") != family && !members.is_empty() => Step::Replace(wanted(None)),
        Some(current) => {
            let same = current.list("endpoints") == endpoints
                && current.list("ports") == ports
                && *current.get("metadata").get("labels") == labels;
            let mut wanted = wanted(Some(current));
            wanted.set("addressType", current.get("addressType").clone());
            if same { Step::Nothing } else { Step::Update(wanted) }
        }
    }
}

fn port(number: u16) -> Value {
    object! { "name": "https", "port": i64::from(number), "protocol": "TCP" }
}

fn label(key: &str, value: &str) -> Value {
    let mut labels = Value::object();
    labels.set(key, value);
    labels
}
