//! The operator in a cluster of its own.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use rkube_testkit::TestCluster;
use serde_json::json;
use team_labels::{LABEL, NOBODY, run};

async fn team(client: Client, namespace: &str) -> Result<String, String> {
    let found = Api::<Namespace>::all(client).get(namespace).await.map_err(|error| error.to_string())?;
    found.labels().get(LABEL).cloned().ok_or_else(|| "it has no label".to_owned())
}

fn namespace(name: &str) -> Namespace {
    Namespace { metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() }, ..Default::default() }
}

#[tokio::test]
async fn namespaces_get_a_label() {
    let cluster = TestCluster::start().await;
    let operator = tokio::spawn(run(cluster.client()));
    Api::all(cluster.client()).create(&PostParams::default(), &namespace("a")).await.unwrap();
    let label = cluster.eventually("a label", async || team(cluster.client(), "a").await).await;
    assert_eq!(label, NOBODY);
    operator.abort();
}

/// Who may not write tries again an hour later, which takes no time here.
#[tokio::test]
async fn an_hour_later_it_is_tried_again() {
    let cluster = TestCluster::builder().virtual_time().start().await;
    let operator = tokio::spawn(run(cluster.client_as("operator", &[])));
    let may = |verbs: &[&str]| {
        json!({ "metadata": { "name": "operator" },
                "rules": [{ "apiGroups": [""], "resources": ["namespaces"], "verbs": verbs }] })
    };
    let bound = json!({ "metadata": { "name": "operator" },
                        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operator" },
                        "subjects": [{ "kind": "User", "name": "operator" }] });
    let (roles, bindings) =
        (Api::<ClusterRole>::all(cluster.client()), Api::<ClusterRoleBinding>::all(cluster.client()));
    let (role, binding) = (serde_json::from_value(may(&["list", "watch"])), serde_json::from_value(bound));
    let made = roles.create(&PostParams::default(), &role.unwrap()).await.unwrap();
    bindings.create(&PostParams::default(), &binding.unwrap()).await.unwrap();
    cluster.advance(Duration::from_secs(10 * 60)).await;
    assert!(team(cluster.client(), "default").await.is_err());

    let mut more: ClusterRole = serde_json::from_value(may(&["list", "watch", "patch"])).unwrap();
    more.metadata.resource_version = made.metadata.resource_version;
    roles.replace("operator", &PostParams::default(), &more).await.unwrap();
    cluster.advance(Duration::from_secs(2 * 60 * 60)).await;
    assert_eq!(team(cluster.client(), "default").await.unwrap(), NOBODY);
    operator.abort();
}
