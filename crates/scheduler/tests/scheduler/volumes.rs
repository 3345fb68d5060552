//! Pods with claims: what is said of those that no node would have, which volumes the others get, and what is waited
//! for before they are bound.

use std::sync::Arc;

use rkube_scheduler::core::{Bound, Preparation, Step};
use rkube_scheduler::snapshot::storage::work::{Work, Written};
use serde_json::{Value, json};

use crate::support::{Driver, merge};

const RECORDED: &str = "0/2 nodes are available: ";

fn claim(name: &str, more: Value) -> Value {
    let mut claim = json!({
        "metadata": { "namespace": "a", "name": name, "uid": format!("uid-{name}") },
        "spec": { "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                  "resources": { "requests": { "storage": "1Gi" } } },
        "status": { "phase": "Pending" },
    });
    merge(&mut claim, more);
    claim
}

/// A claim that has a volume.
fn bound(name: &str, volume: &str) -> Value {
    claim(
        name,
        json!({
            "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
            "spec": { "volumeName": volume },
            "status": { "phase": "Bound" },
        }),
    )
}

fn volume(name: &str, size: &str, more: Value) -> Value {
    let mut volume = json!({
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": { "storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": size } },
        "status": { "phase": "Available" },
    });
    merge(&mut volume, more);
    volume
}

fn on(node: &str) -> Value {
    let host = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] });
    json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [host] }] } } } })
}

fn using(claims: &[&str]) -> Value {
    let volumes = claims.iter().enumerate().map(
        |(number, claim)| json!({ "name": format!("v{number}"), "persistentVolumeClaim": { "claimName": claim } }),
    );
    json!({ "volumes": volumes.collect::<Vec<_>>() })
}

/// Two nodes, in two zones, and a class of which volumes are bound when pods are.
fn driver() -> Driver {
    let mut driver = Driver::new();
    for (node, zone) in [("n0", "z0"), ("n1", "z1")] {
        driver.node(node, json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } }));
    }
    driver.storage(
        "class",
        json!({ "metadata": { "name": "late" }, "provisioner": "example.com/p", "volumeBindingMode": "WaitForFirstConsumer" }),
    );
    driver.storage(
        "class",
        json!({ "metadata": { "name": "static" }, "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer" }),
    );
    driver
}

