//! What a node may write, as tables.

use rkube_access::{NODES, User};
use rkube_catalog::Snapshot;
use rkube_kinds::Kind;
use rkube_machinery::json;

use super::*;
use crate::attributes::tests::creation;

struct Stage {
    catalog: Snapshot,
    plugin: NodeRestriction,
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn stage() -> Stage {
    let catalog = Snapshot::unfed(rkube_kinds::all());
    let fill = |group: &str, resource: &str, objects: &[&str]| {
        let values: Vec<Value> = objects.iter().map(|text| parse(text)).collect();
        catalog.resource(group, "v1", resource).unwrap().fill(&values, 1);
    };
    fill("", "nodes", &[r#"{"metadata":{"name":"n","uid":"node-uid"}}"#]);
    fill(
        "",
        "pods",
        &[
            r#"{"metadata":{"name":"mine","namespace":"default","uid":"u1"},"spec":{"nodeName":"n","volumes":[
            {"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"t"}},{"serviceAccountToken":{"path":"v","audience":"vault"}}]}},
            {"name":"c","csi":{"driver":"d"}}]}}"#,
            r#"{"metadata":{"name":"other","namespace":"default","uid":"u2"},"spec":{"nodeName":"m"}}"#,
        ],
    );
    fill(
        "storage.k8s.io",
        "csidrivers",
        &[r#"{"metadata":{"name":"d"},"spec":{"tokenRequests":[{"audience":"storage"}]}}"#],
    );
    let v1 = |group, resource| Objects(catalog.resource(group, "v1", resource));
    let plugin = NodeRestriction {
        pods: v1("", "pods"),
        nodes: v1("", "nodes"),
        accounts: v1("", "serviceaccounts"),
        claims: v1("", "persistentvolumeclaims"),
        volumes: v1("", "persistentvolumes"),
        drivers: v1("storage.k8s.io", "csidrivers"),
        authorizers: Arc::new(Authorizers::new(&catalog)),
    };
    Stage { catalog, plugin }
}

impl Stage {
    /// `operation group/resource[/subresource] namespace/name` with the objects; empty: it is allowed.
    fn ask(&self, text: &str, old: &str, new: &str) -> String {
        let mut words = text.split(' ');
        let (operation, resource, object) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let mut parts = resource.split('/');
        let group = parts.next().filter(|group| *group != "core").unwrap_or_default();
        let (resource, subresource) = (parts.next().unwrap(), parts.next().unwrap_or_default());
        let version_of = |kind: &&Arc<Kind>| kind.group == group && kind.resource == resource;
        let version = rkube_kinds::all().iter().find(version_of).unwrap().version.clone();
        let served = self.catalog.find(group, &version, resource).unwrap();
        let user = User { name: "system:node:n".into(), groups: vec![NODES.into()], ..User::default() };
        let old = (!old.is_empty()).then(|| parse(old));
        let mut new = if new.is_empty() { Value::Null } else { parse(new) };
        let (namespace, name) = object.split_once('/').unwrap();
        let mut attributes = creation(served, &user);
        attributes.operation = match operation {
            "create" => Operation::Create,
            "update" => Operation::Update,
            _ => Operation::Delete,
        };
        (attributes.subresource, attributes.namespace, attributes.name) = (subresource, namespace, name);
        attributes.old = old.as_ref();
        assert!(self.plugin.handles(&attributes));
        let answer = self.plugin.mutate(&mut attributes, &mut new);
        answer.err().map(|status| status.message).unwrap_or_default()
    }

    fn check(&self, table: &[(&str, &str, &str, &str)]) {
        for (text, old, new, want) in table {
            let got = self.ask(text, old, new);
            // After the name of what is refused.
            let got = got.split_once("is forbidden: ").map_or(got.as_str(), |(_, why)| why);
            assert_eq!(got, *want, "{text} {new}");
        }
    }
}

fn mirror(changes: &[(&str, &str)]) -> String {
    let pod = r#"{"metadata":{"name":"m","annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[
        {"apiVersion":"v1","kind":"Node","name":"n","uid":"node-uid","controller":true}]},
        "spec":{"nodeName":"n","containers":[{"name":"c"}],"volumes":[{"name":"v","emptyDir":{}}]}}"#;
    changes.iter().fold(pod.to_owned(), |pod, (from, to)| {
        assert!(pod.contains(from), "{from}");
        pod.replace(from, to)
    })
}

