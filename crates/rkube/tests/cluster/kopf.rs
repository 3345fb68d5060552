//! An operator in Python, with finalizers and annotations of its framework.

use rkube_testkit::{eventually, tools::client_files};

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
