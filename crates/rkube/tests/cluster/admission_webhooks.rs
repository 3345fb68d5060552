//! Webhooks in Python over TLS that change and refuse what kubectl writes.

use rkube_testkit::{Finished, Tool};

use crate::custom_resources::wait_established;
use crate::python_webhook::Webhook;
use crate::start;

const CONFIGURATIONS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutate}
webhooks:
- name: mutate.example.com
  clientConfig: {url: "https://127.0.0.1:PORT/mutate", caBundle: BUNDLE}
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps, pods]}
  - {operations: [CREATE, UPDATE], apiGroups: [example.com], apiVersions: [v1], resources: [gadgets]}
  namespaceSelector: {matchLabels: {hooked: "yes"}}
  sideEffects: None
  admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validate}
webhooks:
- name: validate.example.com
  clientConfig: {url: "https://127.0.0.1:PORT/validate", caBundle: BUNDLE}
  rules:
  - {operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}
  - {operations: [UPDATE], apiGroups: [apps, example.com], apiVersions: [v1], resources: [deployments/scale, gadgets/scale]}
  namespaceSelector: {matchLabels: {hooked: "yes"}}
  matchConditions:
  - {name: not-the-boss, expression: "!request.userInfo.groups.exists(group, group == 'bosses')"}
  - {name: named, expression: "request.operation == 'DELETE' || !object.metadata.name.startsWith('kube-')"}
  sideEffects: None
  admissionReviewVersions: [v1]
"#;

const GADGETS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget}
  versions:
  - &version
    name: v1
    served: true
    storage: false
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {replicas: {type: integer, default: 1}}}}
  - {<<: *version, name: v2, storage: true}
"#;

fn create(kubectl: &Tool, text: &str) -> Finished {
    Finished::run(&mut kubectl.command(&["create", "-n", "hooked", "-f", "-"]), text)
}

#[test]
fn writes_are_changed_and_refused() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let Some(webhook) = Webhook::start(&rkube, "admission_webhook.py") else { return };
    for namespace in ["hooked", "free"] {
        kubectl.run(&["create", "namespace", namespace]);
    }
    kubectl.run(&["label", "namespace", "hooked", "hooked=yes"]);
    kubectl.run_with_input(&["create", "-f", "-"], &webhook.fill_in(CONFIGURATIONS));

    let team = |resource: &str| {
        kubectl.run(&["get", "-n", "hooked", resource, "-o", "jsonpath={.metadata.labels.team}"]).stdout
    };
    kubectl.run(&["create", "configmap", "a", "-n", "hooked", "--from-literal=k=v"]);
    assert_eq!(team("configmap/a"), "unknown");
    kubectl.run(&["create", "configmap", "a", "-n", "free", "--from-literal=forbidden=v"]);
    let refused = kubectl.attempt(&["create", "configmap", "b", "-n", "hooked", "--from-literal=forbidden=v"]);
    let words = "admission webhook \"validate.example.com\" denied the request: the key forbidden is not allowed";
    assert!(refused.expect_failure().stderr.contains(words));
    let refused = kubectl.attempt(&[
        "patch",
        "configmap",
        "a",
        "-n",
        "hooked",
        "--type=merge",
        "-p",
        r#"{"data":{"forbidden":""}}"#,
    ]);
    assert!(refused.expect_failure().stderr.contains(words));
    let boss = ["--as=ann", "--as-group=bosses", "--as-group=system:masters"];
    let by_boss = ["create", "configmap", "boss", "-n", "hooked", "--from-literal=forbidden=v"];
    kubectl.run(&[&by_boss[..], &boss].concat());
    let warned = kubectl.run(&["create", "configmap", "old", "-n", "hooked", "--from-literal=deprecated=v"]);
    assert!(warned.stderr.contains("Warning: the key deprecated goes away"), "{}", warned.stderr);
    let tried = ["create", "configmap", "c", "-n", "hooked", "--dry-run=server", "-o", "jsonpath={.metadata.labels}"];
    assert_eq!(kubectl.run(&tried).stdout, r#"{"team":"unknown"}"#);

    kubectl.run(&["label", "configmap", "a", "-n", "hooked", "protected=yes"]);
    let refused = kubectl.attempt(&["delete", "configmap", "a", "-n", "hooked"]).expect_failure().stderr;
    assert!(refused.contains("denied the request: ConfigMap a is protected"), "{refused}");
    kubectl.run(&["label", "configmap", "a", "-n", "hooked", "protected-"]);
    kubectl.run(&["delete", "configmap", "a", "-n", "hooked"]);

    kubectl.run(&["run", "p", "-n", "hooked", "--image=main"]);
    assert_eq!(team("pod/p"), "unknown");
    let containers = "jsonpath={range .spec.containers[*]}{.name} {.imagePullPolicy};{end}";
    let shown = kubectl.run(&["get", "pod", "p", "-n", "hooked", "-o", containers]).stdout;
    assert_eq!(shown, "p Always;proxy Always;", "what a webhook adds gets its defaults");

    kubectl.run(&["create", "deployment", "d", "-n", "hooked", "--image=i"]);
    kubectl.run(&["scale", "deployment", "d", "-n", "hooked", "--replicas=3"]);
    let refused = kubectl.attempt(&["scale", "deployment", "d", "-n", "hooked", "--replicas=9"]);
    assert!(refused.expect_failure().stderr.contains("denied the request: deployments scale to five at most"));
    kubectl.run(&["delete", "mutatingwebhookconfiguration", "mutate"]);
    kubectl.run(&["delete", "validatingwebhookconfiguration", "validate"]);
    kubectl.run(&["create", "configmap", "b", "-n", "hooked", "--from-literal=forbidden=v"]);
}

