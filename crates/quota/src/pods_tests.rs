//! Pods as quotas see them.

use rkube_machinery::object;

use super::*;
use crate::amounts::to_text;

fn resources(requests: Value, limits: Value) -> Value {
    object! { "requests": requests, "limits": limits }
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    object! { "name": name, "resources": resources(requests, limits) }
}

fn sidecar(name: &str, requests: Value) -> Value {
    let mut sidecar = container(name, requests, Value::Null);
    sidecar.set("restartPolicy", "Always");
    sidecar
}

fn cpu(amount: &str) -> Value {
    object! { "cpu": amount }
}

/// What it takes beside being a pod.
fn usage(pod: &Value) -> String {
    let mut usage = measure(pod).usage;
    assert_eq!((usage.remove(COUNT_PODS), usage.remove("pods")), (Some(count(1)), Some(count(1))));
    to_text(&usage)
}

#[test]
fn pods_take_what_they_ask_for_as_a_whole() {
    let both = object! { "cpu": "1", "memory": "1Gi", "ephemeral-storage": "1G" };
    let special = object! { "hugepages-2Mi": "4Mi", "example.com/gpu": "2", "x.kubernetes.io/y": "1" };
    let device = object! { "deviceclass.resource.kubernetes.io/gpu": "3" };
    let none = || Value::Null;
    let of = |containers: Vec<Value>| object! { "containers": containers };
    let starting =
        |first: Vec<Value>| object! { "containers": vec![container("c", cpu("2"), none())], "initContainers": first };
    let mut with_overhead =
        of(vec![container("c", cpu("1"), cpu("2")), container("d", none(), object! { "memory": "0" })]);
    with_overhead.set("overhead", object! { "cpu": "100m", "memory": "1Mi" });
    let mut whole = of(vec![container("c", cpu("1"), none())]);
    whole.set("resources", resources(object! { "cpu": "3", "hugepages-1Gi": "1Gi" }, cpu("4")));
    let table = [
        (of(vec![container("c", none(), none())]), ""),
        (
            of(vec![container("c", both.clone(), both.clone())]),
            "cpu=1,ephemeral-storage=1G,limits.cpu=1,limits.ephemeral-storage=1G,limits.memory=1Gi,memory=1Gi,\
             requests.cpu=1,requests.ephemeral-storage=1G,requests.memory=1Gi",
        ),
        (of(vec![container("c", cpu("300m"), none()), container("d", cpu("700m"), none())]), "cpu=1,requests.cpu=1"),
        (
            of(vec![container("c", special.clone(), special)]),
            "hugepages-2Mi=4Mi,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi",
        ),
        (of(vec![container("c", device, none())]), "requests.deviceclass.resource.kubernetes.io/gpu=3"),
        // The start takes more than what follows, or not.
        (starting(vec![container("i", cpu("3"), none()), container("j", cpu("1"), none())]), "cpu=3,requests.cpu=3"),
        (starting(vec![container("i", cpu("1"), none())]), "cpu=2,requests.cpu=2"),
        // Sidecars stay; those that come later are not there yet.
        (starting(vec![sidecar("s", cpu("1"))]), "cpu=3,requests.cpu=3"),
        (starting(vec![sidecar("s", cpu("1")), container("i", cpu("3"), none())]), "cpu=4,requests.cpu=4"),
        (starting(vec![container("i", cpu("3"), none()), sidecar("s", cpu("1"))]), "cpu=3,requests.cpu=3"),
        (with_overhead, "cpu=1100m,limits.cpu=2100m,limits.memory=0,memory=1Mi,requests.cpu=1100m,requests.memory=1Mi"),
        (whole, "cpu=3,hugepages-1Gi=1Gi,limits.cpu=4,requests.cpu=3,requests.hugepages-1Gi=1Gi"),
    ];
    for (spec, expected) in table {
        assert_eq!(usage(&object! { "spec": spec.clone() }), expected, "{spec:?}");
    }
}

