//! Users who give away what they have, and what they do not have, against a whole server.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use rkube_access::{User, UserRef};
use rkube_machinery::{Value, json};

use crate::server::ApiServer;
use crate::test_server;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The code and the message of the answer.
async fn send(
    server: &ApiServer,
    user: &UserRef,
    method: Method,
    path: &str,
    content_type: &str,
    body: &str,
) -> (StatusCode, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    let answer = server.handle(request, Some(user)).await;
    let code = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, json::parse(&body).unwrap_or(Value::Null).str("message").to_owned())
}

fn role(kind: &str, name: &str, rules: &str) -> String {
    format!(
        r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"{kind}","metadata":{{"name":"{name}"}},"rules":[{rules}]}}"#
    )
}

fn binding(kind: &str, name: &str, role_kind: &str, role: &str, user: &str) -> String {
    format!(
        r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"{kind}","metadata":{{"name":"{name}"}},
            "roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"{role_kind}","name":"{role}"}},
            "subjects":[{{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"{user}"}}]}}"#
    )
}

const PODS: &str = r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#;
const SECRETS: &str = r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["secrets"]}"#;
const ROLE_WRITER: &str = r#"{"verbs":["create","update","patch","get"],"apiGroups":["rbac.authorization.k8s.io"],
    "resources":["roles","rolebindings","clusterroles","clusterrolebindings"]}"#;

/// A server on which `writer` may read pods and write roles and bindings, everywhere.
async fn server_with_writer() -> (Arc<ApiServer>, UserRef) {
    let server = test_server::server().await;
    let writer = Arc::new(User { name: "writer".into(), groups: vec!["g".into()], ..User::default() });
    let rules = format!("{PODS},{ROLE_WRITER}");
    make(&server, CLUSTER_ROLES, &role("ClusterRole", "writer", &rules)).await;
    make(&server, CLUSTER_BINDINGS, &binding("ClusterRoleBinding", "writer", "ClusterRole", "writer", "writer")).await;
    (server, writer)
}

async fn make(server: &ApiServer, path: &str, body: &str) {
    let (code, message) = send(server, &server.road.registry.itself.clone(), Method::POST, path, JSON, body).await;
    assert_eq!(code, StatusCode::CREATED, "{message}");
}