/// The webhook asked for `v1`; the objects are stored and written as `v2`.
#[test]
fn custom_resources_are_seen_in_the_version_that_a_webhook_knows() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let Some(mut webhook) = Webhook::start(&rkube, "admission_webhook.py") else { return };
    kubectl.run(&["create", "namespace", "hooked"]);
    kubectl.run(&["label", "namespace", "hooked", "hooked=yes"]);
    kubectl.run_with_input(&["create", "-f", "-"], GADGETS);
    wait_established(&kubectl, "gadgets.example.com");
    kubectl.run_with_input(&["create", "-f", "-"], &webhook.fill_in(CONFIGURATIONS));
    let gadget = "apiVersion: example.com/v2\nkind: Gadget\nmetadata: {name: g}\nspec: {}\n";
    create(&kubectl, gadget).expect_success();
    let shown = ["get", "gadgets.v2.example.com", "g", "-n", "hooked", "-o"];
    let get = |path: &str| kubectl.run(&[&shown[..], &[&format!("jsonpath={path}")]].concat()).stdout;
    assert_eq!(get("{.apiVersion} {.metadata.labels.team} {.spec.replicas}"), "example.com/v2 unknown 1");
    let scale = |replicas: u32| {
        let body = format!(
            r#"{{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{{"name":"g","namespace":"hooked"}},"spec":{{"replicas":{replicas}}}}}"#
        );
        let path = "/apis/example.com/v2/namespaces/hooked/gadgets/g/scale";
        Finished::run(&mut kubectl.command(&["replace", "--raw", path, "-f", "-"]), &body)
    };
    // Without a version, as one may.
    scale(3).expect_success();
    assert_eq!(get("{.spec.replicas}"), "3");
    let refused = scale(9).expect_failure().stderr;
    assert!(refused.contains("denied the request: gadgets scale to five at most"), "{refused}");

    webhook.stop();
    let refused = create(&kubectl, &gadget.replace("name: g", "name: h")).expect_failure().stderr;
    assert!(
        refused.contains("failed calling webhook \"mutate.example.com\": failed to call webhook: Post \"https://127")
    );
    kubectl.run_with_input(&["create", "-f", "-"], &gadget.replace("name: g", "name: h, namespace: default"));
    webhook.run();
    create(&kubectl, &gadget.replace("name: g", "name: h")).expect_success();
}
