//! `kubectl delete` with all its ways to treat dependents, and a namespace with all kinds of things in it.

use std::collections::BTreeSet;

use rkube_testkit::{Rkube, Tool, eventually};

use crate::{examples, start};

/// So many kinds are in the namespace that goes.
const KINDS_MIN: usize = 50;
/// So many of them are custom.
const CUSTOM_KINDS: usize = 15;

fn own(kubectl: &Tool, name: &str, owner: &str) {
    let uid = kubectl.run(&["get", "configmap", owner, "-o", "jsonpath={.metadata.uid}"]).stdout;
    let references = format!(
        r#"[{{"apiVersion":"v1","kind":"ConfigMap","name":"{owner}","uid":"{uid}","blockOwnerDeletion":true}}]"#
    );
    let object = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","ownerReferences":{references}}}}}"#
    );
    kubectl.run_with_input(&["create", "-f", "-"], &object);
}

#[test]
fn dependents_go_or_stay_as_kubectl_says() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let names = || {
        let list = kubectl.run(&["get", "configmaps", "-o", "jsonpath={.items[*].metadata.name}"]).stdout;
        list.split_whitespace().filter(|name| *name != "kube-root-ca.crt").map(str::to_owned).collect::<Vec<_>>()
    };
    for (cascade, left) in [("background", vec![]), ("foreground", vec![]), ("orphan", vec!["grand", "kid"])] {
        kubectl.run(&["create", "configmap", "top"]);
        own(&kubectl, "kid", "top");
        own(&kubectl, "grand", "kid");
        kubectl.run(&["delete", "configmap", "top", &format!("--cascade={cascade}"), "--timeout=30s"]);
        if cascade == "foreground" {
            assert_eq!(names(), left, "kubectl waits for the owner, and the owner for its dependents");
        }
        eventually("dependents are treated so", || {
            if names() == left { Ok(()) } else { Err(format!("{cascade}: {:?}", names())) }
        });
    }
    let owners = kubectl.run(&["get", "configmap", "kid", "-o", "jsonpath={.metadata.ownerReferences}"]).stdout;
    assert_eq!(owners, "");
}

/// Defines custom kinds; returns an object of each.
fn custom_objects(kubectl: &Tool) -> impl Iterator<Item = String> {
    let definition = |number: usize| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
             metadata: {{name: things{number}.example.com}}\n\
             spec:\n  group: example.com\n  scope: Namespaced\n\
             \x20 names: {{plural: things{number}, kind: Thing{number}}}\n\
             \x20 versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}]\n"
        )
    };
    let definitions: Vec<String> = (0..CUSTOM_KINDS).map(definition).collect();
    kubectl.run_with_input(&["create", "-f", "-"], &definitions.join("---\n"));
    kubectl.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    (0..CUSTOM_KINDS).map(|number| {
        format!("apiVersion: example.com/v1\nkind: Thing{number}\nmetadata: {{name: one, namespace: crowded}}\n")
    })
}

#[test]
fn a_namespace_goes_with_all_that_is_in_it() {
    let binary = env!("CARGO_BIN_EXE_rkube");
    let rkube = Rkube::start_with(binary, &["--store=memory", "--runtime-config=api/all=true"]);
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "namespace", "crowded"]);
    let all = examples::manifests();
    // What nobody would end: pods on nodes, and objects that are held by others, or by a controller that is not there yet.
    let stays =
        |document: &&str| ["nodeName", "finalizers", "\nkind: PodGroup\n"].iter().any(|words| document.contains(words));
    let documents: Vec<String> = all
        .split("\n---\n")
        .filter(|document| document.contains("namespace: default") && !stays(document))
        .map(|document| document.replace("namespace: default", "namespace: crowded"))
        .collect();
    let documents: Vec<String> = documents.into_iter().chain(custom_objects(&kubectl)).collect();
    let kind = |document: &String| document.lines().find_map(|line| line.strip_prefix("kind: ").map(str::to_owned));
    let kinds: BTreeSet<String> = documents.iter().filter_map(kind).collect();
    assert!(kinds.len() >= KINDS_MIN, "{kinds:?}");
    kubectl.run_with_input(&["apply", "--server-side", "-f", "-"], &documents.join("\n---\n"));
    kubectl.run(&["delete", "namespace", "crowded", "--timeout=50s"]);
    // A new one of the name has nothing of the old one's.
    kubectl.run(&["create", "namespace", "crowded"]);
    let left = kubectl.run(&["get", "pods,services,deployments,leases,roles,jobs", "-n", "crowded", "-o", "name"]);
    assert_eq!(left.stdout, "");
}