fn refused(driver: &mut Driver, spec: Value) -> String {
    driver.pod("p", spec);
    match driver.step() {
        Step::Refused { message, .. } => message.strip_prefix(RECORDED).unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Where the pod is to go, and what has to be done for it before.
fn placed(driver: &mut Driver) -> (String, Option<Arc<Work>>) {
    match driver.step() {
        Step::Bind { node, volumes, .. } => (node.to_string(), volumes),
        other => panic!("{other:?}"),
    }
}

fn names(work: &Work) -> (Vec<(String, String)>, Vec<String>) {
    let bindings = work.bindings.iter().map(|(volume, claim)| (volume.name.to_string(), claim.name.to_string()));
    (bindings.collect(), work.provisions.iter().map(|claim| claim.name.to_string()).collect())
}

/// It may be that only the cache does not know a claim. Nobody asks for those that do not come before their pods.
#[test]
fn the_first_claim_that_is_not_known_is_named() {
    let ephemeral = json!({ "volumes": [{ "name": "v", "ephemeral": { "volumeClaimTemplate": {} } }] });
    let immediate = || claim("c", json!({ "spec": { "storageClassName": "" } }));
    let table = [
        (None, using(&["c", "d"]), Some("c")),
        (Some(immediate()), using(&["c", "d"]), Some("d")),
        (Some(immediate()), using(&["c"]), None),
        (None, ephemeral, None),
    ];
    for (known, spec, expected) in table {
        let mut driver = driver();
        if let Some(claim) = known {
            driver.storage("claim", claim);
        }
        driver.pod("p", spec.clone());
        let Step::Refused { unknown_claim, .. } = driver.step() else { panic!("{spec} is refused") };
        assert_eq!(unknown_claim.as_deref(), expected, "{spec}");
    }
}

#[test]
fn claims_that_cannot_be_used_are_named() {
    let ephemeral = json!({ "volumes": [{ "name": "v", "ephemeral": { "volumeClaimTemplate": {} } }] });
    let immediate = json!({ "spec": { "storageClassName": "" } });
    let table = [
        (None, using(&["c"]), r#"persistentvolumeclaim "c" not found. not found"#),
        (
            None,
            ephemeral.clone(),
            r#"waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v". not found"#,
        ),
        (
            Some(claim("p-v", json!({}))),
            ephemeral,
            "PVC a/p-v was not created for pod a/p (pod is not owner). not found",
        ),
        (Some(claim("c", immediate)), using(&["c"]), "pod has unbound immediate PersistentVolumeClaims. not found"),
        (
            Some(claim("c", json!({ "spec": { "volumeName": "v" } }))),
            using(&["c"]),
            "pod has unbound immediate PersistentVolumeClaims. not found",
        ),
        (
            Some(claim("c", json!({ "metadata": { "deletionTimestamp": "2020-01-01T00:00:00Z" } }))),
            using(&["c"]),
            r#"persistentvolumeclaim "c" is being deleted. not found"#,
        ),
        (
            Some(claim("c", json!({ "spec": { "volumeName": "v" }, "status": { "phase": "Lost" } }))),
            using(&["c"]),
            r#"persistentvolumeclaim "c" bound to non-existent persistentvolume "v". not found"#,
        ),
        (Some(bound("c", "v")), using(&["c"]), r#"persistentvolume "v" not found. not found"#),
    ];
    for (known, spec, why) in table {
        let mut driver = driver();
        known.into_iter().for_each(|claim| driver.storage("claim", claim));
        assert_eq!(refused(&mut driver, spec), why);
        // Whatever happens to others does not help.
        driver.storage("claim", claim("another", json!({})));
        assert!(driver.core.step(driver.now).is_none(), "{why}");
        driver.storage("claim", claim(if why.contains("p-v") { "p-v" } else { "c" }, json!({})));
        assert!(driver.core.step(driver.now).is_some(), "{why}");
    }
}

#[test]
fn nodes_that_volumes_do_not_reach_are_refused() {
    const NOT_HELPFUL: &str =
        "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    let zone = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "z2__z3" } } });
    let fixed = |more: Value| {
        let mut claim = claim("c", json!({ "spec": { "storageClassName": "static" } }));
        merge(&mut claim, more);
        claim
    };
    let mut of_static = volume("v", "1Gi", on("n5"));
    of_static["spec"]["storageClassName"] = json!("static");
    let selected = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n7" } } });
    let table = [
        (
            bound("c", "v"),
            Some(volume("v", "1Gi", on("n5"))),
            "2 node(s) didn't match PersistentVolume's node affinity.",
        ),
        (bound("c", "v"), Some(volume("v", "1Gi", zone)), "2 node(s) had no available volume zone."),
        (fixed(json!({})), Some(of_static), "2 node(s) didn't find available persistent volumes to bind."),
        (fixed(json!({})), None, "2 node(s) didn't find available persistent volumes to bind."),
        (claim("c", selected), None, "2 node(s) didn't find available persistent volumes to bind."),
    ];
    for (claim, volume, why) in table {
        let mut driver = driver();
        driver.storage("claim", claim);
        volume.into_iter().for_each(|volume| driver.storage("volume", volume));
        assert_eq!(refused(&mut driver, using(&["c"])), format!("{why} {NOT_HELPFUL}"));
    }
}

#[test]
fn ephemeral_claims_whose_volume_is_gone_are_refused_by_every_node() {
    let mut driver = driver();
    let mut claim = bound("p-v", "gone");
    claim["metadata"]["ownerReferences"] = json!([{ "uid": "uid-p", "controller": true }]);
    driver.storage("claim", claim);
    let why = refused(&mut driver, json!({ "volumes": [{ "name": "v", "ephemeral": {} }] }));
    assert!(why.starts_with("2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s). "), "{why}");
}

#[test]
fn each_claim_gets_the_smallest_volume_that_will_do() {
    let mut driver = driver();
    let with = |more: Value| volume("x", "1Gi", more);
    let mut unsuitable = [
        with(json!({ "spec": { "accessModes": ["ReadOnlyMany"] } })),
        with(json!({ "spec": { "volumeMode": "Block" } })),
        with(json!({ "spec": { "storageClassName": "static" } })),
        with(json!({ "spec": { "volumeAttributesClassName": "gold" } })),
        with(json!({ "spec": { "capacity": { "storage": "1023Mi" } } })),
        with(json!({ "spec": { "claimRef": { "namespace": "b", "name": "small" } } })),
        with(json!({ "status": { "phase": "Released" } })),
        with(json!({ "metadata": { "deletionTimestamp": "2020-01-01T00:00:00Z" } })),
        with(on("n1")),
    ];
    for (number, one) in unsuitable.iter_mut().enumerate() {
        one["metadata"]["name"] = json!(format!("x{number}"));
        driver.storage("volume", one.clone());
    }
    for (name, size) in [("v8", "8Gi"), ("v2", "2Gi"), ("v4", "4Gi")] {
        driver.storage("volume", volume(name, size, on("n0")));
    }
    driver.storage("claim", claim("large", json!({ "spec": { "resources": { "requests": { "storage": "3Gi" } } } })));
    driver.storage("claim", claim("small", json!({})));
    driver.storage("claim", claim("other", json!({})));
    let mut spec = using(&["large", "small", "other"]);
    spec["nodeSelector"] = json!({ "kubernetes.io/hostname": "n0" });
    driver.pod("p", spec);
    let (node, work) = placed(&mut driver);
    let (bindings, provisions) = names(&work.unwrap());
    let pairs =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
    assert_eq!(node, "n0");
    assert_eq!(bindings, pairs(&[("v2", "small"), ("v4", "other"), ("v8", "large")]), "by size");
    assert!(provisions.is_empty());
}

#[test]
fn a_volume_that_is_for_a_claim_goes_to_it_and_selectors_are_kept() {
    let mut driver = driver();
    let reference = json!({ "spec": { "claimRef": { "namespace": "a", "name": "c" } } });
    driver.storage("volume", volume("larger", "9Gi", reference));
    driver.storage("volume", volume("open", "1Gi", json!({})));
    driver.storage("volume", volume("gold", "5Gi", json!({ "metadata": { "labels": { "tier": "gold" } } })));
    driver.storage("claim", claim("c", json!({})));
    let selector = json!({ "matchExpressions": [{ "key": "tier", "operator": "Exists" }] });
    driver.storage("claim", claim("d", json!({ "spec": { "selector": selector } })));
    driver.pod("p", using(&["c", "d"]));
    let (_, work) = placed(&mut driver);
    let mut bindings = names(&work.unwrap()).0;
    bindings.sort();
    assert_eq!(bindings, [("gold".to_owned(), "d".to_owned()), ("larger".to_owned(), "c".to_owned())]);
}

#[test]
fn what_one_pod_is_to_have_no_other_gets() {
    let mut driver = driver();
    let fixed = json!({ "spec": { "storageClassName": "static" } });
    driver.storage("volume", volume("v", "1Gi", fixed.clone()));
    for name in ["c", "d"] {
        driver.storage("claim", claim(name, fixed.clone()));
    }
    driver.pod("p", using(&["c"]));
    let (_, work) = placed(&mut driver);
    assert_eq!(names(&work.unwrap()).0.len(), 1);
    driver.pod("q", using(&["d"]));
    assert!(matches!(driver.step(), Step::Refused { .. }));
    // The first one fails, and the volume can be had again.
    driver.core.bound("uid-p", Bound::Failed, driver.now);
    let (_, work) = placed(&mut driver);
    assert_eq!(names(&work.unwrap()).0, [("v".to_owned(), "d".to_owned())]);
}

#[test]
fn volumes_are_made_where_class_and_room_allow_it() {
    let mut driver = driver();
    let allowed = json!([{ "matchLabelExpressions": [{ "key": "topology.kubernetes.io/zone", "values": ["z1"] }] }]);
    driver.storage(
        "class",
        json!({ "metadata": { "name": "late" }, "provisioner": "example.com/p",
                "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": allowed }),
    );
    driver.storage("claim", claim("c", json!({})));
    driver.pod("p", using(&["c"]));
    let (node, work) = placed(&mut driver);
    assert_eq!((node.as_str(), names(&work.unwrap())), ("n1", (vec![], vec!["c".to_owned()])));
    driver.core.bound("uid-p", Bound::Gone, driver.now);
    // The driver tells how much room there is.
    driver.storage("driver", json!({ "metadata": { "name": "example.com/p" }, "spec": { "storageCapacity": true } }));
    let why = refused(&mut driver, using(&["c"]));
    let lacking =
        "1 node(s) did not have enough free storage, 1 node(s) didn't find available persistent volumes to bind.";
    assert!(why.starts_with(lacking), "{why}");
    let room = |size: &str| {
        json!({ "metadata": { "namespace": "k", "name": "r" }, "storageClassName": "late", "capacity": size,
                "nodeTopology": { "matchLabels": { "topology.kubernetes.io/zone": "z1" } } })
    };
    driver.storage("capacity", room("1000Mi"));
    assert!(matches!(driver.step(), Step::Refused { .. }), "it is tried, and still too little");
    driver.storage("capacity", room("900Mi"));
    driver.pass(std::time::Duration::from_secs(60));
    assert!(driver.core.step(driver.now).is_none(), "less does not help");
    driver.storage("capacity", room("2Gi"));
    assert_eq!(placed(&mut driver).0, "n1");
}

#[test]
fn a_pod_waits_until_its_claims_are_bound() {
    let mut driver = driver();
    driver.storage("claim", claim("c", json!({})));
    driver.storage("claim", claim("d", json!({})));
    driver.storage("volume", volume("v", "1Gi", on("n1")));
    let mut spec = using(&["c", "d"]);
    spec["nodeSelector"] = json!({ "kubernetes.io/hostname": "n1" });
    driver.pod("p", spec);
    let work = placed(&mut driver).1.unwrap();
    assert_eq!((work.bindings.len(), work.provisions.len()), (1, 1));
    assert_eq!(driver.core.preparation("uid-p"), Preparation::Waits, "nothing is written yet");
    driver.core.volumes_written("uid-p", Written { bindings: vec![100], provisions: vec![0] });
    assert_eq!(driver.core.preparation("uid-p"), Preparation::Waits, "what was written is not seen yet");
}

/// A pod of one claim that is to be on a node, and what was written for it is seen.
fn waiting() -> Driver {
    let mut driver = driver();
    driver.storage("claim", claim("c", json!({})));
    let mut spec = using(&["c"]);
    spec["nodeSelector"] = json!({ "kubernetes.io/hostname": "n0" });
    driver.pod("p", spec);
    let (node, work) = placed(&mut driver);
    assert_eq!((node.as_str(), names(&work.unwrap())), ("n0", (vec![], vec!["c".to_owned()])));
    driver.storage("claim", claim("c", selected("n0")));
    driver.core.volumes_written("uid-p", Written { bindings: vec![], provisions: vec![1] });
    assert_eq!(driver.core.preparation("uid-p"), Preparation::Waits);
    driver.core.take_woken();
    driver
}

fn selected(node: &str) -> Value {
    json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": node } } })
}

#[test]
fn others_bind_the_claim_and_the_pod_goes_on() {
    let mut driver = waiting();
    let mut done = bound("c", "made");
    merge(&mut done, selected("n0"));
    driver.storage("claim", done);
    assert_eq!(driver.core.take_woken(), ["uid-p"]);
    assert_eq!(driver.core.preparation("uid-p"), Preparation::Waits, "the volume is not seen yet");
    let reference = json!({ "spec": { "claimRef": { "namespace": "a", "name": "c", "uid": "uid-c" } } });
    let mut made = volume("made", "1Gi", reference);
    merge(&mut made, on("n0"));
    driver.storage("volume", made);
    assert_eq!(driver.core.take_woken(), ["uid-p"]);
    assert_eq!(driver.core.preparation("uid-p"), Preparation::Done);
    driver.core.bound("uid-p", Bound::Done, driver.now);
    assert_eq!(driver.core.preparation("uid-p"), Preparation::Gone);
}

#[test]
fn what_goes_wrong_while_a_pod_waits_is_said() {
    let failed = |change: &dyn Fn(&mut Driver)| {
        let mut driver = waiting();
        change(&mut driver);
        assert_eq!(driver.core.take_woken(), ["uid-p"]);
        driver.core.preparation("uid-p")
    };
    let because = |why: &str| Preparation::Failed(why.to_owned());
    assert_eq!(
        failed(&|driver| driver.storage("claim", claim("c", json!({})))),
        because("provisioning failed for PVC \"c\"")
    );
    assert_eq!(
        failed(&|driver| driver.no_storage("claim", Some("a"), "c")),
        because("failed to check provisioning pvc: persistentvolumeclaims \"a/c\" not found")
    );
    assert_eq!(failed(&|driver| driver.no_node("n0")), because("failed to get node \"n0\": node \"n0\" not found"));
    assert_eq!(failed(&|driver| driver.no_pod("p")), Preparation::Gone);
    let elsewhere = |driver: &mut Driver| {
        let reference = json!({ "spec": { "claimRef": { "namespace": "a", "name": "c", "uid": "uid-c" } } });
        let mut made = volume("made", "1Gi", reference);
        merge(&mut made, on("n1"));
        driver.storage("volume", made);
        let mut done = bound("c", "made");
        merge(&mut done, selected("n0"));
        driver.storage("claim", done);
        let woken = driver.core.take_woken();
        assert_eq!(woken, ["uid-p", "uid-p"]);
    };
    let mut driver = waiting();
    elsewhere(&mut driver);
    let why = "pv \"made\" node affinity doesn't match node \"n0\": no matching NodeSelectorTerms";
    assert_eq!(driver.core.preparation("uid-p"), because(why));
}

#[test]
fn a_claim_for_one_pod_is_for_one_pod() {
    let mut driver = driver();
    let mut only = bound("c", "v");
    only["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    driver.storage("claim", only);
    driver.storage("volume", volume("v", "1Gi", json!({})));
    driver.pod("first", using(&["c"]));
    assert!(placed(&mut driver).1.is_none(), "there is nothing to bind");
    let why = refused(&mut driver, using(&["c"]));
    let used = "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.";
    assert!(why.starts_with(used), "{why}");
    assert!(why.ends_with("2 No preemption victims found for incoming pod."), "{why}");
    driver.no_pod("first");
    assert!(placed(&mut driver).1.is_none());
}

#[test]
fn it_would_help_if_the_other_user_of_a_claim_went() {
    let mut driver = driver();
    let mut only = bound("c", "v");
    only["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    driver.storage("claim", only);
    driver.storage("volume", volume("v", "1Gi", json!({})));
    driver.pod("low", using(&["c"]));
    placed(&mut driver);
    let mut spec = using(&["c"]);
    spec["priority"] = json!(9);
    let why = refused(&mut driver, spec);
    assert!(why.ends_with("already in-use by another pod."), "{why}");
}

#[test]
fn disks_that_a_node_can_have_once_keep_pods_apart() {
    let disk = |read_only: bool| json!({ "volumes": [{ "name": "v", "gcePersistentDisk": { "pdName": "d", "readOnly": read_only } }] });
    let rbd = |monitors: &[&str]| json!({ "volumes": [{ "name": "v", "rbd": { "monitors": monitors, "pool": "p", "image": "i" } }] });
    let table = [
        (disk(true), disk(true), true),
        (disk(true), disk(false), false),
        (rbd(&["a", "b"]), rbd(&["b"]), false),
        (rbd(&["a"]), rbd(&["b"]), true),
        (disk(false), rbd(&["b"]), true),
    ];
    for (one, two, fits) in table {
        let mut driver = Driver::with_nodes(1);
        driver.pod("one", one);
        placed(&mut driver);
        driver.pod("two", two);
        match driver.step() {
            Step::Bind { .. } => assert!(fits),
            Step::Refused { message, .. } => {
                assert!(
                    !fits && message.starts_with("0/1 nodes are available: 1 node(s) had no available disk. "),
                    "{message}"
                );
                driver.no_pod("one");
                placed(&mut driver);
            }
            other @ Step::Skipped { .. } => panic!("{other:?}"),
        }
    }
}

#[test]
fn nodes_have_so_many_volumes_of_a_driver() {
    let mut driver = Driver::with_nodes(1);
    let limit = |count: i64| json!({ "metadata": { "name": "n0" }, "spec": { "drivers": [{ "name": "csi", "allocatable": { "count": count } }] } });
    driver.storage("csi node", limit(2));
    for number in 0..4 {
        let csi = json!({ "spec": { "csi": { "driver": "csi", "volumeHandle": format!("h{number}") } } });
        driver.storage("volume", volume(&format!("v{number}"), "1Gi", csi));
        driver.storage("claim", bound(&format!("c{number}"), &format!("v{number}")));
    }
    driver.pod("two", using(&["c0", "c1"]));
    placed(&mut driver);
    driver.pod("shares", using(&["c1"]));
    placed(&mut driver);
    driver.pod("more", using(&["c2"]));
    let refused = |driver: &mut Driver| match driver.step() {
        Step::Refused { message, .. } => {
            assert!(message.starts_with("0/1 nodes are available: 1 node(s) exceed max volume count. "), "{message}");
        }
        other => panic!("{other:?}"),
    };
    refused(&mut driver);
    driver.storage("csi node", limit(3));
    placed(&mut driver);
    // Where there is no driver the API has `null`.
    driver.storage("csi node", json!({ "metadata": { "name": "n1" }, "spec": { "drivers": null } }));
    // What is attached still counts.
    driver.no_pod("two");
    driver.storage(
        "attachment",
        json!({ "metadata": { "name": "x" }, "spec": { "nodeName": "n0", "attacher": "csi",
                "source": { "persistentVolumeName": "v0" } } }),
    );
    driver.pod("last", using(&["c3"]));
    refused(&mut driver);
    driver.no_storage("attachment", None, "x");
    placed(&mut driver);
}

#[test]
fn zones_are_looked_at_by_their_old_names_too() {
    let table = [
        ("failure-domain.beta.kubernetes.io/zone", "z1", Some("n1")),
        ("topology.kubernetes.io/zone", "z0__ z1", None),
        ("topology.kubernetes.io/zone", "z1__", None),
        ("topology.kubernetes.io/zone", "z0", Some("n0")),
    ];
    for (key, value, wanted) in table {
        let mut driver = driver();
        driver.storage("claim", bound("c", "v"));
        driver.storage("volume", volume("v", "1Gi", json!({ "metadata": { "labels": { key: value } } })));
        driver.pod("p", using(&["c"]));
        let node = placed(&mut driver).0;
        assert!(wanted.is_none_or(|wanted| wanted == node), "{key}={value}: {node}");
    }
}
