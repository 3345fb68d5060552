//! What a client may send is large: it is checked like anything else. Work that grew with the square of the size would
//! make this take minutes; `cargo xtask bench` has the figures.

#![allow(clippy::unwrap_used)]

use rkube_kinds::find;
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
    let mut pod = decode(pod, kind.schema().unwrap()).unwrap().value;
    kind.rules.default(&mut pod);
    kind.rules.prepare_create(&mut pod);
    let errors = kind.validate_create(&pod);
    assert!(errors.is_empty(), "{:.500}", errors.summary());
    assert!(kind.rules.warnings(&pod, None).is_empty());
}