#[tokio::test]
async fn roles_give_what_their_writers_have() {
    let (server, writer) = server_with_writer().await;
    let refused = "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"writer\" (groups=[\"g\"]) is attempting to grant \
                   RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}";
    let more = role("Role", "more", &format!("{PODS},{SECRETS}"));
    let found = send(&server, &writer, Method::POST, ROLES, JSON, &more).await;
    assert_eq!(found, (StatusCode::FORBIDDEN, refused.to_owned()));
    let path = format!("{ROLES}/more");
    for (method, content_type) in [(Method::PUT, JSON), (Method::PATCH, APPLY)] {
        let path = format!("{path}?fieldManager=m");
        let found = send(&server, &writer, method, &path, content_type, &more).await;
        assert_eq!(found, (StatusCode::FORBIDDEN, refused.to_owned()));
    }
    let found = send(&server, &writer, Method::POST, ROLES, JSON, &role("Role", "more", PODS)).await;
    assert_eq!(found.0, StatusCode::CREATED, "{}", found.1);
    let patch = format!(r#"{{"rules":[{SECRETS}]}}"#);
    let found = send(&server, &writer, Method::PATCH, &path, MERGE, &patch).await;
    assert_eq!(found, (StatusCode::FORBIDDEN, refused.to_owned()));

    // Somebody else gave more to the role: who only orphans it gives nothing.
    let itself = server.road.registry.itself.clone();
    send(&server, &itself, Method::PATCH, &path, MERGE, &patch).await;
    let found =
        send(&server, &writer, Method::PATCH, &path, MERGE, r#"{"metadata":{"finalizers":["example.com/x"]}}"#).await;
    assert_eq!(found.0, StatusCode::OK, "{}", found.1);
    let found = send(&server, &writer, Method::PATCH, &path, MERGE, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
    assert_eq!(found.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn sums_are_for_those_who_may_do_everything() {
    let (server, writer) = server_with_writer().await;
    let sum = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"sum"},
        "aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#;
    let found = send(&server, &writer, Method::POST, CLUSTER_ROLES, JSON, sum).await;
    let refused = "clusterroles.rbac.authorization.k8s.io \"sum\" is forbidden: must have cluster-admin privileges to use the \
                   aggregationRule";
    assert_eq!(found, (StatusCode::FORBIDDEN, refused.to_owned()));
    let escalate = r#"{"verbs":["escalate"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"]}"#;
    make(&server, CLUSTER_ROLES, &role("ClusterRole", "escalate", escalate)).await;
    make(&server, CLUSTER_BINDINGS, &binding("ClusterRoleBinding", "e", "ClusterRole", "escalate", "writer")).await;
    let found = send(&server, &writer, Method::POST, CLUSTER_ROLES, JSON, sum).await;
    assert_eq!(found.0, StatusCode::CREATED, "{}", found.1);
    // It is about cluster roles alone.
    let found = send(&server, &writer, Method::POST, ROLES, JSON, &role("Role", "r", SECRETS)).await;
    assert_eq!(found.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn bindings_give_what_their_writers_have_or_may_bind() {
    let (server, writer) = server_with_writer().await;
    make(&server, CLUSTER_ROLES, &role("ClusterRole", "secrets", SECRETS)).await;
    let secrets = binding("RoleBinding", "b", "ClusterRole", "secrets", "friend");
    let found = send(&server, &writer, Method::POST, BINDINGS, JSON, &secrets).await;
    assert_eq!(found.0, StatusCode::FORBIDDEN);
    let start = "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"writer\"";
    assert!(found.1.starts_with(start), "{}", found.1);
    let own = binding("RoleBinding", "own", "ClusterRole", "writer", "friend");
    let found = send(&server, &writer, Method::POST, BINDINGS, JSON, &own).await;
    assert_eq!(found.0, StatusCode::CREATED, "{}", found.1);
    let none = binding("RoleBinding", "none", "Role", "none", "friend");
    let found = send(&server, &writer, Method::POST, BINDINGS, JSON, &none).await;
    let missing = "roles.rbac.authorization.k8s.io \"none\" not found";
    assert_eq!(found, (StatusCode::NOT_FOUND, missing.to_owned()));

    let bind = r#"{"verbs":["bind"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"resourceNames":["secrets"]}"#;
    make(&server, ROLES, &role("Role", "bind", bind)).await;
    make(&server, BINDINGS, &binding("RoleBinding", "bind", "Role", "bind", "writer")).await;
    let found = send(&server, &writer, Method::POST, BINDINGS, JSON, &secrets).await;
    assert_eq!(found.0, StatusCode::CREATED, "{}", found.1);
    // Here, not everywhere.
    let everywhere = binding("ClusterRoleBinding", "b", "ClusterRole", "secrets", "friend");
    let found = send(&server, &writer, Method::POST, CLUSTER_BINDINGS, JSON, &everywhere).await;
    assert_eq!(found.0, StatusCode::FORBIDDEN);
}

/// A binding of a role that is gone is told to who grants something.
#[tokio::test]
async fn roles_that_are_gone_are_told() {
    let (server, writer) = server_with_writer().await;
    make(&server, BINDINGS, &binding("RoleBinding", "lost", "Role", "lost", "writer")).await;
    let found = send(&server, &writer, Method::POST, ROLES, JSON, &role("Role", "r", SECRETS)).await;
    let end = "; resolution errors: [roles.rbac.authorization.k8s.io \"lost\" not found]";
    assert!(found.1.ends_with(end), "{}", found.1);
    let found = send(&server, &writer, Method::GET, "/api/v1/namespaces/default/secrets", "", "").await;
    let refused = "secrets is forbidden: User \"writer\" cannot list resource \"secrets\" in API group \"\" in the namespace \
                   \"default\": RBAC: role.rbac.authorization.k8s.io \"lost\" not found";
    assert_eq!(found, (StatusCode::FORBIDDEN, refused.to_owned()));
}

#[tokio::test]
async fn whoever_may_change_an_object_may_not_make_it() {
    let server = test_server::server().await;
    let user = Arc::new(User { name: "changer".into(), ..User::default() });
    let rules = r#"{"verbs":["get","update","patch"],"apiGroups":["","coordination.k8s.io"],"resources":["configmaps","leases"]},
        {"verbs":["create"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["named"]}"#;
    make(&server, CLUSTER_ROLES, &role("ClusterRole", "changer", rules)).await;
    make(&server, CLUSTER_BINDINGS, &binding("ClusterRoleBinding", "changer", "ClusterRole", "changer", "changer"))
        .await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let map = |name: &str, data: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"a":"{data}"}}}}"#)
    };
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"new"}}"#;
    let no_map = "configmaps \"new\" is forbidden: User \"changer\" cannot create resource \"configmaps\" in API group \"\" in \
        the namespace \"default\"";
    let no_lease = "leases.coordination.k8s.io \"new\" is forbidden: User \"changer\" cannot create resource \"leases\" in API \
        group \"coordination.k8s.io\" in the namespace \"default\"";
    for (method, path, form, body, want) in [
        (Method::PATCH, format!("{maps}/new?fieldManager=a"), APPLY, map("new", "1"), (403, no_map)),
        (Method::PATCH, format!("{maps}/new?fieldManager=a&dryRun=All"), APPLY, map("new", "1"), (403, no_map)),
        (Method::PUT, format!("{leases}/new"), JSON, lease.to_owned(), (403, no_lease)),
        (Method::PATCH, format!("{maps}/named?fieldManager=a"), APPLY, map("named", "1"), (201, "")),
        (Method::PATCH, format!("{maps}/named?fieldManager=a"), APPLY, map("named", "2"), (200, "")),
    ] {
        let (code, message) = send(&server, &user, method, &path, form, &body).await;
        assert_eq!((code.as_u16(), message.as_str()), want, "{path}");
    }
    make(&server, maps, &map("new", "1")).await;
    let (code, message) =
        send(&server, &user, Method::PATCH, &format!("{maps}/new?fieldManager=a&force=true"), APPLY, &map("new", "2"))
            .await;
    assert_eq!((code.as_u16(), message.as_str()), (200, ""));
}
