//! Tables of what is planned for StatefulSets and their pods.

use std::sync::Arc;

use rkube_operator::Item;
use serde_json::{Value, json};

use crate::history::REVISION_HASH;
use crate::metadata::Labels;
use crate::pods::{Phase, Pod};
use crate::stateful_sets::plan::{self, Action, POD_NAME, Plan, Revisions, Terms};
use crate::stateful_sets::retention::{self, Claims};
use crate::stateful_sets::view::{Claim, StatefulSet};

const NOW: i64 = 1_000_000_000;

fn item(name: &str, object: &Value) -> Item {
    Item {
        namespace: "n".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        revision: 1,
        json: object.to_string().into(),
    }
}

fn set(spec: &Value) -> StatefulSet {
    StatefulSet::read(&item("s", &json!({ "metadata": {}, "spec": spec }))).unwrap()
}

/// Pods as `1r` (ordinal and state): ready, pending, terminating, failed; in capitals those of the new revision.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |word: &str| {
        let (ordinal, state) = word.split_at(word.len() - 1);
        let name = format!("s-{ordinal}");
        let revision = if state.chars().all(char::is_uppercase) { "new" } else { "old" };
        let pair = |key: &str, value: &str| (key.into(), value.into());
        Arc::new(Pod {
            name: name.as_str().into(),
            uid: format!("uid-{name}").into(),
            labels: Labels::new([pair(POD_NAME, &name), pair(REVISION_HASH, revision)]).shared(),
            phase: match state.to_lowercase().as_str() {
                "p" => Phase::Pending,
                "f" => Phase::Failed,
                _ => Phase::Running,
            },
            ready: state.eq_ignore_ascii_case("r"),
            ready_changed: Some(0),
            deleted: state.eq_ignore_ascii_case("t").then_some(5),
            ..Pod::default()
        })
    };
    text.split_whitespace().map(pod).collect()
}

