//! An operator in Python, with finalizers and annotations of its framework.

use rkube_testkit::{TIMEOUT, eventually, tools::client_files};
use rustix::process::Signal;

use crate::start;

#[test]
fn an_operator_reacts_to_changes() {
    let rkube = start();
    let (Some(kopf), Some(kubectl)) = (rkube.python_module("kopf"), rkube.kubectl()) else { return };
    let script = client_files().join("python/kopf_handler.py").display().to_string();
    let _operator = kopf.start(&["run", "--standalone", "--namespace=default", "--quiet", &script]);
    kubectl.run(&["create", "configmap", "source", "--from-literal=word=quiet"]);
    kubectl.run(&["label", "configmap", "source", "kopf=source"]);
    let copied = |expected: &str| {
        eventually("the copy", || {
            let found = kubectl.attempt(&["get", "configmap", "source-upper", "-o", "jsonpath={.data.word}"]);
            if found.stdout == expected { Ok(()) } else { Err(format!("{}{}", found.stdout, found.stderr)) }
        });
    };
    copied("QUIET");
    kubectl.run(&["patch", "configmap", "source", "-p", r#"{"data":{"word":"louder"}}"#]);
    copied("LOUDER");
    kubectl.run(&["delete", "configmap", "source", "--timeout=30s"]);
    kubectl.attempt(&["get", "configmap", "source-upper"]).expect_failure();
}

#[test]
fn an_operator_keeps_a_custom_resource() {
    let rkube = start();
    let (Some(kopf), Some(kubectl)) = (rkube.python_module("kopf"), rkube.kubectl()) else { return };
    crate::custom_resources::define(&kubectl);
    let script = client_files().join("python/kopf_websites.py").display().to_string();
    let _operator = kopf.start(&["run", "--standalone", "--namespace=default", "--quiet", &script]);
    let site = "apiVersion: example.com/v1\nkind: Website\nmetadata: {name: blog}\nspec: {domain: blog.example.com}\n";
    kubectl.run_with_input(&["create", "-f", "-"], site);
    kubectl.run(&["wait", "--for=condition=Ready", "website/blog", "--timeout=30s"]);
    let page =
        kubectl.run(&["get", "configmap", "blog-page", "-o", "jsonpath={.data}{.metadata.ownerReferences[0].kind}"]);
    assert_eq!(page.stdout, r#"{"domain":"blog.example.com","image":"nginx"}Website"#);
    kubectl.run(&["scale", "website", "blog", "--replicas=4"]);
    kubectl.run(&["wait", "--for=jsonpath={.status.replicas}=4", "website/blog", "--timeout=30s"]);
    let finalizers = kubectl.run(&["get", "website", "blog", "-o", "jsonpath={.metadata.finalizers}"]).stdout;
    assert_eq!(finalizers, r#"["example.com/kopf"]"#);
    kubectl.run(&["delete", "website", "blog", "--timeout=30s"]);
    kubectl.attempt(&["get", "configmap", "blog-page"]).expect_failure();
}

#[test]
fn an_operator_stands_back_for_its_peer() {
    let rkube = start();
    let (Some(kopf), Some(kubectl)) = (rkube.python_module("kopf"), rkube.kubectl()) else { return };
    let files = client_files().join("python");
    kubectl.run(&["apply", "-f", &files.join("kopf_peering.yaml").display().to_string()]);
    kubectl.run(&["wait", "--for=condition=Established", "crd/kopfpeerings.kopf.dev"]);
    kubectl
        .run_with_input(&["create", "-f", "-"], "apiVersion: kopf.dev/v1\nkind: KopfPeering\nmetadata: {name: team}\n");
    let script = files.join("kopf_peers.py").display().to_string();
    let operator = |priority: &str| {
        let priority = format!("--priority={priority}");
        kopf.start(&["run", "--namespace=default", "--peering=team", &priority, "--quiet", &script])
    };
    let peers = |expected: usize| {
        eventually("the peers", || {
            let status = kubectl.run(&["get", "kopfpeering", "team", "-o", "jsonpath={.status}"]).stdout;
            if status.matches("lastseen").count() == expected { Ok(()) } else { Err(status) }
        });
    };
    let signed = |name: &str, expected: &str| {
        kubectl.run_with_input(
            &["create", "-f", "-"],
            &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{kopf: peers}}}}\n"),
        );
        eventually("the signature", || {
            let found = kubectl.run(&["get", "configmap", name, "-o", "jsonpath={.metadata.labels.signed-by}"]);
            if found.stdout == expected { Ok(()) } else { Err(found.stdout) }
        });
        let finalizers = kubectl.run(&["get", "configmap", name, "-o", "jsonpath={.metadata.finalizers}"]).stdout;
        assert_eq!(finalizers, r#"["kopf.zalando.org/KopfFinalizerMarker"]"#);
    };
    let mut low = operator("1");
    peers(1);
    signed("before", "1");
    let mut high = operator("10");
    peers(2);
    // The first may still finish what it had begun when the second came.
    kubectl.run(&["delete", "configmap", "before", "--timeout=30s"]);
    signed("while", "10");
    high.signal(Signal::TERM);
    assert!(high.wait(TIMEOUT).is_some(), "the operator does not end");
    peers(1);
    signed("after", "1");
    low.signal(Signal::TERM);
    assert!(low.wait(TIMEOUT).is_some(), "the operator does not end");
    peers(0);
}
