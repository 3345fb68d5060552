//! Which of the nodes that would do is taken.

use serde_json::{Value, json};

use crate::support::{Driver, asking};

/// Pods `on` these nodes, then one more: where it goes.
fn choice(nodes: &[(&str, Value)], on: &[(&str, Value)], pod: Value) -> String {
    let mut driver = Driver::new();
    for (name, more) in nodes {
        driver.node(name, more.clone());
    }
    for (number, (node, spec)) in on.iter().enumerate() {
        let mut spec = spec.clone();
        spec["nodeName"] = json!(node);
        driver.pod(&format!("on-{number}"), spec);
    }
    driver.pod("p", pod);
    driver.work().pop().and_then(|done| done.strip_prefix("p to ").map(str::to_owned)).unwrap_or_default()
}

#[test]
fn the_best_node_is_taken() {
    let plain = || json!({});
    let preferring = |weights: [i64; 2]| {
        let term = |weight: i64, name: &str| {
            let expression = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [name] });
            json!({ "weight": weight, "preference": { "matchExpressions": [expression] } })
        };
        let terms = [term(weights[0], "a"), term(weights[1], "b")];
        json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": terms } } })
    };
    let soft = json!({ "spec": { "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] } });
    let image = |size: u64| json!({ "status": { "images": [{ "names": ["i:latest"], "sizeBytes": size }] } });
    let two = |one: Value, other: Value| [("a", one), ("b", other)];
    let busy = asking(json!({ "cpu": "1", "memory": "2Gi" }));
    assert_eq!(choice(&two(plain(), plain()), &[("a", busy.clone())], plain()), "b", "the emptier one");
    let both = [("a", asking(json!({ "cpu": "2" }))), ("b", asking(json!({ "memory": "4Gi" })))];
    let pod = asking(json!({ "cpu": "1", "memory": "10Mi" }));
    assert_eq!(choice(&two(plain(), plain()), &both, pod), "b", "where CPU and memory are taken evenly");
    assert_eq!(choice(&two(plain(), plain()), &[], preferring([1, 10])), "b", "the one that it prefers");
    assert_eq!(choice(&two(plain(), plain()), &[], preferring([10, 1])), "a");
    assert_eq!(
        choice(&two(soft.clone(), plain()), &[("b", busy)], plain()),
        "b",
        "the one that has nothing against it"
    );
    let tolerating = json!({ "tolerations": [{ "operator": "Exists" }] });
    let nearly = [("b", asking(json!({ "cpu": "500m" })))];
    assert_eq!(choice(&two(soft, plain()), &nearly, tolerating), "a", "unless it tolerates that");
    assert_eq!(choice(&two(plain(), image(900 << 20)), &[], plain()), "b", "the one that has its image");
    assert_eq!(choice(&two(image(10 << 20), plain()), &[("a", asking(json!({ "cpu": "1" })))], plain()), "b");
}

#[test]
fn an_image_without_names_is_no_obstacle() {
    // Its tag is another image's now; the API has such a list as `null`.
    let status = json!({ "images": [{ "names": null, "sizeBytes": 900 << 20 }] });
    assert_eq!(choice(&[("a", json!({ "status": status }))], &[], json!({})), "a");
}

#[test]
fn equal_nodes_are_taken_evenly() {
    let mut driver = Driver::with_nodes(4);
    let mut taken = std::collections::BTreeMap::<String, usize>::new();
    for number in 0..400 {
        let name = format!("p{number}");
        driver.pod(&name, json!({}));
        let done = driver.work().pop().unwrap();
        *taken.entry(done.rsplit_once(' ').unwrap().1.to_owned()).or_default() += 1;
        driver.no_pod(&name);
    }
    assert!(taken.len() == 4 && taken.values().all(|count| (60..140).contains(count)), "{taken:?}");
}

#[test]
fn a_hundred_of_many_nodes_are_enough_and_the_next_search_goes_on() {
    let mut driver = Driver::with_nodes(250);
    let mut nodes = std::collections::BTreeSet::new();
    for number in 0..250 {
        driver.pod(&format!("p{number}"), asking(json!({ "cpu": "1" })));
        let done = driver.work().pop().unwrap();
        nodes.insert(done.rsplit_once(' ').unwrap().1.to_owned());
    }
    assert!(nodes.len() > 200, "all have their turn, and the empty ones are better: {}", nodes.len());
}

#[test]
fn zones_take_turns() {
    let mut driver = Driver::new();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c")] {
        driver.node(name, json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } }));
    }
    driver.pod("p", json!({}));
    driver.work();
    let snapshot = driver.core.snapshot();
    let names: Vec<&str> = snapshot.ordered().iter().map(|index| snapshot.node(*index).details.name.as_str()).collect();
    assert_eq!(names, ["a1", "b1", "c1", "a2", "a3"]);
}

