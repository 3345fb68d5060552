//! Clusters that are as they should be, and others of which it is said what is not.

use serde_json::json;

use super::*;

fn problem(objects: &[(&str, Value)]) -> Option<String> {
    cluster(objects).problem()
}

/// One of these objects, by plural.
pub(super) fn cluster(objects: &[(&str, Value)]) -> Cluster {
    let mut cluster = Cluster { kinds: vec![Vec::new(); KINDS.len()] };
    for (plural, object) in objects {
        let place = KINDS.iter().position(|path| path.rsplit('/').next() == Some(plural)).unwrap();
        let mut object = object.clone();
        object["metadata"]["name"] = json!(format!("{plural}-{}", cluster.kinds[place].len()));
        cluster.kinds[place].push(object);
    }
    cluster
}

fn with(conditions: &[&str]) -> Value {
    let conditions: Vec<Value> = conditions.iter().map(|kind| json!({ "type": kind, "status": "True" })).collect();
    json!({ "status": { "phase": "Running", "conditions": conditions } })
}

fn set(wanted: u64, fields: [u64; 4]) -> Value {
    let [replicas, updated, available, ready] = fields;
    json!({
        "metadata": { "generation": 2 }, "spec": { "replicas": wanted },
        "status": {
            "observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated,
            "availableReplicas": available, "readyReplicas": ready,
        },
    })
}

fn daemons(wanted: u64, fields: [u64; 4]) -> Value {
    let [current, updated, available, ready] = fields;
    json!({ "status": {
        "desiredNumberScheduled": wanted, "currentNumberScheduled": current, "updatedNumberScheduled": updated,
        "numberAvailable": available, "numberReady": ready,
    } })
}

#[test]
fn what_is_well_is_well() {
    let succeeded = json!({ "status": { "phase": "Succeeded" } });
    let all = [
        ("nodes", with(&["Ready"])),
        ("pods", with(&["Ready"])),
        ("pods", succeeded),
        ("deployments", set(2, [2; 4])),
        ("replicasets", set(2, [2; 4])),
        ("statefulsets", set(0, [0; 4])),
        ("daemonsets", daemons(1, [1; 4])),
        ("jobs", with(&["Complete"])),
        ("jobs", with(&["Failed"])),
    ];
    assert_eq!(problem(&all), None);
}

#[test]
fn what_is_not_well_is_named() {
    let node = || ("nodes", with(&["Ready"]));
    let mut cordoned = with(&["Ready"]);
    cordoned["spec"] = json!({ "unschedulable": true });
    let mut outdated = set(2, [2; 4]);
    outdated["metadata"]["generation"] = json!(3);
    let table = [
        ("nodes", with(&[])),
        ("nodes", cordoned),
        ("pods", with(&[])),
        ("pods", json!({ "status": { "phase": "Pending" } })),
        ("deployments", set(2, [3, 2, 2, 2])),
        ("deployments", set(2, [2, 1, 2, 2])),
        ("deployments", set(2, [2, 2, 1, 2])),
        ("deployments", set(2, [2, 2, 2, 1])),
        ("deployments", outdated.clone()),
        ("replicasets", set(2, [1, 0, 1, 1])),
        ("replicationcontrollers", set(2, [2, 0, 1, 2])),
        ("replicasets", outdated.clone()),
        ("statefulsets", set(2, [2, 1, 2, 2])),
        ("statefulsets", outdated),
        ("daemonsets", daemons(1, [1, 0, 1, 1])),
        ("daemonsets", daemons(1, [1, 1, 0, 1])),
        ("jobs", with(&["Suspended"])),
    ];
    for (plural, object) in table {
        let said = problem(&[node(), (plural, object.clone())]).unwrap_or_default();
        assert!(said.starts_with(&format!("{plural}: /{plural}-")), "{plural} {object}: {said}");
    }
    let more = problem(&[node(), node(), ("daemonsets", daemons(1, [1; 4]))]);
    assert_eq!(more.as_deref(), Some("/daemonsets-0 is to be on 1 nodes"));
}

#[test]
fn those_below_the_partition_need_not_be_updated() {
    let of = |partition: u64, updated: u64| {
        let mut set = set(3, [3, updated, 3, 3]);
        set["spec"]["updateStrategy"] = json!({ "rollingUpdate": { "partition": partition } });
        problem(&[("statefulsets", set)]).is_none()
    };
    assert!(of(0, 3) && of(2, 1) && of(2, 3) && of(5, 0));
    assert!(!of(0, 2) && !of(2, 0) && !of(2, 4));
}

#[test]
fn what_is_to_go_is_gone() {
    let of = |metadata: Value| problem(&[("configmaps", json!({ "metadata": metadata }))]);
    assert_eq!(of(json!({ "uid": "a" })), None);
    let terminating = of(json!({ "deletionTimestamp": "2030-01-01T00:00:00Z" }));
    assert_eq!(terminating.as_deref(), Some("/configmaps-0 is still terminating"));
    let owner = |uid: &str| json!([{ "controller": true, "kind": "Widget", "name": "w", "uid": uid }]);
    let orphan = of(json!({ "uid": "a", "ownerReferences": owner("b") }));
    assert_eq!(orphan.as_deref(), Some("/configmaps-0 is owned by \"Widget\" \"w\", which is gone"));
    let owned = json!({ "metadata": { "ownerReferences": owner("b") } });
    assert_eq!(problem(&[("configmaps", owned), ("widgets", json!({ "metadata": { "uid": "b" } }))]), None);
}

#[test]
fn endpoints_are_those_of_pods() {
    let service = json!({ "spec": { "selector": { "app": "web" } } });
    let pod = |address: &str| {
        let mut pod = with(&["Ready"]);
        pod["metadata"] = json!({ "labels": { "app": "web" } });
        pod["status"]["podIP"] = json!(address);
        pod
    };
    let slice = |address: &str| {
        let labels = json!({ "kubernetes.io/service-name": "services-0" });
        json!({ "metadata": { "labels": labels }, "endpoints": [{ "addresses": [address] }] })
    };
    let of = |address: &str| {
        problem(&[("services", service.clone()), ("pods", pod("10.0.0.1")), ("endpointslices", slice(address))])
    };
    assert_eq!(of("10.0.0.1"), None);
    let said = of("10.0.0.2");
    assert_eq!(said.as_deref(), Some(r#"/services-0: its endpoints are {"10.0.0.2"}, its pods {"10.0.0.1"}"#));
}
