//! What nodes may do, as a table: two nodes with a pod each, and what these refer to.

use rkube_catalog::Snapshot;
use rkube_machinery::{Text, Value, json};

use super::*;
use crate::authorize::{Authorizers, Mode};
use crate::{AUTHENTICATED, NODES};

/// Of `n1`, `n2` and of nobody.
const PODS: [&str; 4] = [
    r#"{"metadata":{"name":"p1","namespace":"a"},"spec":{"nodeName":"n1","serviceAccountName":"sa1",
        "imagePullSecrets":[{"name":"pull"}],
        "initContainers":[{"name":"i","envFrom":[{"configMapRef":{"name":"init-env"}},{"secretRef":{"name":"init-secret"}}]}],
        "containers":[{"name":"c","env":[
            {"name":"x","valueFrom":{"secretKeyRef":{"name":"env-secret","key":"k"}}},
            {"name":"y","valueFrom":{"configMapKeyRef":{"name":"env-map","key":"k"}}}]}],
        "ephemeralContainers":[{"name":"e","envFrom":[{"secretRef":{"name":"debug-secret"}}]}],
        "resourceClaims":[{"name":"r","resourceClaimName":"claimed"},{"name":"t","resourceClaimTemplateName":"template"}],
        "volumes":[
            {"name":"s","secret":{"secretName":"volume-secret"}},
            {"name":"m","configMap":{"name":"volume-map"}},
            {"name":"j","projected":{"sources":[{"secret":{"name":"projected-secret"}},{"configMap":{"name":"projected-map"}}]}},
            {"name":"d","persistentVolumeClaim":{"claimName":"data"}},
            {"name":"eph","ephemeral":{"volumeClaimTemplate":{}}},
            {"name":"v","csi":{"driver":"x","nodePublishSecretRef":{"name":"csi-secret"}}}]},
        "status":{"resourceClaimStatuses":[{"name":"t","resourceClaimName":"p1-t-abc"}],
            "extendedResourceClaimStatus":{"resourceClaimName":"p1-extended"}}}"#,
    r#"{"metadata":{"name":"p2","namespace":"a"},"spec":{"nodeName":"n2","serviceAccountName":"sa2",
        "volumes":[{"name":"s","secret":{"secretName":"other-secret"}}]}}"#,
    r#"{"metadata":{"name":"mirror","namespace":"a","annotations":{"kubernetes.io/config.mirror":"x"}},
        "spec":{"nodeName":"n1","serviceAccountName":"sa2","volumes":[{"name":"s","secret":{"secretName":"other-secret"}}]}}"#,
    r#"{"metadata":{"name":"waiting","namespace":"a"},"spec":{"serviceAccountName":"sa3"}}"#,
];
const CLAIMS: [&str; 2] = [
    r#"{"metadata":{"name":"data","namespace":"a"},"spec":{"volumeName":"pv1"}}"#,
    r#"{"metadata":{"name":"other","namespace":"a"},"spec":{"volumeName":"pv2"}}"#,
];
const VOLUMES: [&str; 2] = [
    r#"{"metadata":{"name":"pv1"},"spec":{"claimRef":{"namespace":"a","name":"data"},"csi":{
        "nodeStageSecretRef":{"namespace":"storage","name":"stage"},
        "controllerPublishSecretRef":{"namespace":"storage","name":"controller"}}}}"#,
    r#"{"metadata":{"name":"pv2"},"spec":{"claimRef":{"namespace":"a","name":"other"},"cephfs":{"secretRef":{"name":"ceph"}}}}"#,
];
const ATTACHMENTS: [&str; 2] = [
    r#"{"metadata":{"name":"va1"},"spec":{"nodeName":"n1"}}"#,
    r#"{"metadata":{"name":"va2"},"spec":{"nodeName":"n2"}}"#,
];

fn fill(catalog: &Snapshot, group: &str, resource: &str, objects: &[&str], revision: u64) {
    let values: Vec<Value> = objects.iter().map(|text| json::parse(text.as_bytes()).unwrap()).collect();
    catalog.resource(group, "v1", resource).unwrap().fill(&values, revision);
}

fn cluster() -> Snapshot {
    let catalog = Snapshot::unfed(rkube_kinds::all());
    fill(&catalog, "", "pods", &PODS, 1);
    fill(&catalog, "", "persistentvolumeclaims", &CLAIMS, 1);
    fill(&catalog, "", "persistentvolumes", &VOLUMES, 1);
    fill(&catalog, "storage.k8s.io", "volumeattachments", &ATTACHMENTS, 1);
    catalog
}

fn node(name: &str) -> User {
    let groups: Vec<Text> = vec![NODES.into(), AUTHENTICATED.into()];
    User { name: format!("system:node:{name}").into(), groups, ..User::default() }
}