#[test]
fn a_resize_takes_the_most_of_what_is_asked_for_and_had() {
    let status = |actual: &str, allocated: &str, reason: &str| {
        let container = object! {
            "name": "c", "resources": resources(cpu(actual), cpu(actual)), "allocatedResources": cpu(allocated),
        };
        let condition = object! { "type": "PodResizePending", "reason": reason };
        object! { "containerStatuses": vec![container], "conditions": vec![condition] }
    };
    let table = [
        (status("1", "1", "Deferred"), "cpu=2,limits.cpu=2,requests.cpu=2"),
        (status("3", "1", "Deferred"), "cpu=3,limits.cpu=3,requests.cpu=3"),
        (status("1", "4", "Deferred"), "cpu=4,limits.cpu=2,requests.cpu=4"),
        // It will not come to that.
        (status("1", "1", "Infeasible"), "cpu=1,limits.cpu=1,requests.cpu=1"),
        (status("1", "3", "Infeasible"), "cpu=3,limits.cpu=1,requests.cpu=3"),
    ];
    for (status, expected) in table {
        let spec = object! { "containers": vec![container("c", cpu("2"), cpu("2"))] };
        assert_eq!(usage(&object! { "spec": spec, "status": status.clone() }), expected, "{status:?}");
    }
}

#[test]
fn pods_that_ended_are_only_there() {
    let spec = || object! { "containers": vec![container("c", cpu("1"), Value::Null)] };
    for phase in ["Failed", "Succeeded"] {
        let pod = object! { "spec": spec(), "status": object! { "phase": phase } };
        assert_eq!(to_text(&measure(&pod).usage_at(0)), "count/pods=1");
    }
    let deleted = object! { "deletionTimestamp": "1970-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30 };
    let pod = object! { "metadata": deleted, "spec": spec() };
    assert_eq!(to_text(&measure(&pod).usage_at(70_000_000)), "count/pods=1,cpu=1,pods=1,requests.cpu=1");
    assert_eq!(to_text(&measure(&pod).usage_at(70_000_001)), "count/pods=1");
}

#[test]
fn containers_say_what_they_say() {
    let says = |pod: &Value| -> Vec<(String, [bool; 4])> {
        let flags = |one: &Container| [one.requests_cpu, one.requests_memory, one.limits_cpu, one.limits_memory];
        containers(pod).iter().map(|one| (one.name.to_string(), flags(one))).collect()
    };
    let mut spec = object! {
        "containers": vec![container("c", cpu("1"), object! { "memory": "0" })],
        "initContainers": vec![container("i", Value::Null, Value::Null)],
    };
    let expected = [("c".to_owned(), [true, false, false, true]), ("i".to_owned(), [false; 4])];
    assert_eq!(says(&object! { "spec": spec.clone() }), expected);
    spec.set("resources", resources(cpu("1"), Value::Null));
    assert_eq!(says(&object! { "spec": spec }), []);
}

#[test]
fn pods_are_in_scopes() {
    let term = object! { "namespaces": vec![Value::from("other")] };
    let selecting = object! { "namespaceSelector": object! {}, "topologyKey": "k" };
    let affinity = |kind: &str, field: &str, term: Value| {
        let mut terms = object! {};
        terms.set(field, vec![term]);
        let mut affinity = object! {};
        affinity.set(kind, terms);
        object! { "affinity": affinity }
    };
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let with = |resources: Value| object! { "containers": vec![object! { "name": "c", "resources": resources }] };
    let whole = |requests: Value| {
        let mut spec = with(resources(cpu("1"), Value::Null));
        spec.set("resources", resources(requests, Value::Null));
        spec
    };
    // Terminating, best effort, cross-namespace.
    let table = [
        (object! {}, (false, true, false)),
        (object! { "activeDeadlineSeconds": 0 }, (true, true, false)),
        (with(resources(cpu("0"), Value::Null)), (false, true, false)),
        (with(resources(Value::Null, object! { "memory": "1" })), (false, false, false)),
        (with(resources(object! { "ephemeral-storage": "1" }, Value::Null)), (false, true, false)),
        (whole(cpu("1")), (false, false, false)),
        (whole(object! { "hugepages-1Gi": "1Gi" }), (false, true, false)),
        (affinity("podAffinity", required, term.clone()), (false, true, true)),
        (affinity("podAntiAffinity", required, selecting.clone()), (false, true, true)),
        (affinity("podAntiAffinity", preferred, object! { "podAffinityTerm": selecting }), (false, true, true)),
        (affinity("podAffinity", required, object! { "topologyKey": "k" }), (false, true, false)),
    ];
    for (spec, expected) in table {
        let Scopes::Pod { terminating, best_effort, cross_namespace, .. } = scopes(&object! { "spec": spec.clone() })
        else {
            panic!("a pod has scopes")
        };
        assert_eq!((terminating, best_effort, cross_namespace), expected, "{spec:?}");
    }
    let known = object! { "spec": object! {}, "status": object! { "qosClass": "Burstable" } };
    assert!(!is_best_effort(&known));
}
