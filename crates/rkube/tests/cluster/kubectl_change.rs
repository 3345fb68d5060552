//! Creating, patching, labelling and deleting with kubectl.

use crate::start;

#[test]
fn create_and_delete() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    assert_eq!(kubectl.run(&["create", "namespace", "team"]).stdout, "namespace/team created\n");
    kubectl.run(&["-n", "team", "create", "configmap", "a", "--from-literal=k=v"]).says("configmap/a created");
    kubectl.run(&["-n", "team", "create", "secret", "generic", "s", "--from-literal=p=w"]).says("secret/s created");
    let again = kubectl.attempt(&["-n", "team", "create", "configmap", "a"]).expect_failure();
    assert!(again.stderr.contains("configmaps \"a\" already exists"), "{}", again.stderr);
    let bad = kubectl.attempt(&["create", "configmap", "Not_A_Name"]).expect_failure();
    assert!(bad.stderr.contains("is invalid"), "{}", bad.stderr);
    let delete = ["-n", "team", "delete", "configmap", "a"];
    kubectl.run(&delete).says("configmap \"a\" deleted");
    kubectl.attempt(&delete).expect_failure();
    kubectl.run(&["-n", "team", "get", "secret", "s", "-o", "jsonpath={.data.p}"]).says("dw==");
    kubectl.run(&["-n", "team", "delete", "secret", "--all"]).says("secret \"s\" deleted");
}

#[test]
fn all_three_kinds_of_patch() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "c", "--from-literal=a=1"]);
    let patch = |kind: &str, patch: &str| {
        kubectl.run(&["patch", "configmap", "c", "--type", kind, "-p", patch]).says("configmap/c patched");
    };
    patch("merge", r#"{"data":{"b":"2"}}"#);
    patch("strategic", r#"{"data":{"c":"3"},"metadata":{"labels":{"x":"y"}}}"#);
    patch("json", r#"[{"op":"replace","path":"/data/a","value":"one"},{"op":"remove","path":"/data/b"}]"#);
    let data =
        kubectl.run(&["get", "configmap", "c", "-o", "jsonpath={.data.a} {.data.b} {.data.c} {.metadata.labels.x}"]);
    assert_eq!(data.stdout, "one  3 y");
    let nothing = kubectl.run(&["patch", "configmap", "c", "--type=merge", "-p", r#"{"data":{"c":"3"}}"#]);
    assert!(nothing.stdout.contains("(no change)"), "{}", nothing.stdout);
    let pod = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\
               \"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"i:1\"},{\"name\":\"b\",\"image\":\"i:1\"}]}}";
    kubectl.run_with_input(&["create", "-f", "-"], pod);
    kubectl.run(&["patch", "pod", "p", "-p", r#"{"spec":{"containers":[{"name":"b","image":"i:2"}]}}"#]);
    let images = kubectl.run(&["get", "pod", "p", "-o", "jsonpath={.spec.containers[*].image}"]);
    assert_eq!(images.stdout, "i:1 i:2", "containers merge by name");
}

#[test]
fn labels_and_annotations() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "c"]);
    kubectl.run(&["label", "configmap", "c", "tier=web"]).says("labeled");
    let taken = kubectl.attempt(&["label", "configmap", "c", "tier=db"]).expect_failure();
    assert!(taken.stderr.contains("already has a value"), "{}", taken.stderr);
    kubectl.run(&["label", "--overwrite", "configmap", "c", "tier=db"]);
    kubectl.run(&["annotate", "configmap", "c", "note=a b c"]).says("annotated");
    kubectl.run(&["get", "configmap", "-l", "tier in (db,web)", "-o", "name"]).says("configmap/c");
    kubectl.run(&["label", "configmap", "c", "tier-"]);
    let left =
        kubectl.run(&["get", "configmap", "c", "-o", "jsonpath={.metadata.labels}|{.metadata.annotations.note}"]);
    assert_eq!(left.stdout, "|a b c");
}

#[test]
fn edit_through_an_editor() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "c", "--from-literal=colour=red"]);
    let mut edit = kubectl.command(&["edit", "configmap", "c"]);
    edit.env("KUBE_EDITOR", "sed -i s/red/green/");
    rkube_testkit::Finished::run(&mut edit, "").expect_success().says("configmap/c edited");
    kubectl.run(&["get", "configmap", "c", "-o", "jsonpath={.data.colour}"]).says("green");
}
