//! What a server says about itself: resources, versions, explanations, who is asking, events.

use rkube_testkit::eventually;

use crate::start;

#[test]
fn resources_and_versions() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let resources = kubectl.run(&["api-resources"]);
    for (name, short, kind) in [
        ("configmaps", "cm", "ConfigMap"),
        ("pods", "po", "Pod"),
        ("namespaces", "ns", "Namespace"),
        ("leases", "", "Lease"),
    ] {
        let line = resources.stdout.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{}", resources.stdout));
        assert!(line.contains(short) && line.ends_with(kind), "{line}");
    }
    kubectl.run(&["api-resources", "--namespaced=false", "-o", "name"]).says("nodes\n");
    let versions = kubectl.run(&["api-versions"]);
    for version in ["v1", "coordination.k8s.io/v1", "events.k8s.io/v1", "authentication.k8s.io/v1"] {
        assert!(versions.stdout.lines().any(|line| line == version), "{}", versions.stdout);
    }
    kubectl.run(&["version"]).says("Server Version: v1.36.");
    kubectl.run(&["get", "--raw", "/readyz?verbose"]).says("readyz check passed");
}

#[test]
fn explanations_have_the_real_descriptions() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl
        .run(&["explain", "pod.spec.containers"])
        .says("KIND:       Pod")
        .says("FIELD: containers <[]Container>")
        .says("A single application container that you want to run within a pod.")
        .says("imagePullPolicy\t<string>")
        .says("-required-");
    kubectl.run(&["explain", "configmap", "--recursive"]).says("binaryData\t<map[string]string>");
    kubectl.attempt(&["explain", "pod.spec.nonsense"]).expect_failure();
}

/// Both by v3 and by v2 in protobuf, as soon as the definition is established; and no more once it is gone.
#[test]
fn custom_resources_are_explained() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run_with_input(&["create", "-f", "-"], DEFINITION);
    crate::custom_resources::wait_established(&kubectl, "appconfigs.example.com");
    kubectl
        .run(&["explain", "appconfig"])
        .says("GROUP:      example.com")
        .says("AppConfig says how an app is set up.")
        .says("metadata\t<ObjectMeta>")
        .says("Standard object's metadata.")
        .says("spec\t<Object> -required-");
    kubectl.run(&["explain", "ac.spec", "--recursive"]).says("config\t<map[string]string>").says("enum: fast, slow");
    kubectl
        .run(&["explain", "ac.spec", "--output=plaintext-openapiv2"])
        .says("What the app is called.")
        .says("-required-");
    kubectl.attempt(&["explain", "ac.spec.nonsense"]).expect_failure();
    kubectl.run(&["delete", "crd", "appconfigs.example.com"]);
    eventually("the documents to be gone", || {
        let index = kubectl.run(&["get", "--raw", "/openapi/v3"]).stdout;
        if index.contains("example.com") { Err(index) } else { Ok(()) }
    });
}

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: appconfigs.example.com
spec:
  group: example.com
  scope: Namespaced
  names: { plural: appconfigs, singular: appconfig, kind: AppConfig, shortNames: [ac] }
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: AppConfig says how an app is set up.
        required: [spec]
        properties:
          spec:
            type: object
            required: [appName]
            properties:
              appName: { type: string, description: What the app is called. }
              config: { type: object, additionalProperties: { type: string } }
              mode: { type: string, enum: [fast, slow] }
              port: { x-kubernetes-int-or-string: true }
";

#[test]
fn the_administrator_is_known() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["auth", "whoami"]).says("kubernetes-admin").says("system:masters").says("system:authenticated");
}

#[test]
fn events_are_listed_in_both_groups() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let none = kubectl.run(&["get", "events"]);
    assert!(none.stderr.contains("No resources found in default namespace."), "{}", none.stderr);
    kubectl.run_with_input(&["create", "-f", "-"], EVENT);
    for resource in ["events", "events.v1.events.k8s.io"] {
        kubectl.run(&["get", resource]).says("LAST SEEN").says("Tested").says("pod/web").says("it works");
    }
}

const EVENT: &str = "\
apiVersion: v1
kind: Event
metadata:
  name: web.1
  namespace: default
involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: default}
type: Normal
reason: Tested
message: it works
source: {component: test}
firstTimestamp: 2024-01-01T00:00:00Z
lastTimestamp: 2024-01-01T00:00:00Z
count: 1
";
