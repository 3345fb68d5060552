//! What a client may send is large: it is checked like anything else. Work that grew with the square of the size would
//! make this take minutes; `cargo xtask bench` has the figures.

#![allow(clippy::unwrap_used)]

use rkube_kinds::find;
use rkube_kinds::kind::{Part, Requester};
use rkube_machinery::decode::decode;
use rkube_machinery::{Value, object};

const COUNT: usize = 20_000;

fn many(make: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..COUNT).map(make).collect())
}

#[test]
fn pods_with_many_parts() {
    let kind = find("", "v1", "pods").unwrap();
    let container = object! {
        "name": "a",
        "image": "b",
        "env": many(|number| object! { "name": format!("E{number}"), "value": "x" }),
        "volumeMounts": many(|number| object! { "name": format!("v{number}"), "mountPath": format!("/m{number}") }),
    };
    let volumes = many(|number| object! { "name": format!("v{number}"), "emptyDir": Value::object() });
    let spec = object! { "containers": vec![container], "volumes": volumes };
    let metadata = object! { "name": "large", "namespace": "default" };
    let pod = object! { "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec };
    let mut pod = decode(pod, kind.schema.table().unwrap()).unwrap().value;
    kind.rules.default(&mut pod);
    kind.rules.prepare_create(&mut pod);
    let errors = kind.validate_create(&pod);
    assert!(errors.is_empty(), "{:.500}", errors.summary());
    assert!(kind.rules.warnings(&pod, None).is_empty());
}

/// What is sent on what is there: each is as large as the other, and has every part of it.
#[test]
fn updates_with_many_parts() {
    let address = |number: usize| format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
    let subnet = |number: usize| format!("{}/32", address(number));
    let condition = |number: usize| object! { "type": format!("a.example/c{number}"), "status": "True" };
    let blocks = many(|number| object! { "ipBlock": object! { "cidr": subnet(number) } });
    let policy = object! { "podSelector": Value::object(), "ingress": vec![object! { "from": blocks }] };
    let service = object! {
        "type": "LoadBalancer",
        "clusterIP": "10.0.0.1",
        "clusterIPs": vec![Value::from("10.0.0.1")],
        "ports": vec![object! { "port": 1, "protocol": "TCP" }],
        "externalIPs": many(|number| address(number).into()),
        "loadBalancerSourceRanges": many(|number| subnet(number).into()),
    };
    let drivers = many(|number| object! { "name": format!("d{number}"), "nodeID": "a" });
    let table = [
        ("", "services", "spec", Part::Main, service),
        ("networking.k8s.io", "networkpolicies", "spec", Part::Main, policy),
        ("storage.k8s.io", "csinodes", "spec", Part::Main, object! { "drivers": drivers }),
        ("", "pods", "status", Part::Status, object! { "conditions": many(condition) }),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            "status",
            Part::Other("approval"),
            object! { "conditions": many(condition) },
        ),
    ];
    for (group, resource, field, part, value) in table {
        let kind = find(group, "v1", resource).unwrap();
        let metadata = object! { "name": "large", "namespace": "default", "resourceVersion": "1" };
        let mut object = object! { "metadata": metadata };
        object.set(field, value);
        let mut new = decode(object, kind.schema.table().unwrap()).unwrap().value;
        kind.rules.default(&mut new);
        let old = new.clone();
        kind.rules.prepare_update(part, &mut new, &old);
        let requester = Requester { user: &Value::object, now: 0, gave_no_labels: false };
        kind.rules.stamp(&mut new, Some((part, &old)), &requester);
        let mut errors = rkube_machinery::field::Errors::new();
        kind.rules.validate_update(part, &new, &old, &mut errors);
        assert!(errors.len() < 10, "{resource}: {:.500}", errors.summary());
    }
}

#[test]
fn jobs_with_many_exit_codes() {
    let kind = find("batch", "v1", "jobs").unwrap();
    let codes = object! { "operator": "In", "values": many(|number| Value::from(number as i64 + 1)) };
    let rules =
        many(|_| object! { "action": "FailJob", "onExitCodes": object! { "operator": "In", "containerName": "x" } });
    let containers = many(|number| object! { "name": format!("c{number}"), "image": "a" });
    for (rules, containers) in
        [(Value::Array(vec![object! { "action": "FailJob", "onExitCodes": codes }]), Value::Null), (rules, containers)]
    {
        let template = object! { "spec": object! { "containers": containers, "restartPolicy": "Never" } };
        let spec = object! { "template": template, "podFailurePolicy": object! { "rules": rules } };
        let mut job = object! { "metadata": object! { "name": "large", "namespace": "default" }, "spec": spec };
        kind.rules.default(&mut job);
        assert!(!kind.validate_create(&job).is_empty());
    }
}
