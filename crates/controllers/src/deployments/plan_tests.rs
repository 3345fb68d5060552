//! Tables of plans: a Deployment and its sets, and what is done next.

use std::sync::Arc;

use rkube_operator::Item;
use serde_json::{Value, json};

use super::plan::{NewSet, Plan, Scaling, Work, plan};
use super::sets::{Set, Sets};
use super::status::{self, Progress};
use super::view::{Deployment, Status};
use crate::replica_sets::ReplicaSet;

const NOW: i64 = 1_000_000;

fn item(name: &str, json: &Value) -> Item {
    Item { namespace: "n".into(), name: name.into(), uid: name.into(), revision: 1, json: json.to_string().into() }
}

fn template(image: &str, hash: Option<&str>) -> Value {
    let mut labels = json!({ "app": "d" });
    if let Some(hash) = hash {
        labels["pod-template-hash"] = hash.into();
    }
    json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": image }] } })
}

/// A Deployment of image `new`. `spec` is laid over the usual one.
fn deployment(replicas: i64, spec: &Value) -> Deployment {
    let mut whole = json!({
        "metadata": { "name": "d", "generation": 2, "annotations": { "deployment.kubernetes.io/revision": "2" } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "d" } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } },
            "template": template("new", None),
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 2,
        },
        "status": { "conditions": [condition("Progressing", "True", "ReplicaSetUpdated", NOW - 5)] },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        whole["spec"][field] = value.clone();
    }
    Deployment::read(&item("d", &whole)).unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, updated: i64) -> Value {
    let at = rkube_machinery::time::format_seconds(updated);
    json!({ "type": kind, "status": status, "reason": reason, "lastUpdateTime": at, "lastTransitionTime": at })
}

/// A set `image:replicas/available`, made for a Deployment of so many; the later ones are younger and of a later revision.
fn set(number: i64, text: &str, (desired, max): (i64, i64)) -> Set {
    let (image, numbers) = text.split_once(':').unwrap();
    let (replicas, available) = numbers.split_once('/').unwrap();
    let (replicas, available): (i64, i64) = (replicas.parse().unwrap(), available.parse().unwrap());
    let json = json!({
        "metadata": {
            "generation": 1,
            "creationTimestamp": rkube_machinery::time::format_seconds(number),
            "labels": { "app": "d", "pod-template-hash": image },
            "annotations": {
                "deployment.kubernetes.io/revision": number.to_string(),
                "deployment.kubernetes.io/desired-replicas": desired.to_string(),
                "deployment.kubernetes.io/max-replicas": max.to_string(),
            },
        },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "d", "pod-template-hash": image } },
            "template": template(image, Some(image)),
        },
        "status": {
            "replicas": replicas.max(available), "availableReplicas": available, "readyReplicas": available,
            "terminatingReplicas": 0, "observedGeneration": 1,
        },
    });
    Arc::new(ReplicaSet::read(&item(image, &json)).unwrap())
}

fn sets(deployment: &Deployment, text: &str, sizes: (i64, i64)) -> Sets {
    let all = text.split_whitespace().zip(1..).map(|(text, number)| set(number, text, sizes)).collect();
    Sets::sort(deployment, all)
}

fn told(work: &Work) -> String {
    match work {
        Work::Nothing => "nothing".to_owned(),
        Work::Create(NewSet { replicas, revision, .. }) => format!("create {replicas} as {revision}"),
        Work::Adjust { annotations, .. } => {
            let pairs = annotations.iter().map(|(key, value)| format!("{}={value}", key.rsplit('/').next().unwrap()));
            format!("adjust {}", pairs.collect::<Vec<_>>().join(" ")).trim_end().to_owned()
        }
        Work::Scale(all) => {
            let each = all.iter().map(|Scaling { set, from, to }| format!("{set} {from}>{to}"));
            each.collect::<Vec<_>>().join(", ")
        }
        Work::Delete(names) => format!("delete {}", names.join(" ")),
        Work::RollBack(to) => format!("roll back to {to}"),
    }
}

fn planned(deployment: &Deployment, sets: &Sets) -> Plan {
    plan(deployment, sets, || false, NOW)
}

