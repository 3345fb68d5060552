//! A plugin that writes down what it is told sees every kind of write, with upstream's attributes.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use rkube_access::{MASTERS, User};
use rkube_admission::{Attributes, Immediate, ImmediatePlugin, Operation};
use rkube_machinery::{Status, Value};

use crate::server::ApiServer;
use crate::test_server::server_with;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[derive(Default)]
struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    fn write(&self, phase: &str, attributes: &Attributes<'_>, object: &Value) {
        let kind = &attributes.served.kind;
        let slash = if attributes.subresource.is_empty() { "" } else { "/" };
        let operation = match attributes.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        };
        // What the object says it is must be what the attributes say it is.
        if !object.is_null() {
            assert_eq!(object.str("kind"), attributes.kind.kind);
        }
        let mut line = format!(
            "{phase} {operation} {}{slash}{} {}/{} {}",
            kind.resource, attributes.subresource, attributes.namespace, attributes.name, attributes.kind.kind
        );
        let old = attributes.old.map(|old| old.str("kind"));
        line.extend(old.map(|old| format!(" old={old}")));
        if attributes.dry_run {
            line.push_str(" dry");
        }
        if attributes.user.name == "system:apiserver" {
            line.push_str(" itself");
        }
        self.lines.lock().push(line);
    }
}

impl ImmediatePlugin for Recorder {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        // The server's own lease is renewed whenever its time comes.
        attributes.served.kind.resource != "leases"
    }

    fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        self.write("m", attributes, object);
        Ok(())
    }

    fn validate(&self, attributes: &mut Attributes<'_>, object: &Value) -> Result<(), Status> {
        self.write("v", attributes, object);
        Ok(())
    }
}

/// What is asked (method, path below a group's root, content type, body), the code that comes back, and what the plugin
/// sees in both phases.
type Row = (&'static str, &'static str, &'static str, &'static str, u16, &'static [&'static str]);

const POD: &str =
    r#"{"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#;
const DEPLOYMENT: &str = r#"{"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
    "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#;
const BUDGET: &str = r#"{"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}}"#;

const OBJECTS: &[Row] = &[
    ("POST", "configmaps", JSON, r#"{"metadata": {"name": "a"}}"#, 201, &["CREATE configmaps default/a ConfigMap"]),
    (
        "POST",
        "configmaps?dryRun=All",
        JSON,
        r#"{"metadata": {"name": "b"}}"#,
        201,
        &["CREATE configmaps default/b ConfigMap dry"],
    ),
    (
        "PUT",
        "configmaps/a",
        JSON,
        r#"{"metadata": {"name": "a"}, "data": {"a": "b"}}"#,
        200,
        &["UPDATE configmaps default/a ConfigMap old=ConfigMap"],
    ),
    (
        "PATCH",
        "configmaps/a",
        MERGE,
        r#"{"data": {"a": "c"}}"#,
        200,
        &["UPDATE configmaps default/a ConfigMap old=ConfigMap"],
    ),
    (
        "PATCH",
        "configmaps/a",
        APPLY,
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}}"#,
        200,
        &["UPDATE configmaps default/a ConfigMap old=ConfigMap"],
    ),
    (
        "PATCH",
        "configmaps/new",
        APPLY,
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}"#,
        201,
        &["CREATE configmaps default/new ConfigMap"],
    ),
    ("DELETE", "configmaps/a", "", "", 200, &["DELETE configmaps default/a ConfigMap old=ConfigMap"]),
    // Each object of a collection by itself, without a name.
    ("DELETE", "configmaps", "", "", 200, &["DELETE configmaps default/ ConfigMap old=ConfigMap"]),
    ("POST", "/api/v1/namespaces", JSON, r#"{"metadata": {"name": "n"}}"#, 201, &["CREATE namespaces n/n Namespace"]),
    (
        "PUT",
        "/api/v1/namespaces/n/finalize",
        JSON,
        r#"{"metadata": {"name": "n"}}"#,
        200,
        &["UPDATE namespaces/finalize n/n Namespace old=Namespace"],
    ),
    ("POST", "pods", JSON, POD, 201, &["CREATE pods default/p Pod"]),
    (
        "PATCH",
        "pods/p/status",
        MERGE,
        r#"{"status": {"phase": "Running"}}"#,
        200,
        &["UPDATE pods/status default/p Pod old=Pod"],
    ),
    (
        "PATCH",
        "pods/p/ephemeralcontainers",
        STRATEGIC,
        r#"{"spec": {"ephemeralContainers": [{"name": "e", "image": "i", "terminationMessagePolicy": "File"}]}}"#,
        200,
        &["UPDATE pods/ephemeralcontainers default/p Pod old=Pod"],
    ),
    ("PATCH", "pods/p/resize", MERGE, "{}", 200, &["UPDATE pods/resize default/p Pod old=Pod"]),
];

