//! Tables for the plan of EndpointSlices.

#![allow(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]

use super::*;
use crate::metadata::{Labels, Owner};
use crate::pods::{NamedPort, Network, Phase};
use crate::services::port::{OfService, Target};

fn owner(uid: &str) -> Arc<Owner> {
    Arc::new(Owner { api_version: "v1".into(), kind: "Service".into(), name: "s".into(), uid: uid.into() })
}

fn service() -> Service {
    let target = Target::Name("web".into());
    let port = OfService { name: "http".into(), protocol: "TCP".into(), app_protocol: None, target };
    Service {
        namespace: "n".into(),
        name: "s".into(),
        uid: "u".into(),
        cluster_ip: ClusterIp::Set(Family::V4),
        families: vec![Family::V4],
        ports: [port].into(),
        ..Service::default()
    }
}

/// Pod number so and so: ready, on a node in a zone of its own.
fn pod(number: u32) -> Pod {
    let [_, _, high, low] = number.to_be_bytes();
    let port = NamedPort { name: "web".into(), protocol: "TCP".into(), port: 8000 };
    Pod {
        namespace: "n".into(),
        name: format!("p{number}").into(),
        uid: format!("uid-{number}").into(),
        node: format!("node-{}", number % 3).into(),
        ready: true,
        phase: Phase::Running,
        network: Network {
            addresses: [std::net::IpAddr::from([10, 0, high, low])].into(),
            ports: [port].into(),
            ..Network::default()
        },
        ..Pod::default()
    }
}

fn pods(numbers: impl IntoIterator<Item = u32>) -> Vec<Arc<Pod>> {
    numbers.into_iter().map(|number| Arc::new(pod(number))).collect()
}

fn zone(node: &str) -> Option<Text> {
    let number = node.strip_prefix("node-")?;
    Some(format!("z{number}").into())
}

/// The slice that would be kept of this content.
fn slice(name: &str, service: &Service, content: &Content) -> Arc<Slice> {
    let labels = labels(service);
    let pairs = labels.iter().map(|(key, value)| (Text::new(key), Text::new(value)));
    Arc::new(Slice {
        namespace: "n".into(),
        name: name.into(),
        service: "s".into(),
        manager: BY_PODS.into(),
        address_type: "IPv4".into(),
        ports: content.ports.clone(),
        labels: Arc::new(Labels::new(pairs)),
        owners: vec![owner(&service.uid)],
        endpoints: content.endpoints.iter().map(Endpoint::known).collect(),
        ..Slice::default()
    })
}

fn planned(service: &Service, pods: &[Arc<Pod>], existing: &[Arc<Slice>]) -> Plan {
    let (mut plan, unchanged) = plan(service, pods, &zone, &existing.iter().collect::<Vec<_>>(), Family::V4, 100);
    give_hints(&mut plan, unchanged, service.traffic);
    plan
}

/// Slices with these pods each.
fn existing(service: &Service, contents: &[&[std::ops::Range<u32>]]) -> Vec<Arc<Slice>> {
    let made = contents.iter().enumerate().map(|(place, ranges)| {
        let plan = planned(service, &pods(ranges.iter().cloned().flatten()), &[]);
        slice(&format!("s-{place}"), service, &plan.create[0])
    });
    made.collect()
}

/// The pods' numbers.
fn numbers(content: &Content) -> Vec<u32> {
    let names = content.endpoints.iter().filter_map(|endpoint| endpoint.target_ref.as_ref());
    names.map(|target| target.name.trim_start_matches('p').parse().unwrap()).collect()
}

/// `+12` makes a slice of so many, `s-1=12` changes one to so many, `-s-1` deletes one.
fn shown(plan: &Plan) -> String {
    let create = plan.create.iter().map(|content| format!("+{}", content.endpoints.len()));
    let update = plan.update.iter().map(|(name, content)| format!("{name}={}", content.endpoints.len()));
    let delete = plan.delete.iter().map(|name| format!("-{name}"));
    let mut words: Vec<String> = create.chain(update).chain(delete).collect();
    words.sort();
    words.join(" ")
}

