//! What quotas say to writes, as tables.

use std::sync::Arc;

use rkube_access::User;
use rkube_catalog::{Object, Snapshot};
use rkube_machinery::object;

use super::*;
use crate::Operation;
use crate::attributes::tests::creation;

fn quota(name: &str, spec: Value, hard: Value, used: Value) -> Running {
    let catalog = Snapshot::unfed(rkube_kinds::all());
    let served = catalog.find("", "v1", "resourcequotas").unwrap();
    let mut quota = object! { "metadata": object! { "name": name, "namespace": "default" }, "spec": spec };
    let mut status = object! {};
    for (field, amounts) in [("hard", hard), ("used", used)] {
        if !amounts.is_null() {
            status.set(field, amounts);
        }
    }
    quota.set("status", status);
    let entry = Entry::new(Arc::new(Object::new(&quota, &served.kind)), 1);
    Running::new(entry, &Known::default())
}

fn plain(hard: Value, used: Value) -> Running {
    quota("q", object! {}, hard, used)
}

fn scoped(scope: &str, hard: Value, used: Value) -> Running {
    quota("q", object! { "scopes": vec![Value::from(scope)] }, hard, used)
}

fn demand(resource: &str, old: Option<&Value>, new: &Value) -> Demand {
    demand_at("", resource, "", old, new)
}

fn demand_at(group: &str, resource: &str, subresource: &str, old: Option<&Value>, new: &Value) -> Demand {
    let catalog = Snapshot::unfed(rkube_kinds::all());
    let (served, user) = (catalog.find(group, "v1", resource).unwrap(), User::default());
    let mut attributes = creation(served, &user);
    attributes.old = old;
    attributes.subresource = subresource;
    if old.is_some() {
        attributes.operation = Operation::Update;
    }
    Demand::new(Evaluator::of(group, resource).unwrap(), &attributes, new, 0)
}

/// What is used then, or why not.
fn outcome(demand: &Demand, quotas: &[Running]) -> String {
    match demand.check(quotas) {
        Err(why) => why,
        Ok(charges) => {
            let text = |(place, sums): (usize, Sums)| {
                let Running { entry, quota, .. } = &quotas[place];
                let mut running = Running { entry: entry.clone(), quota: quota.clone(), charged: None };
                running.charge(sums);
                format!("{place}: {}", amounts::to_text(running.used().unwrap()))
            };
            charges.into_iter().map(text).collect::<Vec<_>>().join("; ")
        }
    }
}

fn pod(requests: Value, limits: Value) -> Value {
    let resources = object! { "requests": requests, "limits": limits };
    let container = object! { "name": "c", "resources": resources };
    object! { "metadata": object! { "name": "p" }, "spec": object! { "containers": vec![container] } }
}

#[test]
fn pods_are_charged_or_refused() {
    let bare = || pod(Value::Null, Value::Null);
    let asking = || pod(object! { "cpu": "500m", "memory": "1Gi" }, object! { "cpu": "1" });
    let mut two = asking();
    two.get_mut("spec").set("initContainers", vec![object! { "name": "b" }, object! { "name": "a" }]);
    let pods = |used: &str| plain(object! { "pods": "2" }, object! { "pods": used });
    let table = [
        (bare(), vec![pods("1")], "0: pods=2"),
        (bare(), vec![pods("2")], "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"),
        // Lowered below what is used.
        (bare(), vec![pods("5")], "exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=2"),
        (bare(), vec![], ""),
        // Nothing of its status is known, or not all that matters.
        (bare(), vec![plain(Value::Null, Value::Null)], ""),
        (
            bare(),
            vec![plain(object! { "pods": "2", "count/pods": "9", "services": "1" }, object! { "pods": "1" })],
            "status unknown for quota: q, resources: count/pods,pods",
        ),
        (bare(), vec![plain(object! { "pods": "2", "services": "1" }, object! { "pods": "1" })], "0: pods=2"),
        // Of another kind, or of none.
        (bare(), vec![plain(object! { "services": "0", "x.example.com/y": "0" }, object! {})], ""),
        (
            asking(),
            vec![plain(object! { "cpu": "1", "limits.cpu": "2" }, object! { "cpu": "250m", "limits.cpu": "1" })],
            "0: cpu=750m,limits.cpu=2",
        ),
        (
            asking(),
            vec![plain(
                object! { "cpu": "1", "memory": "1Gi", "pods": "9" },
                object! { "cpu": "600m", "memory": "1Mi", "pods": "1" },
            )],
            "exceeded quota: q, requested: cpu=500m,memory=1Gi, used: cpu=600m,memory=1Mi, limited: cpu=1,memory=1Gi",
        ),
        (
            two,
            vec![plain(
                object! { "requests.cpu": "1", "limits.memory": "1Gi", "ephemeral-storage": "1" },
                object! { "requests.cpu": "0", "limits.memory": "0", "ephemeral-storage": "0" },
            )],
            "failed quota: q: must specify limits.memory for: a,b,c; requests.cpu for: a,b",
        ),
        (bare(), vec![scoped("BestEffort", object! { "pods": "1" }, object! { "pods": "0" })], "0: pods=1"),
        (bare(), vec![scoped("NotBestEffort", object! { "pods": "0" }, object! { "pods": "0" })], ""),
        (bare(), vec![scoped("Terminating", object! { "pods": "0" }, object! { "pods": "0" })], ""),
        // The first that refuses is named; all are charged, if none does.
        (bare(), vec![pods("1"), pods("0")], "0: pods=2; 1: pods=1"),
        (bare(), vec![pods("1"), pods("2")], "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"),
    ];
    for (pod, quotas, expected) in table {
        assert_eq!(outcome(&demand("pods", None, &pod), &quotas), expected, "{pod:?}");
    }
}