const SUBRESOURCES: &[Row] = &[
    (
        "POST",
        "pods/p/binding",
        JSON,
        r#"{"metadata": {"name": "p"}, "target": {"name": "n"}}"#,
        201,
        &["CREATE pods/binding default/p Binding"],
    ),
    (
        "POST",
        "bindings",
        JSON,
        r#"{"metadata": {"name": "p"}, "target": {"name": "n"}}"#,
        409,
        &["CREATE bindings default/p Binding"],
    ),
    (
        "POST",
        "serviceaccounts/default/token",
        JSON,
        r#"{"spec": {"audiences": ["a"]}}"#,
        201,
        &["CREATE serviceaccounts/token default/default TokenRequest"],
    ),
    (
        "POST",
        "/apis/apps/v1/namespaces/default/deployments",
        JSON,
        DEPLOYMENT,
        201,
        &["CREATE deployments default/d Deployment"],
    ),
    (
        "PUT",
        "/apis/apps/v1/namespaces/default/deployments/d/scale",
        JSON,
        r#"{"metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 2}}"#,
        200,
        &["UPDATE deployments/scale default/d Scale old=Scale"],
    ),
    (
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/d/scale",
        MERGE,
        r#"{"spec": {"replicas": 3}}"#,
        200,
        &["UPDATE deployments/scale default/d Scale old=Scale"],
    ),
    (
        "POST",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        JSON,
        BUDGET,
        201,
        &["CREATE poddisruptionbudgets default/b PodDisruptionBudget"],
    ),
    (
        "PATCH",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b/status",
        MERGE,
        r#"{"status": {"disruptionsAllowed": 1, "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}}"#,
        200,
        &["UPDATE poddisruptionbudgets/status default/b PodDisruptionBudget old=PodDisruptionBudget"],
    ),
    // The deletion of the pod is part of what was admitted.
    (
        "POST",
        "pods/p/eviction",
        JSON,
        r#"{"metadata": {"name": "p"}}"#,
        201,
        &[
            "CREATE pods/eviction default/p Eviction",
            "UPDATE poddisruptionbudgets/status default/b PodDisruptionBudget old=PodDisruptionBudget itself",
        ],
    ),
    // What the server makes itself on the way.
    (
        "POST",
        "services",
        JSON,
        r#"{"metadata": {"name": "s"}, "spec": {"clusterIP": "10.96.0.77", "ports": [{"port": 1}]}}"#,
        201,
        &["CREATE services default/s Service", "CREATE ipaddresses /10.96.0.77 IPAddress itself"],
    ),
];