#[test]
fn as_few_slices_change_as_can_be() {
    let service = service();
    // The pods in each slice, those that are to be there, and what is done.
    type Ranges<'a> = &'a [std::ops::Range<u32>];
    let table: [(&str, &[Ranges<'_>], Ranges<'_>, &str); 14] = [
        ("nothing to show", &[], &[], "+0"),
        ("the first", &[], &[0..3], "+3"),
        ("many", &[], &[0..250], "+100 +100 +50"),
        ("all is there", &[&[0..3]], &[0..3], ""),
        ("one more", &[&[0..3]], &[0..4], "s-0=4"),
        ("one less", &[&[0..3]], &[0..2], "s-0=2"),
        ("none left", &[&[0..3]], &[], "s-0=0"),
        ("others", &[&[0..3]], &[5..7], "s-0=2"),
        // Into what changes anyway.
        ("swap", &[&[0..50], &[50..60]], &[0..49, 50..61], "s-0=50"),
        // The slice that is filled best.
        ("best fit", &[&[0..50], &[50..140], &[140..220]], &[0..230], "s-1=100"),
        ("no fit", &[&[0..95], &[100..195]], &[0..95, 100..195, 200..210], "+10"),
        ("too many for one", &[&[0..50]], &[0..160], "+100 s-0=60"),
        ("a slice is emptied", &[&[0..50], &[50..60]], &[0..50], "-s-1"),
        ("twice there", &[&[0..50], &[0..50]], &[0..50], "-s-1"),
    ];
    for (what, before, now, expected) in table {
        let existing = existing(&service, before);
        let plan = planned(&service, &pods(now.iter().cloned().flatten()), &existing);
        assert_eq!(shown(&plan), expected, "{what}");
        assert_eq!(plan.left_out, [""; 0]);
    }
}

#[test]
fn what_is_in_a_slice_stays_in_its_place() {
    let service = service();
    let existing = existing(&service, &[&[0..4]]);
    let mut now = pods([0, 2, 3, 7]);
    Arc::make_mut(&mut now[1]).ready = false;
    let plan = planned(&service, &now, &existing);
    let [(name, content)] = plan.update.as_slice() else { panic!("{plan:?}") };
    assert_eq!((name.as_str(), numbers(content)), ("s-0", vec![0, 2, 3, 7]));
    assert!(!content.endpoints[1].is_ready());
}

#[test]
fn one_empty_slice_stays_if_there_is_none_other() {
    let service = service();
    let empty = slice("s-0", &service, &Content::default());
    assert_eq!(planned(&service, &[], std::slice::from_ref(&empty)), Plan::default());
    assert_eq!(shown(&planned(&service, &pods(0..1), std::slice::from_ref(&empty))), "s-0=1", "it is used");
    let labelled = Service { labels: Arc::new(Labels::new([("a".into(), "b".into())])), ..service };
    assert_eq!(shown(&planned(&labelled, &[], &[empty])), "s-0=0", "with other labels");
}

#[test]
fn labels_that_change_are_copied() {
    let service = service();
    let existing = existing(&service, &[&[0..2], &[2..4]]);
    let labelled = Service { labels: Arc::new(Labels::new([("a".into(), "b".into())])), ..service };
    let plan = planned(&labelled, &pods(0..4), &existing);
    assert_eq!(shown(&plan), "s-0=2 s-1=2");
    assert_eq!(labels(&labelled).get("a").map(String::as_str), Some("b"));
    let reserved = Service { labels: Arc::new(Labels::new([(SERVICE_NAME.into(), "x".into())])), ..labelled };
    assert_eq!(labels(&reserved).get(SERVICE_NAME).map(String::as_str), Some("s"));
}

#[test]
fn slices_of_another_service_of_the_name_are_deleted() {
    let other = Service { uid: "old".into(), ..service() };
    let existing = existing(&other, &[&[0..2]]);
    assert_eq!(shown(&planned(&service(), &pods(0..2), &existing)), "+2 -s-0");
}

#[test]
fn pods_with_other_ports_go_into_slices_of_their_own() {
    let service = service();
    let mut now = pods(0..4);
    Arc::make_mut(&mut now[1]).network.ports[0].port = 9000;
    Arc::make_mut(&mut now[2]).network.ports = [].into();
    let plan = planned(&service, &now, &[]);
    let ports: Vec<Vec<i32>> =
        plan.create.iter().map(|content| content.ports.iter().map(|port| port.port).collect()).collect();
    assert_eq!(ports, [vec![8000], vec![9000], vec![]]);
    assert_eq!(shown(&plan), "+1 +1 +2");
}

#[test]
fn conditions_say_how_a_pod_is() {
    // Whether it is ready, terminating, published all the same; and the three conditions.
    let table = [
        (true, false, false, (true, true, false)),
        (false, false, false, (false, false, false)),
        (true, true, false, (false, true, true)),
        (false, true, false, (false, false, true)),
        (true, true, true, (true, true, true)),
        (false, false, true, (true, false, false)),
    ];
    for (ready, terminating, published, (is_ready, serving, is_terminating)) in table {
        let pod = Pod { ready, deleted: terminating.then_some(1), ..pod(1) };
        let service = Service { publish_not_ready: published, ..service() };
        let endpoint = endpoint(&service, &pod, "z".into(), Family::V4).unwrap();
        let expected = Conditions { ready: Some(is_ready), serving: Some(serving), terminating: Some(is_terminating) };
        assert_eq!(endpoint.conditions, expected, "{ready} {terminating} {published}");
    }
    let ended = Pod { phase: Phase::Succeeded, ..pod(1) };
    assert_eq!(shown(&planned(&service(), &[Arc::new(ended)], &[])), "+0");
}

#[test]
fn an_endpoint_is_written_like_this() {
    let plan = planned(&service(), &pods(1..2), &[]);
    let shown = serde_json::to_value(&plan.create[0].endpoints).unwrap();
    let expected = serde_json::json!([{
        "addresses": ["10.0.0.1"],
        "conditions": { "ready": true, "serving": true, "terminating": false },
        "nodeName": "node-1",
        "targetRef": { "kind": "Pod", "namespace": "n", "name": "p1", "uid": "uid-1" },
        "zone": "z1",
    }]);
    assert_eq!(shown, expected);
}

#[test]
fn pods_of_unknown_nodes_are_left_out_unless_all_are_published() {
    let lost = vec![Arc::new(Pod { node: "lost".into(), ..pod(1) })];
    let plan = planned(&service(), &lost, &[]);
    assert_eq!((shown(&plan).as_str(), plan.left_out.len()), ("+0", 1));
    assert_eq!(plan.left_out[0], "skipping Pod p1 for Service n/s: Node lost Not Found");
    let publishing = Service { publish_not_ready: true, ..service() };
    assert_eq!(shown(&planned(&publishing, &lost, &[])), "+1");
}

#[test]
fn families_are_those_of_the_service() {
    for (cluster_ip, families_of, expected) in [
        (ClusterIp::Set(Family::V4), vec![Family::V6], vec![Family::V6]),
        (ClusterIp::Set(Family::V6), vec![], vec![Family::V6]),
        (ClusterIp::Headless, vec![], vec![Family::V4, Family::V6]),
    ] {
        assert_eq!(families(&Service { cluster_ip, families: families_of, ..service() }), expected);
    }
    let mut dual = pod(1);
    dual.network.addresses = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()].into();
    let of = |family| endpoint(&service(), &dual, "".into(), family).unwrap().addresses;
    assert_eq!((of(Family::V4), of(Family::V6)), (vec!["10.0.0.1".to_owned()], vec!["fd00::1".to_owned()]));
}