#[test]
fn updates_are_charged_what_they_add() {
    let service = |kind: &str, ports: usize| {
        let ports: Vec<Value> = (0..ports).map(|port| object! { "port": port as i64 }).collect();
        object! { "spec": object! { "type": kind, "ports": ports } }
    };
    let hard = || object! { "services": "1", "services.nodeports": "3" };
    let quota = |ports: &str| plain(hard(), object! { "services": "1", "services.nodeports": ports });
    let table = [
        (service("ClusterIP", 1), service("ClusterIP", 2), "0", ""),
        (service("ClusterIP", 2), service("NodePort", 2), "0", "0: services=1,services.nodeports=2"),
        (service("NodePort", 1), service("NodePort", 3), "1", "0: services=1,services.nodeports=3"),
        (service("NodePort", 3), service("NodePort", 1), "3", ""),
        (
            service("NodePort", 1),
            service("NodePort", 2),
            "3",
            "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=3, limited: services.nodeports=3",
        ),
    ];
    for (old, new, used, expected) in table {
        assert_eq!(outcome(&demand("services", Some(&old), &new), &[quota(used)]), expected);
    }
}

#[test]
fn what_comes_into_a_scope_counts_as_a_whole() {
    let mut ending = pod(Value::Null, Value::Null);
    ending.get_mut("spec").set("activeDeadlineSeconds", 5);
    let before = pod(Value::Null, Value::Null);
    let pods = |scope: &str| scoped(scope, object! { "pods": "1" }, object! { "pods": "0" });
    let change = demand("pods", Some(&before), &ending);
    assert_eq!(outcome(&change, &[pods("Terminating"), pods("NotTerminating"), pods("BestEffort")]), "0: pods=1");
}

#[test]
fn a_resize_is_charged_and_a_report_is_never_refused() {
    let asking = |cpu: &str| pod(object! { "cpu": cpu }, Value::Null);
    let cpu = || [plain(object! { "cpu": "1" }, object! { "cpu": "800m" })];
    let resize = |to: &str| outcome(&demand_at("", "pods", "resize", Some(&asking("800m")), &asking(to)), &cpu());
    assert_eq!(resize("1"), "0: cpu=1");
    assert_eq!(resize("1001m"), "exceeded quota: q, requested: cpu=201m, used: cpu=800m, limited: cpu=1");
    assert_eq!(resize("100m"), "");
    let claim = |allocated: &str| {
        let resources = object! { "requests": object! { "storage": "1Gi" } };
        let status = object! { "allocatedResources": object! { "storage": allocated } };
        object! { "spec": object! { "resources": resources }, "status": status }
    };
    let storage = [plain(object! { "requests.storage": "1Gi" }, object! { "requests.storage": "1Gi" })];
    let (old, new) = (claim("1Gi"), claim("2Gi"));
    let at = |subresource| outcome(&demand_at("", "persistentvolumeclaims", subresource, Some(&old), &new), &storage);
    assert_eq!(at("status"), "0: requests.storage=2Gi");
    assert!(at("").starts_with("exceeded quota"));
}

#[test]
fn objects_of_every_kind_are_counted() {
    let counts = [plain(
        object! { "count/deployments.apps": "1", "configmaps": "1", "count/configmaps": "2" },
        object! { "count/deployments.apps": "1", "configmaps": "0", "count/configmaps": "0" },
    )];
    let deployment = demand_at("apps", "deployments", "", None, &object! {});
    assert_eq!(
        outcome(&deployment, &counts),
        "exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1"
    );
    let map = demand("configmaps", None, &object! {});
    assert_eq!(outcome(&map, &counts), "0: configmaps=1,count/configmaps=1,count/deployments.apps=1");
    // A scope is none of theirs.
    let scoped = [scoped("BestEffort", object! { "configmaps": "0" }, object! { "configmaps": "0" })];
    assert_eq!(outcome(&map, &scoped), "");
}