/// What is done: `+1` and `+1!` (of the new revision), `-s-1`, and so on; parts with something in them, by bars.
fn told(plan: &Plan) -> String {
    let word = |action: &Action| match action {
        Action::Create { ordinal, updated } => format!("+{ordinal}{}", if *updated { "!" } else { "" }),
        Action::Delete(pod) => format!("-{}", pod.name),
        Action::Claims(pod) => format!("claims {}", pod.name),
        Action::Update(pod) => format!("update {}", pod.name),
        Action::Retain(pod) => format!("retain {}", pod.name),
    };
    let parts = plan.parts.iter().filter(|part| !part.is_empty());
    parts.map(|part| part.iter().map(word).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(" | ")
}

fn planned(set: &StatefulSet, there: &str) -> Plan {
    planned_by(set, there, Terms { now: NOW, max_unavailable: false })
}

fn planned_by(set: &StatefulSet, there: &str, terms: Terms) -> Plan {
    let none: &dyn Fn(&str) -> Option<Arc<Claim>> = &|_| None;
    let revisions = Revisions { current: "old", update: "new", collisions: 0 };
    plan::plan(set, &pods(there), &Claims(none), revisions, terms)
}

#[test]
fn pods_come_and_go_in_their_order() {
    let ordered = json!({ "replicas": 3, "updateStrategy": { "rollingUpdate": { "partition": 0 } } });
    let mut parallel = ordered.clone();
    parallel["podManagementPolicy"] = "Parallel".into();
    let mut third = ordered.clone();
    third["updateStrategy"]["rollingUpdate"]["partition"] = 2.into();
    let mut late = ordered.clone();
    late["ordinals"] = json!({ "start": 5 });
    let deleted = json!({ "replicas": 3, "updateStrategy": { "type": "OnDelete" } });
    let mut slow = ordered.clone();
    slow["minReadySeconds"] = 2000.into();
    let mut two_at_once = ordered.clone();
    two_at_once["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 2.into();
    let table = [
        (&ordered, "", "+0!"),
        (&ordered, "0P", ""),
        (&ordered, "0R", "+1!"),
        (&ordered, "0R 2R", "+1!"),
        (&slow, "0R", ""),
        (&ordered, "0R 1F 2R", "-s-1"),
        (&ordered, "0R 1T 2R", ""),
        (&parallel, "", "+0! +1! +2!"),
        (&parallel, "0P 2F", "+1! -s-2"),
        (&late, "5R", "+6!"),
        // Those that are too many.
        (&ordered, "0R 1R 2R 3R 4R", "-s-4"),
        (&ordered, "0R 1R 2R 3R 4T", ""),
        (&ordered, "0R 1R 2R 3P 4P", ""),
        (&ordered, "0R 1R 2R 3R 4P", "-s-4"),
        (&ordered, "0R 1P 2R 3R", ""),
        (&parallel, "0P 1R 2R 3R 4P 5T", "-s-4 -s-3"),
        (&late, "0R 5R 6R 7R", "-s-0"),
        // Those of the old revision.
        (&ordered, "0r 1r 2r", "-s-2"),
        (&ordered, "0r 1r 2R", "-s-1"),
        (&ordered, "0r 1r 2P", ""),
        (&ordered, "0r 1r 2t", ""),
        (&ordered, "0R 1R 2R", ""),
        (&third, "0r 1r 2r", "-s-2"),
        (&third, "0r 1r 2R", ""),
        (&third, "0r", "+1"),
        (&third, "0r 1r", "+2!"),
        (&deleted, "0r 1r 2r", ""),
        (&deleted, "0r", "+1!"),
        // Left from when the gate was on: without it the number does not count.
        (&two_at_once, "0r 1r 2r", "-s-2"),
        (&parallel, "0r 1r 2P", ""),
    ];
    for (spec, there, expected) in table {
        assert_eq!(told(&planned(&set(spec), there)), expected, "{spec} {there}");
    }
}

/// With the gate `MaxUnavailableStatefulSet`.
#[test]
fn as_many_pods_are_updated_at_once_as_may_be_unavailable() {
    let set_of = |policy: &str, partition: u32, most: Value| {
        let rolling = json!({ "partition": partition, "maxUnavailable": most });
        set(&json!({ "replicas": 5, "podManagementPolicy": policy, "updateStrategy": { "rollingUpdate": rolling } }))
    };
    let [ordered, parallel] = ["OrderedReady", "Parallel"];
    let table = [
        (ordered, 0, json!(2), "0r 1r 2r 3r 4r", "-s-4 -s-3"),
        (ordered, 0, json!(2), "0r 1r 2r 3r 4R", "-s-3 -s-2"),
        // In order, those that are missing come before any update.
        (ordered, 0, json!(2), "0r 1r 2r 3P 4R", ""),
        (ordered, 0, json!(2), "0r 1r 2r", "+3!"),
        (ordered, 3, json!(3), "0r 1r 2r 3r 4r", "-s-4 -s-3"),
        (parallel, 0, json!(2), "0r 1r 2r 3r 4r", "-s-4 -s-3"),
        // Whoever is unavailable counts, wherever they are and whatever their template.
        (parallel, 0, json!(2), "0r 1r 2r 3r 4P", "-s-3"),
        (parallel, 0, json!(2), "0r 1r 2r 3r 4t", "-s-3"),
        (parallel, 0, json!(2), "0p 1r 2r 3r 4r", "-s-4"),
        (parallel, 0, json!(2), "0r 1r 2r 3P 4P", ""),
        (parallel, 2, json!(2), "0p 1p 2r 3r 4r", ""),
        (parallel, 0, json!(2), "0p 1p 2p 3r 4r", ""),
        (parallel, 0, json!(2), "0r 1r 2r 3r", "+4! | -s-3"),
        // A part of all, rounded down, but one at least.
        (parallel, 0, json!("50%"), "0r 1r 2r 3r 4r", "-s-4 -s-3"),
        (parallel, 0, json!("10%"), "0r 1r 2r 3r 4r", "-s-4"),
        (parallel, 0, Value::Null, "0r 1r 2r 3r 4r", "-s-4"),
        (parallel, 0, Value::Null, "0r 1r 2r 3r 4P", ""),
        (parallel, 0, Value::Null, "0p 1r 2r 3r 4R", ""),
    ];
    for (policy, partition, most, there, expected) in table {
        let terms = Terms { now: NOW, max_unavailable: true };
        let plan = planned_by(&set_of(policy, partition, most.clone()), there, terms);
        assert_eq!(told(&plan), expected, "{policy} {partition} {most} {there}");
        let deleted = i64::try_from(expected.matches("-s-").count()).unwrap();
        assert_eq!(plan.updates, deleted, "{policy} {partition} {most} {there}");
    }
}

/// None of its claims are there, and its volumes are not theirs.
#[test]
fn one_thing_is_done_for_a_pod_that_waits() {
    for (policy, expected) in [("OrderedReady", "claims s-0"), ("Parallel", "update s-0")] {
        let template = json!({ "metadata": { "name": "data" } });
        let spec = json!({ "replicas": 1, "podManagementPolicy": policy, "volumeClaimTemplates": [template] });
        assert_eq!(told(&planned(&set(&spec), "0P")), expected);
    }
}

#[test]
fn the_status_counts_pods_and_ends_rollouts() {
    let set = set(&json!({ "replicas": 3, "updateStrategy": { "rollingUpdate": { "partition": 0 } } }));
    let status = |there: &str| {
        let mut status = planned(&set, there).status;
        plan::complete(&set, &mut status);
        status
    };
    let counts = |there: &str| {
        let status = status(there);
        [status.replicas, status.ready_replicas, status.current_replicas, status.updated_replicas]
    };
    assert_eq!(counts("0r 1p 2T"), [3, 1, 2, 0]);
    assert_eq!(counts("0r 1R 2R"), [3, 3, 1, 2]);
    assert_eq!(counts("0R 1R 2R"), [3, 3, 3, 3]);
    assert_eq!(status("0r 1R 2R").current_revision, "old");
    assert_eq!(status("0R 1R 2R").current_revision, "new");
}

#[test]
fn only_names_with_plain_numbers_are_members() {
    let set = set(&json!({}));
    let table = [("s-0", Some(0)), ("s-12", Some(12)), ("s-x", None), ("s-", None), ("t-1", None), ("s-1-2", None)];
    for (name, expected) in table {
        assert_eq!(set.ordinal(name), expected, "{name}");
    }
}

#[test]
fn claims_go_with_whom_they_are_to() {
    let claim = |owners: &[(&str, &str, bool)]| {
        let owner = |(kind, name, controls): &(&str, &str, bool)| {
            let api_version = if *kind == "StatefulSet" { "apps/v1" } else { "v1" };
            json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": controls })
        };
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        Claim::read(&item("c", &json!({ "metadata": { "ownerReferences": owners } }))).unwrap()
    };
    let (by_set, by_pod): (&[_], &[_]) = (&[("StatefulSet", "s", true)], &[("Pod", "s-3", true)]);
    // Both policies, the ordinal, and who owns the claim.
    type Updates<'a> = &'a [(&'a str, &'a str, bool)];
    let table: [(&str, &str, i64, Updates<'_>); 7] = [
        ("Retain", "Retain", 0, &[]),
        ("Delete", "Retain", 0, by_set),
        ("Delete", "Retain", 3, by_set),
        ("Retain", "Delete", 0, &[]),
        ("Retain", "Delete", 3, by_pod),
        ("Delete", "Delete", 0, by_set),
        ("Delete", "Delete", 3, by_pod),
    ];
    for (when_deleted, when_scaled, ordinal, expected) in table {
        let policy = json!({ "whenDeleted": when_deleted, "whenScaled": when_scaled });
        let set = set(&json!({ "replicas": 3, "persistentVolumeClaimRetentionPolicy": policy }));
        let pod = pods(&format!("{ordinal}r")).remove(0);
        for owners in [&[], by_set, by_pod] {
            let has_them = owners == expected || ordinal == 0 && owners == by_pod && expected.is_empty();
            let claim = claim(owners);
            if owners != by_pod || ordinal == 3 {
                assert_eq!(
                    retention::is_owned_well(&set, ordinal, &pod, &claim),
                    has_them,
                    "{policy} {ordinal} {owners:?}"
                );
                let known = claim.item.parse::<Value>().unwrap()["metadata"]["ownerReferences"].take();
                let fixed = retention::owners(&set, ordinal, &pod, &claim, &known);
                let kinds: Vec<&str> =
                    fixed.as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
                assert_eq!(kinds, expected.iter().map(|one| one.0).collect::<Vec<_>>(), "{policy} {ordinal}");
            }
        }
    }
}