#[test]
fn rolling_updates_keep_enough_pods_and_make_not_too_many() {
    let bounds = |surge: Value, unavailable: Value| json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } } });
    let usual = || bounds(json!("25%"), json!("25%"));
    // How many are wanted within which bounds, the sets, and what is done.
    let table = [
        (3, usual(), "", "create 3 as 1"),
        (3, usual(), "a:3/3", "create 1 as 2"),
        (10, usual(), "a:10/10", "create 3 as 2"),
        (10, usual(), "a:13/10", "create 0 as 2"),
        (3, usual(), "a:3/3 new:1/0", "nothing"),
        (3, usual(), "a:3/3 new:1/1", "a 3>2"),
        (3, usual(), "a:2/2 new:1/1", "new 1>2"),
        (3, usual(), "a:0/0 new:3/3", "nothing"),
        (3, usual(), "new:5/5", "new 5>3"),
        // Pods that are not available go first, even if the others have to stay.
        (10, bounds(json!(3), json!(2)), "a:10/7 new:3/0", "a 10>8"),
        (10, bounds(json!(3), json!(2)), "a:8/8 new:5/0", "nothing"),
        (10, bounds(json!(3), json!(2)), "a:4/4 b:4/0 new:5/5", "b 4>0, a 4>3"),
        (10, bounds(json!(3), json!(2)), "a:2/1 b:11/11 new:0/0", "a 2>1, a 1>0, b 11>8"),
        // Nobody knows how many are available of a set that was made smaller just now.
        (3, usual(), "a:2/3 new:2/2", "nothing"),
        (10, bounds(json!(3), json!(2)), "a:4/2 b:2/4 new:7/7", "a 4>2"),
        (2, bounds(json!(0), json!(1)), "a:2/2 new:0/0", "a 2>1"),
        (2, bounds(json!(0), json!(1)), "a:1/1 new:0/0", "new 0>1"),
        // Where rounding leaves no room at all, one pod may be missing.
        (1, bounds(json!(0), json!("1%")), "a:1/1 new:0/0", "a 1>0"),
    ];
    for (replicas, spec, text, expected) in table {
        let deployment = deployment(replicas, &spec);
        let sizes = (replicas, deployment.max_replicas());
        let plan = planned(&deployment, &sets(&deployment, text, sizes));
        assert_eq!((told(&plan.work), plan.progress), (expected.to_owned(), Progress::Estimated), "{replicas} {text}");
    }
}

#[test]
fn a_recreated_deployment_waits_for_its_old_pods() {
    let spec = json!({ "strategy": { "type": "Recreate" } });
    let deployment = deployment(3, &spec);
    // The sets, whether old pods still run, and what is done.
    let table = [
        ("", false, "create 3 as 1"),
        ("a:3/3", false, "a 3>0"),
        ("a:0/3", false, "nothing"),
        ("a:0/0", true, "nothing"),
        ("a:0/0", false, "create 3 as 2"),
        ("a:0/0 new:0/0", false, "new 0>3"),
        ("a:0/0 new:3/0", false, "nothing"),
    ];
    for (text, runs, expected) in table {
        let plan = plan(&deployment, &sets(&deployment, text, (3, 3)), || runs, NOW);
        assert_eq!(told(&plan.work), expected, "{text}");
    }
}

#[test]
fn sizes_are_shared_out_in_proportion() {
    // The size for which the sets were made, the one that is wanted, the sets, and what is done.
    let table = [
        ((3, 4), 5, "new:3/3", "new 3>5"),
        ((3, 4), 0, "new:3/3", "new 3>0"),
        ((0, 0), 5, "new:0/0", "new 0>5"),
        ((10, 13), 20, "a:8/8 new:5/0", "a 8>15, new 5>10"),
        ((10, 13), 5, "a:8/8 new:5/0", "a 8>4, new 5>3"),
        ((10, 13), 0, "a:8/8 new:5/0", "a 8>0, new 5>0"),
        // Of two of one size the newer one gets what is left.
        ((4, 5), 5, "a:2/2 new:2/0", "new 2>4, a 2>3"),
    ];
    for (sizes, replicas, text, expected) in table {
        let deployment = deployment(replicas, &json!({}));
        let plan = planned(&deployment, &sets(&deployment, text, sizes));
        let estimated = if sizes.0 == 0 { Progress::Estimated } else { Progress::NotEstimated };
        assert_eq!((told(&plan.work), plan.progress), (expected.to_owned(), estimated), "{sizes:?} {text}");
    }
    let paused = deployment(10, &json!({ "paused": true }));
    let plan = planned(&paused, &sets(&paused, "a:8/8 new:5/0", (10, 13)));
    assert_eq!(told(&plan.work), "nothing", "a pause holds a rollout");
    let plan = planned(&paused, &sets(&paused, "a:5/5", (5, 7)));
    assert_eq!(told(&plan.work), "a 5>10", "and no scaling");
    let saturated = Sets::sort(&paused, vec![set(1, "a:2/2", (9, 12)), set(2, "new:10/10", (10, 13))]);
    assert_eq!(told(&planned(&paused, &saturated).work), "a 2>0");
}

