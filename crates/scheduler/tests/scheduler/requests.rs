//! What pods take of a node.

use rkube_scheduler::view::Pod;
use serde_json::{Value, json};

use crate::support::{item, pod_json};

fn container(name: &str, cpu: &str) -> Value {
    json!({ "name": name, "image": "i", "resources": { "requests": { "cpu": cpu } } })
}

fn sidecar(name: &str, cpu: &str) -> Value {
    let mut sidecar = container(name, cpu);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

fn of(json: &Value) -> Pod {
    Pod::of(&item(json, 1)).unwrap()
}

#[test]
fn requests_are_the_sum_or_what_initialisation_takes() {
    let table = [
        (json!({ "containers": [container("a", "1"), container("b", "250m")] }), 1250),
        (json!({ "containers": [container("a", "1")], "initContainers": [container("i", "3")] }), 3000),
        (json!({ "containers": [container("a", "1")], "initContainers": [sidecar("s", "2")] }), 3000),
        // While the second one initialises, the sidecar runs beside it.
        (
            json!({ "containers": [container("a", "1")], "initContainers": [sidecar("s", "2"), container("i", "3")] }),
            5000,
        ),
        (
            json!({ "containers": [container("a", "1")], "initContainers": [container("i", "2"), sidecar("s", "2")] }),
            3000,
        ),
        (json!({ "containers": [container("a", "1")], "overhead": { "cpu": "100m" } }), 1100),
        (
            json!({ "containers": [container("a", "1")], "resources": { "requests": { "cpu": "7" } }, "overhead": { "cpu": "1" } }),
            8000,
        ),
        (json!({ "containers": [container("a", "1.5m")] }), 2),
    ];
    for (spec, cpu) in table {
        assert_eq!(of(&pod_json("p", spec.clone())).requests.cpu_milli, Some(cpu), "{spec}");
    }
}

#[test]
fn what_is_not_said_counts_where_nodes_are_compared() {
    let pod = of(&pod_json("p", json!({ "containers": [container("a", "1"), { "name": "b", "image": "i" }] })));
    assert_eq!((pod.requests.cpu_milli, pod.requests.memory), (Some(1000), None));
    assert_eq!((pod.nominal_cpu_milli, pod.nominal_memory), (1100, 400 << 20));
}

#[test]
fn a_container_that_is_resized_takes_the_most_of_what_it_had_and_wants() {
    let mut pod = pod_json("p", json!({ "nodeName": "n", "containers": [container("a", "1")] }));
    pod["status"]["containerStatuses"] = json!([{
        "name": "a", "resources": { "requests": { "cpu": "3" } }, "allocatedResources": { "cpu": "2" },
    }]);
    assert_eq!(of(&pod).requests.cpu_milli, Some(3000));
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("9");
    assert_eq!(of(&pod).requests.cpu_milli, Some(9000));
    pod["status"]["conditions"] = json!([{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }]);
    assert_eq!(of(&pod).requests.cpu_milli, Some(3000), "what cannot be is not wanted");
}

#[test]
fn a_pod_that_has_ended_takes_nothing() {
    for phase in ["Succeeded", "Failed"] {
        let mut pod = pod_json("p", json!({ "nodeName": "n" }));
        pod["status"]["phase"] = json!(phase);
        assert!(Pod::of(&item(&pod, 1)).is_none());
    }
}

#[test]
fn absurd_amounts_do_no_harm() {
    let pod =
        of(&pod_json("p", json!({ "containers": [container("a", "9E"), container("b", "9E"), container("c", "-1")] })));
    assert!(pod.requests.cpu_milli.is_some_and(|cpu| cpu > 1 << 50));
}