/// `verb group/resource[/subresource] namespace/name [selector]`, with `core` for the group without a name.
fn asked(text: &str) -> ResourceAttributes<'_> {
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (verb, resource, object, field_selector) = (word(), word(), word(), word());
    let mut parts = resource.split('/');
    let group = parts.next().filter(|group| *group != "core").unwrap_or_default();
    let (resource, subresource) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    ResourceAttributes { verb, group, version: "v1", resource, subresource, namespace, name, field_selector }
}

const NO_RELATION: &str = "no relationship found between node 'n1' and this object";

/// What `n1` asks, and why it is not allowed; `ok` where it is.
const TABLE: &[(&str, &str)] = &[
    ("get core/secrets a/pull", "ok"),
    ("watch core/secrets a/init-secret", "ok"),
    ("list core/secrets a/env-secret", "ok"),
    ("get core/secrets a/debug-secret", "ok"),
    ("get core/secrets a/volume-secret", "ok"),
    ("get core/secrets a/projected-secret", "ok"),
    ("get core/secrets a/csi-secret", "ok"),
    ("get core/secrets storage/stage", "ok"),
    ("get core/secrets storage/controller", NO_RELATION),
    ("get core/secrets a/ceph", NO_RELATION),
    ("get core/secrets a/other-secret", NO_RELATION),
    ("get core/secrets b/pull", NO_RELATION),
    ("list core/secrets a/", "No Object name found"),
    ("list core/secrets ", "can only read namespaced object of this type"),
    ("update core/secrets a/pull", "can only read resources of this type"),
    ("get core/secrets/x a/pull", "cannot read subresource"),
    ("get core/configmaps a/init-env", "ok"),
    ("get core/configmaps a/env-map", "ok"),
    ("get core/configmaps a/volume-map", "ok"),
    ("get core/configmaps a/projected-map", "ok"),
    ("get core/configmaps a/x", NO_RELATION),
    ("get core/persistentvolumeclaims a/data", "ok"),
    ("get core/persistentvolumeclaims a/p1-eph", "ok"),
    ("get core/persistentvolumeclaims a/other", NO_RELATION),
    ("list core/persistentvolumeclaims a/data", "can only get individual resources of this type"),
    ("patch core/persistentvolumeclaims/status a/data", "ok"),
    ("get core/persistentvolumeclaims/status a/data", "can only get/update/patch this type"),
    ("get core/persistentvolumes /pv1", "ok"),
    ("get core/persistentvolumes /pv2", NO_RELATION),
    ("get core/persistentvolumes/status /pv1", "cannot get subresource"),
    ("get resource.k8s.io/resourceclaims a/claimed", "ok"),
    ("get resource.k8s.io/resourceclaims a/p1-t-abc", "ok"),
    ("get resource.k8s.io/resourceclaims a/p1-extended", "ok"),
    ("get resource.k8s.io/resourceclaims a/template", NO_RELATION),
    ("get storage.k8s.io/volumeattachments /va1", "ok"),
    ("get storage.k8s.io/volumeattachments /va2", NO_RELATION),
    ("create core/serviceaccounts/token a/sa1", "ok"),
    ("create core/serviceaccounts/token a/sa2", NO_RELATION),
    ("create core/serviceaccounts/token a/sa3", NO_RELATION),
    ("create core/serviceaccounts a/sa1", "can only create token subresource of serviceaccount"),
    ("update core/serviceaccounts a/sa1", "can only create tokens for individual service accounts"),
    ("get core/serviceaccounts a/sa1", "ok"),
    ("get core/serviceaccounts a/sa2", NO_RELATION),
    ("create coordination.k8s.io/leases kube-node-lease/", "ok"),
    ("update coordination.k8s.io/leases kube-node-lease/n1", "ok"),
    (
        "update coordination.k8s.io/leases kube-node-lease/n2",
        "can only access node lease with the same name as the requesting node",
    ),
    (
        "get coordination.k8s.io/leases kube-system/n1",
        "can only access leases in the \"kube-node-lease\" system namespace",
    ),
    ("list coordination.k8s.io/leases kube-node-lease/", "can only get, create, update, patch, or delete a node lease"),
    ("get storage.k8s.io/csinodes /n1", "ok"),
    ("get storage.k8s.io/csinodes /n2", "can only access CSINode with the same name as the requesting node"),
    ("list storage.k8s.io/csinodes ", "can only get, create, update, patch, or delete a CSINode"),
    ("create resource.k8s.io/resourceslices ", "ok"),
    ("list resource.k8s.io/resourceslices  spec.nodeName=n1", "ok"),
    (
        "list resource.k8s.io/resourceslices  spec.nodeName=n2",
        "can only list/watch/deletecollection resourceslices with nodeName field selector",
    ),
    ("get core/nodes /n1", "ok"),
    ("watch core/nodes /n1", "ok"),
    ("get core/nodes /n2", "node 'n1' cannot read 'n2', only its own Node object"),
    ("list core/nodes ", "node 'n1' cannot read all nodes, only its own Node object"),
    ("create core/nodes ", "ok"),
    ("patch core/nodes/status /n1", "ok"),
    ("delete core/nodes /n1", ""),
    ("get core/nodes/proxy /n1", ""),
    ("get core/pods a/p1", "ok"),
    ("get core/pods a/mirror", "ok"),
    ("get core/pods a/p2", NO_RELATION),
    ("list core/pods  spec.nodeName=n1", "ok"),
    ("watch core/pods  metadata.namespace!=x,spec.nodeName=n1", "ok"),
    ("list core/pods  spec.nodeName=n2", "can only list/watch pods with spec.nodeName field selector"),
    ("list core/pods  spec.nodeName!=n1", "can only list/watch pods with spec.nodeName field selector"),
    ("watch core/pods a/p1 metadata.name=p1", "ok"),
    ("create core/pods a/", "ok"),
    ("delete core/pods a/p2", "ok"),
    ("patch core/pods/status a/p2", "ok"),
    ("create core/pods/eviction a/p2", "ok"),
    ("update core/pods a/p1", ""),
    ("create core/pods/exec a/p1", ""),
    ("create events.k8s.io/events a/", "ok"),
    ("list core/services ", "ok"),
    ("create authentication.k8s.io/tokenreviews ", "ok"),
    ("list node.k8s.io/runtimeclasses ", "ok"),
    ("list apps/deployments ", ""),
];