#[test]
fn a_set_that_is_gone_back_to_gets_the_latest_revision() {
    let deployment = deployment(1, &json!({}));
    let sets = sets(&deployment, "new:0/0 a:1/1", (1, 2));
    let plan = planned(&deployment, &sets);
    assert_eq!(told(&plan.work), "adjust revision=3 revision-history=1");
    let mut annotated = Deployment::clone(&deployment);
    let annotations =
        [("k", "v"), ("deployment.kubernetes.io/revision", "2"), ("deployment.kubernetes.io/max-replicas", "9")];
    let annotations = annotations.map(|(key, value)| (key.into(), value.into()));
    annotated.annotations = crate::metadata::Labels::new(annotations).shared();
    let sets = Sets::sort(&annotated, vec![set(1, "a:1/1", (1, 2)), set(2, "new:1/1", (1, 2))]);
    assert_eq!(told(&planned(&annotated, &sets).work), "adjust k=v", "annotations are handed on");
    annotated.annotations = Arc::default();
    annotated.min_ready_seconds = 5;
    assert_eq!(told(&planned(&annotated, &sets).work), "adjust", "and how long pods have to be ready");
    annotated.min_ready_seconds = 0;
    assert_eq!(planned(&annotated, &sets).revision.as_deref(), Some("2"), "the Deployment has its set's revision");
}

#[test]
fn old_sets_are_cleaned_up_when_all_is_done() {
    let mut deployment = deployment(3, &json!({}));
    let sets = sets(&deployment, "a:0/0 b:0/0 c:0/0 d:0/0 new:3/3", (3, 4));
    assert_eq!(told(&planned(&deployment, &sets).work), "nothing");
    let done = Status {
        observed_generation: 2,
        replicas: 3,
        updated_replicas: 3,
        available_replicas: 3,
        ..deployment.status.clone()
    };
    deployment.status = done;
    assert_eq!(told(&planned(&deployment, &sets).work), "delete a b");
    deployment.history_limit = Some(0);
    assert_eq!(told(&planned(&deployment, &sets).work), "delete a b c d");
    deployment.history_limit = None;
    assert_eq!(told(&planned(&deployment, &sets).work), "nothing");
}

#[test]
fn a_deployment_rolls_back_when_it_is_told_to() {
    let mut deployment = deployment(3, &json!({}));
    let annotations = [("deprecated.deployment.rollback.to", "1"), ("deployment.kubernetes.io/revision", "2")];
    let annotations = annotations.map(|(key, value)| (key.into(), value.into()));
    deployment.annotations = crate::metadata::Labels::new(annotations).shared();
    let both = sets(&deployment, "a:0/0 new:3/3", (3, 4));
    assert_eq!(told(&planned(&deployment, &both).work), "roll back to 1");
    let old = sets(&deployment, "a:3/3", (3, 4));
    assert_eq!(told(&planned(&deployment, &old).work), "create 1 as 2", "what is there is rolled out first");
}

#[test]
fn one_that_is_to_go_changes_nothing() {
    let mut deployment = deployment(3, &json!({}));
    deployment.deleted = Some(NOW);
    for text in ["", "a:3/3", "a:3/3 new:1/1"] {
        assert_eq!(told(&planned(&deployment, &sets(&deployment, text, (3, 4))).work), "nothing", "{text}");
    }
}