const REVIEWS: &[Row] = &[
    (
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        JSON,
        r#"{"spec": {"token": "t"}}"#,
        201,
        &["CREATE tokenreviews / TokenReview"],
    ),
    (
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        JSON,
        "{}",
        201,
        &["CREATE selfsubjectreviews / SelfSubjectReview"],
    ),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        JSON,
        r#"{"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}}"#,
        201,
        &["CREATE subjectaccessreviews / SubjectAccessReview"],
    ),
    // Whether the namespace is there is not told.
    (
        "POST",
        "/apis/authorization.k8s.io/v1/namespaces/none/localsubjectaccessreviews",
        JSON,
        r#"{"spec": {"user": "u", "resourceAttributes": {"namespace": "none", "verb": "get", "resource": "pods"}}}"#,
        201,
        &["CREATE localsubjectaccessreviews none/ LocalSubjectAccessReview"],
    ),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        JSON,
        r#"{"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}"#,
        201,
        &["CREATE selfsubjectaccessreviews / SelfSubjectAccessReview"],
    ),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        JSON,
        r#"{"spec": {"namespace": "a"}}"#,
        201,
        &["CREATE selfsubjectrulesreviews / SelfSubjectRulesReview"],
    ),
];

const CONNECTIONS: &[Row] = &[
    (
        "POST",
        "pods/p/exec?command=a&command=b&stdout=true",
        "",
        "",
        404,
        &["CONNECT pods/exec default/p PodExecOptions"],
    ),
    ("GET", "pods/p/exec?command=a", "", "", 404, &["CONNECT pods/exec default/p PodExecOptions"]),
    ("POST", "pods/p/attach", "", "", 404, &["CONNECT pods/attach default/p PodAttachOptions"]),
    ("POST", "pods/p/portforward?ports=1", "", "", 404, &["CONNECT pods/portforward default/p PodPortForwardOptions"]),
    ("GET", "pods/p/proxy/x", "", "", 400, &["CONNECT pods/proxy default/p PodProxyOptions"]),
    ("DELETE", "services/s/proxy/x", "", "", 404, &["CONNECT services/proxy default/s ServiceProxyOptions"]),
    ("GET", "/api/v1/nodes/n/proxy/x", "", "", 404, &["CONNECT nodes/proxy /n NodeProxyOptions"]),
    ("GET", "pods/p/exec?command=a&dryRun=All", "", "", 400, &[]),
    // Logs are read.
    ("GET", "pods/p/log", "", "", 404, &[]),
];

#[tokio::test]
async fn every_kind_of_write_is_seen() {
    let recorder = Recorder::default();
    let lines = recorder.lines.clone();
    let server = server_with(Box::new(Immediate(recorder))).await;
    let account = r#"{"metadata": {"name": "default"}}"#;
    assert_eq!(send(&server, "POST", "serviceaccounts", JSON, account).await, 201);
    for (method, path, content_type, body, code, expected) in
        [OBJECTS, SUBRESOURCES, REVIEWS, CONNECTIONS].into_iter().flatten()
    {
        lines.lock().clear();
        assert_eq!(send(&server, method, path, content_type, body).await, *code, "{method} {path}");
        let mut seen = std::mem::take(&mut *lines.lock());
        let mut both: Vec<String> =
            expected.iter().flat_map(|line| [format!("m {line}"), format!("v {line}")]).collect();
        // One write may be made between the phases of another.
        seen.sort();
        both.sort();
        assert_eq!(seen, both, "{method} {path}");
    }
}

/// Sends a request of some administrator. Paths without a slash are below the namespace `default`.
async fn send(server: &ApiServer, method: &str, path: &str, content_type: &str, body: &str) -> u16 {
    let root = if path.starts_with('/') { "" } else { "/api/v1/namespaces/default/" };
    let query = if content_type == APPLY { "?fieldManager=test" } else { "" };
    let request = Request::builder()
        .method(method)
        .uri(format!("{root}{path}{query}"))
        .header(header::CONTENT_TYPE, content_type)
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    let user = Arc::new(User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() });
    let answer = server.handle(request, Some(&user)).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    // Shown with a test that fails.
    eprintln!("{method} {path}: {code} {}", String::from_utf8_lossy(&body));
    code
}
