//! Several control planes on one etcd: one runs the controllers and the scheduler, and another takes over.

use rkube_testkit::{Etcd, Rkube, Tool, eventually};

/// Short, so that a test takes seconds.
const TIMES: [&str; 3] =
    ["--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=2500ms", "--leader-elect-retry-period=500ms"];

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    # Nobody says that the node is well.
    spec: {containers: [{name: web, image: web}], tolerations: [{operator: Exists}]}
"#;

const NODE: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"#;

fn start(etcd: &Etcd, first: Option<&Rkube>, more: &[&str]) -> Rkube {
    let store = format!("--store=etcd={}", etcd.url());
    let secret = first.map(|rkube| rkube.data_directory().join("join-secret"));
    let secret = secret.map(|path| format!("--join-secret-file={}", path.display()));
    let arguments: Vec<&str> =
        TIMES.iter().chain(more).copied().chain([store.as_str()]).chain(secret.as_deref()).collect();
    Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &arguments)
}

fn holder(kubectl: &Tool, lease: &str) -> String {
    let path = "jsonpath={.spec.holderIdentity}";
    kubectl.run(&["get", "lease", "-n", "kube-system", lease, "-o", path]).stdout
}

/// Waits until both leases are another's.
fn taken_over(kubectl: &Tool, from: &str) {
    eventually("another takes over", || {
        let holders = ["kube-controller-manager", "kube-scheduler"].map(|lease| holder(kubectl, lease));
        if holders.iter().any(|holder| holder == from || holder.is_empty()) { Err(holders.join(" ")) } else { Ok(()) }
    });
}

/// Waits until so many pods were made and have a node.
fn scheduled(kubectl: &Tool, count: usize) {
    eventually("pods are made and bound", || {
        let nodes = kubectl.run(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"]).stdout;
        if nodes.split_whitespace().count() == count { Ok(()) } else { Err(nodes) }
    });
}

#[test]
fn work_goes_on_when_the_leader_is_killed() {
    let Some(etcd) = Etcd::start() else { return };
    let mut first = start(&etcd, None, &[]);
    let Some(kubectl) = first.kubectl() else { return };
    let leader = holder(&kubectl, "kube-controller-manager");
    assert_eq!(holder(&kubectl, "kube-scheduler"), leader);
    let second = start(&etcd, Some(&first), &[]);
    kubectl.run_with_input(&["apply", "-f", "-"], NODE);
    kubectl.run_with_input(&["apply", "-f", "-"], DEPLOYMENT);
    scheduled(&kubectl, 2);
    assert_eq!(holder(&kubectl, "kube-controller-manager"), leader);

    first.kill9();
    let kubectl = second.kubectl().unwrap();
    kubectl.run(&["scale", "deployment", "web", "--replicas=5"]);
    taken_over(&kubectl, &leader);
    scheduled(&kubectl, 5);
    // A standby is well, and who comes back does not take the leases away.
    let now = holder(&kubectl, "kube-controller-manager");
    first.restart();
    kubectl.run(&["scale", "deployment", "web", "--replicas=6"]);
    scheduled(&kubectl, 6);
    assert_eq!(holder(&kubectl, "kube-controller-manager"), now);
    first.kubectl().unwrap().run(&["get", "--raw=/readyz"]).says("ok");
}

#[test]
fn a_leader_that_was_stopped_and_woken_again_writes_nothing() {
    let Some(etcd) = Etcd::start() else { return };
    let first = start(&etcd, None, &[]);
    let Some(kubectl) = first.kubectl() else { return };
    let leader = holder(&kubectl, "kube-controller-manager");
    // What this one leaves undone only the other could do.
    let mut second = start(&etcd, Some(&first), &["--controllers=*,-serviceaccount-controller"]);
    let kubectl = second.kubectl().unwrap();
    let accounts = |namespace: &str| kubectl.run(&["get", "serviceaccounts", "-n", namespace, "-o", "name"]).stdout;
    let map = |namespace: &str| {
        eventually("a namespace has its map", || {
            let maps = kubectl.run(&["get", "configmaps", "-n", namespace, "-o", "name"]).stdout;
            if maps.contains("kube-root-ca.crt") { Ok(()) } else { Err(maps) }
        });
    };
    first.pause();
    kubectl.run(&["create", "namespace", "undone"]);
    taken_over(&kubectl, &leader);
    map("undone");
    let other = holder(&kubectl, "kube-controller-manager");
    first.resume();
    // It answers, so that it has seen what was missed; and it has had the time to do something about it.
    let woken = first.kubectl().unwrap();
    woken.run(&["get", "namespace", "undone"]);
    kubectl.run(&["create", "namespace", "later"]);
    map("later");
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!((accounts("undone"), accounts("later")), (String::new(), String::new()));
    assert_eq!(holder(&kubectl, "kube-controller-manager"), other);
    assert!(first.stderr().contains("the lease is lost"), "{}", first.stderr());

    // It stands by, and does it once it leads again: at once, because the other ends in good order.
    second.terminate();
    eventually("what was undone is done", || {
        let made = woken.run(&["get", "serviceaccounts", "-n", "undone", "-o", "name"]).stdout;
        if made.contains("default") { Ok(()) } else { Err(made) }
    });
    assert_eq!(holder(&woken, "kube-controller-manager"), leader);
}