#[test]
fn nodes_may_do_what_their_pods_need() {
    let catalog = cluster();
    let authorizer = NodeAuthorizer::new(&catalog);
    for (text, want) in TABLE {
        let attributes = Attributes::Resource(asked(text));
        let decision = authorizer.decide(&node("n1"), &attributes);
        let got = match decision {
            Decision::Allow => "ok".to_owned(),
            _ => authorizer.reason(&node("n1"), &attributes, decision),
        };
        assert_eq!(got, *want, "{text}");
    }
    assert_eq!(authorizer.pods.as_ref().unwrap().nodes(), 1, "only who asked is known");
}

#[test]
fn only_nodes_are_nodes() {
    let catalog = cluster();
    let authorizer = NodeAuthorizer::new(&catalog);
    let attributes = Attributes::Resource(asked("get core/secrets a/pull"));
    let without_group = User { groups: Vec::new(), ..node("n1") };
    let without_prefix = User { name: "n1".into(), ..node("n1") };
    for user in [without_group, without_prefix] {
        assert_eq!(authorizer.decide(&user, &attributes), Decision::NoOpinion);
        assert_eq!(authorizer.reason(&user, &attributes, Decision::NoOpinion), "");
    }
    let reason = authorizer.reason(&node(""), &attributes, Decision::NoOpinion);
    assert_eq!(reason, "unknown node for user \"system:node:\"");
    let rules = authorizer.rules(&node("n1"), "a");
    assert!(rules.is_incomplete && rules.error == "node authorizer does not support user rule resolution");
    let all = Authorizers::of_modes(&catalog, &[Mode::Node, Mode::Rbac]);
    assert!(all.allow(&node("n1"), &attributes) && !all.allow(&node("n2"), &attributes));
}

#[test]
fn the_index_follows_pods() {
    let catalog = cluster();
    let authorizer = NodeAuthorizer::new(&catalog);
    let may =
        |name: &str, text: &str| authorizer.decide(&node(name), &Attributes::Resource(asked(text))) == Decision::Allow;
    let nodes = || authorizer.pods.as_ref().unwrap().nodes();
    assert!(!may("n3", "get core/secrets a/pull") && nodes() == 0, "who has no pods is not kept");
    assert!(may("n1", "get core/secrets a/pull") && may("n2", "get core/secrets a/other-secret"));
    // The pods are deleted, and made again on another node.
    fill(&catalog, "", "pods", &[PODS[3]], 2);
    assert!(!may("n1", "get core/secrets a/pull") && !may("n2", "get core/secrets a/other-secret"));
    assert_eq!(nodes(), 0);
    let moved = PODS[0].replace("\"n1\"", "\"n3\"");
    fill(&catalog, "", "pods", &[&moved, PODS[1]], 3);
    assert!(may("n3", "get core/secrets a/pull") && !may("n1", "get core/secrets a/pull"));
    // A debugging container brings a secret along.
    let debugged = moved.replace("debug-secret", "new-secret");
    fill(&catalog, "", "pods", &[&debugged, PODS[1]], 4);
    assert!(may("n3", "get core/secrets a/new-secret") && !may("n3", "get core/secrets a/debug-secret"));
    assert_eq!(nodes(), 1);
}