#[test]
fn only_mirror_pods_of_its_own_are_made() {
    let stage = stage();
    let volume = |kind: &str| mirror(&[("{\"name\":\"v\",\"emptyDir\":{}}", kind)]);
    for (pod, want) in [
        (mirror(&[]), ""),
        (
            mirror(&[("config.mirror", "config.other")]),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n\" can only create mirror pods",
        ),
        (
            mirror(&[("\"nodeName\":\"n\"", "\"nodeName\":\"m\"")]),
            "node \"n\" can only create pods with spec.nodeName set to itself",
        ),
        (
            mirror(&[("\"name\":\"n\",\"uid\"", "\"name\":\"m\",\"uid\"")]),
            "node \"n\" can only create pods with an owner reference set to itself",
        ),
        (
            mirror(&[("\"controller\":true", "\"controller\":false")]),
            "node \"n\" can only create pods with a controller owner reference set to itself",
        ),
        (
            mirror(&[("\"controller\":true", "\"controller\":true,\"blockOwnerDeletion\":true")]),
            "node \"n\" must not set blockOwnerDeletion on an owner reference",
        ),
        (mirror(&[("node-uid", "old")]), "node n UID mismatch: expected old got node-uid"),
        (
            mirror(&[("\"nodeName\":\"n\"", "\"nodeName\":\"n\",\"serviceAccountName\":\"a\"")]),
            "node \"n\" can not create pods that reference serviceaccounts",
        ),
        (
            mirror(&[("{\"name\":\"c\"}", "{\"name\":\"c\",\"envFrom\":[{\"configMapRef\":{\"name\":\"a\"}}]}")]),
            "node \"n\" can not create pods that reference configmaps",
        ),
        (
            volume(r#"{"name":"v","secret":{"secretName":"a"}}"#),
            "node \"n\" can not create pods that reference secrets",
        ),
        (volume(r#"{"name":"v","hostPath":{"path":"/"}}"#), ""),
        (
            volume(r#"{"name":"v","persistentVolumeClaim":{"claimName":"a"}}"#),
            "node \"n\" can not create pods that reference persistentvolumeclaims",
        ),
        (
            volume(r#"{"name":"v","projected":{"sources":[{"downwardAPI":{}},{"serviceAccountToken":{"path":"x"}}]}}"#),
            "node \"n\" can not create pods that reference serviceaccounts (via projected volumes)",
        ),
    ] {
        stage.check(&[("create core/pods default/m", "", &pod, want)]);
    }
}

#[test]
fn pods_of_others_are_left_alone() {
    let (mine, other) = (r#"{"spec":{"nodeName":"n"}}"#, r#"{"spec":{"nodeName":"m"}}"#);
    stage().check(&[
        ("delete core/pods default/mine", mine, "", ""),
        (
            "delete core/pods default/other",
            other,
            "",
            "node \"n\" can only delete pods with spec.nodeName set to itself",
        ),
        (
            "update core/pods default/mine",
            mine,
            mine,
            "unexpected operation \"UPDATE\", node \"n\" can only create and delete mirror pods",
        ),
        ("update core/pods/status default/mine", mine, r#"{"status":{"phase":"Running"}}"#, ""),
        (
            "update core/pods/status default/other",
            other,
            "{}",
            "node \"n\" can only update pod status for pods with spec.nodeName set to itself",
        ),
        (
            "update core/pods/status default/mine",
            mine,
            r#"{"metadata":{"labels":{"a":"b"}}}"#,
            "node \"n\" cannot update labels through pod status",
        ),
        (
            "update core/pods/status default/mine",
            mine,
            r#"{"status":{"resourceClaimStatuses":[{"name":"a"}]}}"#,
            "node \"n\" cannot update resource claim statues",
        ),
        (
            "update core/pods/status default/mine",
            mine,
            r#"{"status":{"extendedResourceClaimStatus":{"resourceClaimName":"a"}}}"#,
            "node \"n\" cannot update extended resource claim status",
        ),
        ("create core/pods/eviction default/mine", "", "{}", ""),
        (
            "create core/pods/eviction default/other",
            "",
            "{}",
            "node n can only evict pods with spec.nodeName set to itself",
        ),
        (
            "create core/pods/binding default/mine",
            "",
            "{}",
            "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed",
        ),
    ]);
}

#[test]
fn a_node_writes_only_itself() {
    let old =
        r#"{"metadata":{"labels":{"kubernetes.io/os":"linux","x.k8s.io/y":"1"}},"spec":{"taints":[{"key":"a"}]}}"#;
    stage().check(&[
        ("create core/nodes /n", "", r#"{"metadata":{"labels":{"kubernetes.io/os":"linux","mine":"1"}}}"#, ""),
        ("create core/nodes /m", "", "{}", "node \"n\" is not allowed to modify node \"m\""),
        (
            "create core/nodes /n",
            "",
            r#"{"metadata":{"labels":{"node-role.kubernetes.io/x":"","a.k8s.io/b":""}}}"#,
            "node \"n\" is not allowed to set the following labels: a.k8s.io/b, node-role.kubernetes.io/x",
        ),
        (
            "create core/nodes /n",
            "",
            r#"{"spec":{"configSource":{}}}"#,
            "node \"n\" is not allowed to create pods with a non-nil configSource",
        ),
        ("update core/nodes/status /n", old, old, ""),
        ("update core/nodes/status /m", old, old, "node \"n\" is not allowed to modify node \"m\""),
        (
            "update core/nodes /n",
            old,
            r#"{"metadata":{"labels":{"kubernetes.io/os":"linux"}},"spec":{"taints":[{"key":"a"}]}}"#,
            "is not allowed to modify labels: x.k8s.io/y",
        ),
        ("update core/nodes/status /n", old, "{}", "node \"n\" is not allowed to modify taints"),
        (
            "update core/nodes /n",
            "{}",
            r#"{"metadata":{"ownerReferences":[{"name":"a"}]}}"#,
            "node \"n\" is not allowed to modify ownerReferences",
        ),
        ("delete core/nodes /n", "{}", "", ""),
        ("delete core/nodes /m", "{}", "", "node \"n\" is not allowed to modify node \"m\""),
    ]);
}

#[test]
fn leases_and_the_like_have_the_name_of_the_node() {
    let lease = "can only access node lease with the same name as the requesting node";
    let node = "can only access CSINode with the same name as the requesting node";
    stage().check(&[
        ("create coordination.k8s.io/leases kube-node-lease/n", "", r#"{"metadata":{"name":"n"}}"#, ""),
        ("create coordination.k8s.io/leases kube-node-lease/m", "", r#"{"metadata":{"name":"m"}}"#, lease),
        ("update coordination.k8s.io/leases kube-node-lease/m", "{}", "{}", lease),
        (
            "update coordination.k8s.io/leases default/n",
            "{}",
            "{}",
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        ("create storage.k8s.io/csinodes /n", "", r#"{"metadata":{"name":"n"}}"#, ""),
        ("update storage.k8s.io/csinodes /m", "{}", "{}", node),
        ("create resource.k8s.io/resourceslices /s", "", r#"{"spec":{"nodeName":"n"}}"#, ""),
        (
            "create resource.k8s.io/resourceslices /s",
            "",
            r#"{"spec":{"allNodes":true}}"#,
            "can only create ResourceSlice with the same NodeName as the requesting node",
        ),
        (
            "delete resource.k8s.io/resourceslices /s",
            r#"{"spec":{"nodeName":"m"}}"#,
            "",
            "can only delete ResourceSlice with the same NodeName as the requesting node",
        ),
        ("update core/persistentvolumeclaims default/c", "{}", "{}", "may only update PVC status"),
        (
            "update core/persistentvolumeclaims/status default/c",
            r#"{"spec":{"volumeName":"v"}}"#,
            r#"{"spec":{"volumeName":"v"},"status":{"capacity":{"storage":"1Gi"},"conditions":[{"type":"x"}]}}"#,
            "",
        ),
        (
            "update core/persistentvolumeclaims/status default/c",
            "{}",
            r#"{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Bound"}}"#,
            "node \"n\" is not allowed to update fields other than status.quantity and status.conditions: \
             metadata, status changed",
        ),
        ("create core/events default/e", "", "{}", ""),
    ]);
}

#[test]
fn tokens_are_for_pods_of_the_node() {
    let token = |bound: &str, audiences: &str| {
        format!(
            r#"{{"spec":{{"audiences":[{audiences}],"boundObjectRef":{{"apiVersion":"v1","kind":"Pod",{bound}}}}}}}"#
        )
    };
    let mine = r#""name":"mine","uid":"u1""#;
    let stage = stage();
    for (request, want) in [
        (token(mine, ""), ""),
        (token(mine, r#""vault""#), ""),
        (token(mine, r#""storage""#), ""),
        (
            token(mine, r#""elsewhere""#),
            "audience \"elsewhere\" not found in pod spec volume, system:node:n is not authorized to request tokens for \
             this audience",
        ),
        (token(mine, r#""a","b""#), "node may only request 0 or 1 audiences"),
        (token(r#""name":"""#, ""), "node requested token not bound to a pod"),
        (token(r#""name":"mine""#, ""), "node requested token with a pod binding without a uid"),
        (
            token(r#""name":"mine","uid":"old""#, ""),
            "the UID in the bound object reference (old) does not match the UID in record. The object might have been \
             deleted and then recreated",
        ),
        (
            token(r#""name":"other","uid":"u2""#, ""),
            "node requested token bound to a pod scheduled on a different node",
        ),
        (token(r#""name":"gone","uid":"u""#, ""), "pod \"gone\" not found"),
    ] {
        stage.check(&[("create core/serviceaccounts/token default/a", "", &request, want)]);
    }
}

#[test]
fn others_are_not_restricted() {
    let stage = stage();
    let served = stage.catalog.find("", "v1", "nodes").unwrap();
    let user = User { name: "system:node:n".into(), ..User::default() };
    assert!(!stage.plugin.handles(&creation(served, &user)), "not in the group");
    let nameless = User { name: "system:node:".into(), groups: vec![NODES.into()], ..User::default() };
    let mut attributes = creation(served, &nameless);
    let refused = stage.plugin.mutate(&mut attributes, &mut Value::object()).unwrap_err().message;
    assert!(refused.ends_with("could not determine node from user \"system:node:\""), "{refused}");
}

/// Requests for certificates of the nodes n and m.
const OF_N: &str = "MIHpMIGRAgEAMC8xFTATBgNVBAoMDHN5c3RlbTpub2RlczEWMBQGA1UEAwwNc3lzdGVtOm5vZGU6bjBZMBMGByqGSM49AgEGCCqG\
    SM49AwEHA0IABBFnQIKm54n2JIYNvEJDGobYHNtU7Xl6VQ+/CClb/d+uA8j1NNL5bmZntj52vOIRo7AoYDYxw+2n7k81uk5n1Dyg\
    ADAKBggqhkjOPQQDAgNHADBEAiBGbRxsk929ZoGtiAunzadGppKLIiGK0pRjczKwg9JlswIgEI2pmwYtWxXQuar/Z/426HvQk+AKxQtpeOPu7ZpkILc=";
const OF_M: &str = "MIHqMIGRAgEAMC8xFTATBgNVBAoMDHN5c3RlbTpub2RlczEWMBQGA1UEAwwNc3lzdGVtOm5vZGU6bTBZMBMGByqGSM49AgEGCCqG\
    SM49AwEHA0IABJsxjxdCpNnIjXizj8XBIjkRjQzLvaChkKqb1pt5fCLz4Zh022HbVASNttIIUjFESQxE2MFkfGAKjfYYRrReFs6g\
    ADAKBggqhkjOPQQDAgNIADBFAiEAkxwMnkzH7uSneciPQqaCDPe1rZV63EIwTSbR692iMcECIEOxe4bZlmv0J6YPJ0scyPWBAHtpb5gxECch77X/oY0D";

#[test]
fn certificates_are_requested_for_itself_only() {
    let stage = stage();
    let block = |label: &str, body: &str, end: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {end}-----\n");
    let whole = |body: &str| block("CERTIFICATE REQUEST", body, "CERTIFICATE REQUEST");
    let foreign = "can only create a node CSR with CN=system:node:n";
    let unread = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST";
    for (pem, want) in [
        (whole(OF_N), ""),
        (whole(OF_M), foreign),
        // What signers pass over, counts for nothing.
        (block("CERTIFICATE REQUEST", OF_N, "X") + &whole(OF_M), foreign),
        (block("X", OF_N, "X") + &whole(OF_N), unread),
        (String::new(), unread),
    ] {
        let request = base64::engine::general_purpose::STANDARD.encode(&pem);
        let body = format!(r#"{{"spec":{{"signerName":"{}","request":"{request}"}}}}"#, NODE_SIGNERS[0]);
        stage.check(&[("create certificates.k8s.io/certificatesigningrequests /c", "", &body, want)]);
    }
}
