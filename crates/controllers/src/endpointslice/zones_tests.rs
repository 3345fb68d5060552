//! Tables for hints by the size of zones.

use super::*;
use crate::endpointslice::plan;
use crate::metadata::{Labels, Owner};
use crate::pods::{Network, Phase, Pod};
use crate::services::slices::Slice;
use crate::services::{Family, Service};

/// `zone:cpus`, with `!` of a node that is not ready and `*` of one of the control plane.
fn nodes(text: &str) -> Vec<Arc<Node>> {
    let node = |text: &str| {
        let (zone, cpus) = text.split_once(':').unwrap();
        let role = text.ends_with('*').then(|| (Text::new(EXCLUDED[0]), Text::default()));
        Arc::new(Node {
            zone: zone.into(),
            cpu_milli: cpus.trim_end_matches(['!', '*']).parse::<i64>().unwrap() * 1000,
            ready: !text.ends_with('!'),
            labels: Arc::new(Labels::new(role)),
            ..Node::default()
        })
    };
    text.split_whitespace().map(node).collect()
}

fn service() -> Service {
    Service {
        namespace: "n".into(),
        name: "s".into(),
        uid: "u".into(),
        families: vec![Family::V4],
        ..Service::default()
    }
}

/// Pods by the zones of their nodes, with `!` of one that is not ready.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |(number, text): (usize, &str)| {
        let address = std::net::IpAddr::from([10, 0, 0, u8::try_from(number).unwrap()]);
        Arc::new(Pod {
            name: format!("p{number}").into(),
            node: text.trim_end_matches('!').into(),
            ready: !text.ends_with('!'),
            phase: Phase::Running,
            network: Network { addresses: [address].into(), ..Network::default() },
            ..Pod::default()
        })
    };
    text.split_whitespace().enumerate().map(pod).collect()
}

fn planned(nodes: &[Arc<Node>], pods: &[Arc<Pod>], existing: &[Arc<Slice>]) -> (Plan, Result<Counts, String>) {
    let zone = |node: &str| Some(if node == "none" { Text::default() } else { Text::new(node) });
    let existing: Vec<&Arc<Slice>> = existing.iter().collect();
    let (mut plan, unchanged) = plan::plan(&service(), pods, &zone, &existing, Family::V4, 100);
    let given = give(&mut plan, unchanged, Shares::of(nodes).as_ref());
    (plan, given)
}

/// The zones that endpoints are for, `-` of those that are for all.
fn hints(content: &Content) -> String {
    let zone = |endpoint: &Endpoint| match &endpoint.hints {
        Some(hints) => hints.for_zones[0].name.to_string(),
        None => "-".to_owned(),
    };
    content.endpoints.iter().map(zone).collect::<Vec<_>>().join(" ")
}

fn slice(content: &Content) -> Arc<Slice> {
    let owner = Owner { api_version: "v1".into(), kind: "Service".into(), name: "s".into(), uid: "u".into() };
    let labels = plan::labels(&service());
    Arc::new(Slice {
        name: "s-0".into(),
        address_type: "IPv4".into(),
        ports: content.ports.clone(),
        labels: Arc::new(Labels::new(labels.iter().map(|(key, value)| (Text::new(key), Text::new(value))))),
        owners: vec![Arc::new(owner)],
        endpoints: content.endpoints.iter().map(Endpoint::known).collect(),
        ..Slice::default()
    })
}

#[test]
fn zones_get_their_part_of_the_endpoints() {
    for (nodes_are, pods_are, expected) in [
        ("a:1 b:1", "a b", "a b"),
        ("a:1 b:1 c:1", "a b c", "a b c"),
        ("a:1 b:1", "a a b b a!", "a a b b -"),
        ("a:1 b:1", "a a a b", "b a a b"),
        ("a:1 b:1", "a a a a", "b b a a"),
        ("a:3 b:1", "a a b b", "a a a b"),
        ("a:2 b:1 b:1!", "a a b", "a a b"),
        ("a:1 b:1 c:9*", "a b", "a b"),
    ] {
        let (plan, given) = planned(&nodes(nodes_are), &pods(pods_are), &[]);
        assert_eq!(hints(&plan.create[0]), expected, "{nodes_are} {pods_are}");
        let total: usize = given.unwrap().values().sum();
        assert_eq!(total, pods_are.split_whitespace().filter(|pod| !pod.ends_with('!')).count());
    }
}

#[test]
fn what_cannot_be_parted_fairly_has_no_hints() {
    let unknown = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
    let unfair = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";
    for (nodes_are, pods_are, expected) in [
        ("", "a b", unknown.to_owned()),
        ("a:1 a:1", "a a", unknown.to_owned()),
        ("a:1 b:0", "a b", unknown.to_owned()),
        ("a:1 :1", "a a", unknown.to_owned()),
        ("a:1 b:1 c:1", "a b", "Insufficient number of endpoints (2 endpoints, 3 zones)".to_owned()),
        ("a:1 b:1", "a b!", "Insufficient number of endpoints (1 endpoints, 2 zones)".to_owned()),
        ("a:9 b:1", "a b", format!("{unfair} (2 endpoints, 2 zones)")),
        ("a:1 b:1", "a a b", format!("{unfair} (3 endpoints, 2 zones)")),
        ("a:1 b:1", "a b a none", "One or more endpoints do not have a zone specified".to_owned()),
    ] {
        let (plan, given) = planned(&nodes(nodes_are), &pods(pods_are), &[]);
        assert_eq!(given, Err(expected), "{nodes_are} {pods_are}");
        assert!(hints(&plan.create[0]).chars().all(|zone| "- ".contains(zone)));
    }
}

#[test]
fn slices_change_only_where_their_hints_will_not_do() {
    let (before, _) = planned(&nodes("a:1 b:1"), &pods("a a b b"), &[]);
    let bare = {
        let mut content = before.create[0].clone();
        content.endpoints.iter_mut().for_each(|endpoint| endpoint.hints = None);
        content
    };
    for (nodes_are, there, expected) in [
        ("a:1 b:1", &before.create[0], None),
        ("a:1 b:1", &bare, Some("a a b b")),
        // The hints are within what the zones may have.
        ("a:5 b:4", &before.create[0], None),
        ("a:3 b:1", &before.create[0], Some("a a a b")),
        // A zone that has no nodes any more gives nothing.
        ("a:1 c:1", &before.create[0], Some("a a b b")),
        ("a:1", &before.create[0], Some("- - - -")),
        ("a:1", &bare, None),
    ] {
        let (plan, _) = planned(&nodes(nodes_are), &pods("a a b b"), &[slice(there)]);
        let changed = plan.update.first().map(|(_, content)| hints(content));
        assert_eq!(changed.as_deref(), expected, "{nodes_are} {}", hints(there));
    }
}

#[test]
fn services_with_too_little_for_a_zone_are_looked_at_again() {
    let counts = |text: &str| -> Counts {
        let pair =
            |text: &str| text.split_once(':').map(|(zone, count)| (zone.into(), count.parse().unwrap())).unwrap();
        text.split_whitespace().map(pair).collect()
    };
    for (nodes_are, there, expected) in [
        ("a:1 b:1", "a:2 b:2", false),
        ("a:1 b:1", "a:3 b:2", true),
        ("a:5 b:4", "a:2 b:2", false),
        ("a:1 b:1 c:1", "a:2 b:2", true),
    ] {
        let shares = Shares::of(&nodes(nodes_are)).unwrap();
        assert_eq!(shares.overload(&counts(there)), expected, "{nodes_are} {there}");
    }
}