#[test]
fn hints_keep_traffic_close() {
    let hinted = |traffic| Service { traffic, ..service() };
    let shown_hints = |plan: &Plan| {
        let content = plan.create.first().or(plan.update.first().map(|(_, content)| content)).unwrap();
        serde_json::to_value(content.endpoints[0].hints.as_ref()).unwrap()
    };
    let zone = serde_json::json!({ "forZones": [{ "name": "z1" }] });
    let node = serde_json::json!({ "forZones": [{ "name": "z1" }], "forNodes": [{ "name": "node-1" }] });
    let table = [(None, serde_json::Value::Null), (Some(Traffic::SameZone), zone), (Some(Traffic::SameNode), node)];
    for (traffic, expected) in &table {
        assert_eq!(shown_hints(&planned(&hinted(*traffic), &pods(1..2), &[])), *expected);
    }
    // What is there without hints, or with others, is changed; what has the right ones is not.
    for (before, _) in &table {
        for (now, expected) in &table {
            let existing = existing(&hinted(*before), &[&[1..2]]);
            let plan = planned(&hinted(*now), &pods(1..2), &existing);
            if before == now {
                assert_eq!(plan, Plan::default());
            } else {
                assert_eq!(shown_hints(&plan), *expected, "{before:?} {now:?}");
            }
        }
    }
    let unready = vec![Arc::new(Pod { ready: false, ..pod(1) })];
    assert!(shown_hints(&planned(&hinted(Some(Traffic::SameZone)), &unready, &[])).is_null());
}
