//! What holds for objects of every kind, and for every pod.

use serde_json::{Value, json};

use super::{History, over};

#[test]
fn an_object_is_not_written_again_and_again() {
    let map = json!({ "metadata": { "uid": "m" } });
    let write =
        |history: History, times: u64| (0..times).fold(history, |history, _| history.put("configmaps/a/m", &map));
    write(write(History::new(), 239).after(60), 239).stays_silent();
    write(History::new(), 240).says(&["/registry/configmaps/a/m: is written 240 times a minute"]);
}

#[test]
fn nothing_is_written_when_nothing_happens() {
    let object = json!({ "metadata": { "uid": "m" } });
    History::new()
        .quiet()
        .put("leases/kube-node-lease/n", &object)
        .put("minions/n", &object)
        .gone("events/a/e")
        .stays_silent();
    History::new().quiet().put("configmaps/a/m", &object).put("events/a/e", &object).says(&[
        "/registry/configmaps/a/m: is written though nothing happens",
        "/registry/events/a/e: is written though nothing happens",
    ]);
}

#[test]
fn a_claim_that_waits_is_told_so_again_and_again() {
    let claim = |volume: &str| json!({ "metadata": { "uid": "c" }, "spec": { "volumeName": volume } });
    let about = json!({ "kind": "PersistentVolumeClaim", "namespace": "a", "name": "c", "uid": "c" });
    let event = |reason: &str, about: &Value| json!({ "reason": reason, "involvedObject": about });
    let waits = event("WaitForFirstConsumer", &about);
    let start = |volume: &str| History::new().put("persistentvolumeclaims/a/c", &claim(volume)).quiet();
    start("").put("events/a/e", &waits).after(300).put("events/a/e", &waits).stays_silent();

    let said = &["/registry/events/a/e: is written though nothing happens"];
    start("v").put("events/a/e", &waits).says(said);
    start("").put("events/a/e", &event("ProvisioningFailed", &about)).says(said);
    for (field, other) in [("kind", "Pod"), ("namespace", "b"), ("name", "d"), ("uid", "d")] {
        let mut other_about = about.clone();
        other_about[field] = json!(other);
        start("").put("events/a/e", &event("WaitForFirstConsumer", &other_about)).says(said);
    }
    let gone = History::new().put("persistentvolumeclaims/a/c", &claim("")).gone("persistentvolumeclaims/a/c");
    gone.quiet().put("events/a/e", &waits).says(said);
}

#[test]
fn a_pod_is_bound_once_and_over_once() {
    let pod = |uid: &str, node: &str| json!({ "metadata": { "uid": uid }, "spec": { "nodeName": node } });
    let start = || History::new().put("pods/a/p", &pod("1", "")).put("pods/a/p", &pod("1", "n"));
    start()
        .put("pods/a/p", &over(pod("1", "n"), "Failed"))
        .gone("pods/a/p")
        .put("pods/a/p", &pod("2", "m"))
        .stays_silent();
    start().put("pods/a/p", &pod("1", "m")).says(&["/registry/pods/a/p: was bound to n, and now to m"]);
    start().put("pods/a/p", &pod("1", "")).says(&["/registry/pods/a/p: was bound to n, and now to "]);
    start()
        .put("pods/a/p", &over(pod("1", "n"), "Failed"))
        .put("pods/a/p", &over(pod("1", "n"), "Running"))
        .says(&["/registry/pods/a/p: was Failed, and now is Running"]);
}
