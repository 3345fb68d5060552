//! The same binary over a real etcd.

use rkube_testkit::{Etcd, Rkube};

#[test]
fn objects_are_kept_in_etcd_as_kubernetes_lays_them_out() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("--store=etcd={}", etcd.url());
    let mut rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &[&store]);
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "kept", "--from-literal=a=1"]);
    kubectl.run(&["get", "ns"]).says("kube-system");

    let secret = format!("--join-secret-file={}", rkube.data_directory().join("join-secret").display());
    let another = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &[&store, &secret]);
    another.kubectl().unwrap().run(&["label", "configmap", "kept", "by=another"]);
    kubectl.run(&["get", "configmap", "kept", "-o", "jsonpath={.metadata.labels.by}"]).says("another");
    drop(another);

    rkube.kill9();
    rkube.restart();
    rkube.kubectl().unwrap().run(&["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]).says("1");
}
