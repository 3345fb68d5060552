//! A new server has all of them, and a start restores what was taken from them.

use rkube_access::authorize::{Attributes, ResourceAttributes};

use super::*;
use crate::server::ApiServer;
use crate::test_server::{self, ask};

async fn get(server: &ApiServer, path: &str) -> Value {
    let (code, body) = ask(server, Method::GET, path, "", Bytes::new()).await.unwrap();
    assert_eq!(code, StatusCode::OK, "{path}");
    json::parse(&body).unwrap()
}

async fn again(server: &ApiServer) -> Result<(), Status> {
    let registry = &server.road.registry;
    settle(&InternalClient::new(&server.road, registry.itself.clone()), registry, &Features::default()).await
}

#[tokio::test]
async fn a_new_server_has_them() {
    let server = test_server::server().await;
    for (resource, count) in [("clusterroles", 69), ("clusterrolebindings", 50), ("roles", 7), ("rolebindings", 7)] {
        let list = get(&server, &format!("/apis/{GROUP}/v1/{resource}")).await;
        assert_eq!(list.list("items").len(), count, "{resource}");
    }
    let role = get(&server, &format!("/apis/{GROUP}/v1/clusterroles/admin")).await;
    // Nobody has summed it up yet.
    assert!(role.as_map().get("rules").is_some_and(Value::is_null));
    let role = get(&server, &format!("/apis/{GROUP}/v1/clusterroles/system:basic-user")).await;
    assert_eq!(role.get("metadata").list("managedFields")[0].str("manager"), "kube-apiserver");
}

#[tokio::test]
async fn what_was_taken_from_them_comes_back() {
    let server = test_server::server().await;
    let revision = server.road.registry.store.revision().await.unwrap();
    again(&server).await.unwrap();
    assert_eq!(server.road.registry.store.revision().await.unwrap(), revision, "there was nothing to do");

    let path = format!("/apis/{GROUP}/v1/clusterroles/system:discovery");
    let patch = Bytes::from_static(b"{\"rules\":[]}");
    let (code, _) = ask(&server, Method::PATCH, &path, "application/merge-patch+json", patch).await.unwrap();
    assert_eq!(code, StatusCode::OK);
    let binding = format!("/apis/{GROUP}/v1/clusterrolebindings/system:discovery");
    ask(&server, Method::DELETE, &binding, "", Bytes::new()).await.unwrap();
    let other = br#"{"metadata":{"name":"system:discovery"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}}"#;
    let all = format!("/apis/{GROUP}/v1/clusterrolebindings");
    let made = ask(&server, Method::POST, &all, "application/json", Bytes::from_static(other)).await.unwrap();
    assert_eq!(made.0, StatusCode::CREATED);
    let gone = format!("/apis/{GROUP}/v1/namespaces/kube-system/roles/system:controller:token-cleaner");
    ask(&server, Method::DELETE, &gone, "", Bytes::new()).await.unwrap();

    again(&server).await.unwrap();
    assert_eq!(get(&server, &path).await.list("rules").len(), 11);
    assert_eq!(get(&server, &binding).await.get("roleRef").str("name"), "system:discovery");
    get(&server, &gone).await;
}

/// Whether a rule of the table allows this, word by word.
fn says(rule: &Value, verb: &str, group: &str, resource: &str, name: &str) -> bool {
    let has = |field: &str, wanted: &str| rule.list(field).iter().any(|one| one == &Value::from(wanted));
    let any = |field: &str, wanted: &str| has(field, "*") || has(field, wanted);
    let part = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
    any("verbs", verb)
        && any("apiGroups", group)
        && (any("resources", resource) || part.is_some_and(|part| has("resources", &part)))
        && (rule.list("resourceNames").is_empty() || has("resourceNames", name))
}

/// Everything that is served, with its subresources: group, resource and, apart, subresource.
fn served(server: &ApiServer) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for served in server.road.catalog.snapshot().all() {
        let kind = &served.kind;
        let parts = kind.subresources.iter().map(|part| part.name).chain([""]);
        found.extend(parts.map(|part| (kind.group.to_string(), kind.resource.to_string(), part.to_owned())));
    }
    found.push((String::new(), "signers".to_owned(), String::new()));
    found.sort();
    found.dedup();
    found
}

/// Every default role, bound to somebody, against every verb on everything that is served.
#[tokio::test]
async fn every_role_allows_what_it_says_and_nothing_else() {
    const VERBS: [&str; 12] = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "escalate",
        "bind",
        "impersonate",
        "approve",
    ];
    const PATHS: [&str; 7] = ["/", "/api", "/apis/x", "/metrics", "/healthz", "/healthz/ping", "/openid/v1/jwks"];
    let server = test_server::server().await;
    let everything = served(&server);
    let mut asked = 0;
    for role in table::objects(&Features::default()).iter().filter(|object| !object.has("roleRef")) {
        let (kind, name) = (role.str("kind"), role.get("metadata").str("name"));
        let namespace = role.get("metadata").str("namespace");
        let scope = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
        let resource = if namespace.is_empty() { "clusterrolebindings" } else { "rolebindings" };
        let user = rkube_access::User { name: format!("user of {name}").into(), ..Default::default() };
        let subject = format!(r#"{{"apiGroup":"{GROUP}","kind":"User","name":"{}"}}"#, user.name);
        let binding = format!(
            r#"{{"metadata":{{"name":"test-{name}"}},"roleRef":{{"apiGroup":"{GROUP}","kind":"{kind}","name":"{name}"}},"subjects":[{subject}]}}"#
        );
        let path = format!("/apis/{GROUP}/v1/{scope}{resource}");
        let (code, _) = ask(&server, Method::POST, &path, "application/json", binding.into()).await.unwrap();
        assert_eq!(code, StatusCode::CREATED, "{name}");
        let authorizers = &server.road.authorizers;
        let allows = |attributes: Attributes<'_>| authorizers.allow(&user, &attributes);
        for (group, resource, subresource) in &everything {
            let whole = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            for (verb, name) in VERBS.iter().flat_map(|verb| [(*verb, ""), (*verb, "cluster-info")]) {
                let attributes = ResourceAttributes {
                    verb,
                    group,
                    version: "v1",
                    resource,
                    subresource,
                    namespace,
                    name,
                    field_selector: "",
                };
                let expected = role.list("rules").iter().any(|rule| says(rule, verb, group, &whole, name));
                assert_eq!(allows(Attributes::Resource(attributes)), expected, "{kind} {} {attributes:?}", user.name);
                let elsewhere = ResourceAttributes { namespace: "elsewhere", ..attributes };
                let expected = expected && namespace.is_empty();
                assert_eq!(allows(Attributes::Resource(elsewhere)), expected, "{kind} {} {elsewhere:?}", user.name);
                asked += 2;
            }
        }
        for (verb, path) in PATHS.iter().flat_map(|path| [("get", *path), ("post", *path)]) {
            let expected = role.list("rules").iter().any(|rule| {
                let has = |field: &str, wanted: &str| rule.list(field).iter().any(|one| one == &Value::from(wanted));
                let below = rule.list("nonResourceURLs").iter().filter_map(|one| one.as_str().strip_suffix('*'));
                (has("verbs", verb) || has("verbs", "*"))
                    && (has("nonResourceURLs", path) || below.into_iter().any(|start| path.starts_with(start)))
            });
            assert_eq!(allows(Attributes::Path { verb, path }), expected, "{kind} {} {verb} {path}", user.name);
        }
    }
    assert!(asked > 300_000, "{asked}");
}