#[test]
fn labels_of_nodes_are_compared_as_the_api_says() {
    let table = [
        (json!({ "key": "size", "operator": "Gt", "values": ["5"] }), true),
        (json!({ "key": "size", "operator": "Lt", "values": ["5"] }), false),
        (json!({ "key": "size", "operator": "In", "values": ["7", "8"] }), true),
        (json!({ "key": "size", "operator": "NotIn", "values": ["7"] }), false),
        (json!({ "key": "none", "operator": "NotIn", "values": ["7"] }), true),
        (json!({ "key": "none", "operator": "Exists" }), false),
        (json!({ "key": "none", "operator": "DoesNotExist" }), true),
        (json!({ "key": "kubernetes.io/hostname", "operator": "Gt", "values": ["5"] }), false),
    ];
    for (expression, fits) in table {
        let selector = json!({ "nodeSelectorTerms": [{}, { "matchExpressions": [expression] }] });
        let affinity = json!({ "requiredDuringSchedulingIgnoredDuringExecution": selector });
        let node = json!({ "metadata": { "labels": { "size": "7" } } });
        let pod = json!({ "affinity": { "nodeAffinity": affinity } });
        assert_eq!(choice(&[("a", node)], &[], pod) == "a", fits, "{expression}");
    }
}

#[test]
fn a_pod_that_names_nodes_is_shown_no_others() {
    let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["b"] }] });
    let selector = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
    let pod = json!({ "affinity": { "nodeAffinity": selector } });
    let nodes = [("a", json!({})), ("b", json!({})), ("c", json!({}))];
    assert_eq!(choice(&nodes, &[], pod), "b");
}

#[test]
fn host_ports_conflict_by_address_and_protocol() {
    let port = |address: &str, protocol: &str, port: i32| {
        let port = json!({ "containerPort": 80, "hostPort": port, "hostIP": address, "protocol": protocol });
        json!({ "containers": [{ "name": "c", "image": "i", "ports": [port] }] })
    };
    let table = [
        (port("", "TCP", 80), port("", "TCP", 80), false),
        (port("", "TCP", 80), port("127.0.0.1", "TCP", 80), false),
        (port("127.0.0.2", "TCP", 80), port("127.0.0.1", "TCP", 80), true),
        (port("0.0.0.0", "UDP", 80), port("", "TCP", 80), true),
        (port("", "TCP", 81), port("", "TCP", 80), true),
    ];
    for (used, wanted, fits) in table {
        let on = [("a", used.clone())];
        assert_eq!(choice(&[("a", json!({}))], &on, wanted.clone()) == "a", fits, "{used} {wanted}");
    }
}

#[test]
fn a_nominated_node_is_taken_if_it_will_do() {
    let mut driver = Driver::with_nodes(3);
    for (name, cpu, node) in [("p", "1", "n2"), ("q", "4", "another than n2")] {
        let mut pod = crate::support::pod_json(name, asking(json!({ "cpu": cpu })));
        pod["status"]["nominatedNodeName"] = json!("n2");
        driver.object(&pod);
        let done = driver.work().pop().unwrap();
        assert_eq!(done.ends_with("n2"), node == "n2", "{done}");
    }
}