fn conditions(status: &Status) -> String {
    let each = status.conditions.iter().map(|condition| {
        let since = condition.last_transition_time.as_deref().unwrap_or_default();
        let new = if since == rkube_machinery::time::format_seconds(NOW) { "!" } else { "" };
        format!("{}={}:{}{new}", condition.kind, condition.status, condition.reason)
    });
    each.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_rollout_is_told_step_by_step() {
    let with = |reason: &str, updated: i64, counts: Value| {
        let mut deployment = deployment(3, &json!({}));
        let mut status = counts;
        status["conditions"] = json!([condition("Progressing", "True", reason, updated)]);
        deployment.status = serde_json::from_value(status).unwrap();
        deployment
    };
    let none = || json!({});
    let all = || json!({ "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3 });
    let early = NOW - 100;
    // The Deployment, its sets, and the conditions that it gets.
    let table = [
        (
            with("NewReplicaSetCreated", early, none()),
            "new:3/0",
            "Available=False:MinimumReplicasUnavailable! Progressing=True:ReplicaSetUpdated",
        ),
        (
            with("NewReplicaSetCreated", early, none()),
            "new:3/3",
            "Available=True:MinimumReplicasAvailable! Progressing=True:NewReplicaSetAvailable",
        ),
        (
            with("ReplicaSetUpdated", early, all()),
            "new:3/0",
            "Progressing=True:ReplicaSetUpdated Available=False:MinimumReplicasUnavailable!",
        ),
        (
            with("ReplicaSetUpdated", NOW - 601, all()),
            "new:3/0",
            "Available=False:MinimumReplicasUnavailable! Progressing=False:ProgressDeadlineExceeded!",
        ),
        (
            with("ReplicaSetUpdated", NOW - 600, all()),
            "new:3/0",
            "Progressing=True:ReplicaSetUpdated Available=False:MinimumReplicasUnavailable!",
        ),
        (
            with("NewReplicaSetAvailable", NOW - 9999, all()),
            "new:3/0",
            "Progressing=True:NewReplicaSetAvailable Available=False:MinimumReplicasUnavailable!",
        ),
    ];
    for (deployment, text, expected) in table {
        let sets = sets(&deployment, text, (3, 4));
        let status = status::status(&deployment, &deployment.status, &sets, Progress::Estimated, NOW);
        assert_eq!(conditions(&status), expected, "{text}");
    }
}

#[test]
fn counts_are_sums_over_sets() {
    let deployment = deployment(10, &json!({}));
    let sets = sets(&deployment, "a:8/7 new:5/2", (10, 13));
    let status = status::status(&deployment, &deployment.status, &sets, Progress::NotEstimated, NOW);
    let value = serde_json::to_value(&status).unwrap();
    let expected = json!({
        "observedGeneration": 2, "replicas": 13, "updatedReplicas": 5, "readyReplicas": 9, "availableReplicas": 9,
        "unavailableReplicas": 4, "terminatingReplicas": 0,
    });
    for (field, number) in expected.as_object().unwrap() {
        assert_eq!(&value[field], number, "{field}");
    }
}

#[test]
fn a_pause_and_its_end_are_told() {
    let noted = |paused: bool, reason: &str| {
        let mut deployment = deployment(3, &json!({ "paused": paused }));
        deployment.status.conditions[0].reason = reason.to_owned();
        conditions(&planned(&deployment, &sets(&deployment, "new:3/3", (3, 4))).status)
    };
    assert_eq!(noted(true, "ReplicaSetUpdated"), "Progressing=Unknown:DeploymentPaused!");
    assert_eq!(noted(true, "ProgressDeadlineExceeded"), "Progressing=True:ProgressDeadlineExceeded");
    assert_eq!(noted(false, "DeploymentPaused"), "Progressing=Unknown:DeploymentResumed!");
    assert_eq!(noted(false, "ReplicaSetUpdated"), "Progressing=True:ReplicaSetUpdated");
}

#[test]
fn a_rollout_that_stands_still_is_looked_at_when_its_time_is_up() {
    let mut deployment = deployment(3, &json!({}));
    let status = deployment.status.clone();
    let seconds = |deployment: &Deployment| status::check_in(deployment, &status, NOW).map(|delay| delay.as_secs());
    assert_eq!(seconds(&deployment), Some(596));
    for reason in ["ProgressDeadlineExceeded", "NewReplicaSetAvailable"] {
        deployment.status.conditions[0].reason = reason.to_owned();
        assert_eq!(seconds(&deployment), None, "{reason}");
    }
}
