//! The role of those who read `metrics.k8s.io`.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rkube_operator::kube;
use rkube_operator::kube::api::{Api, PostParams};

use crate::host::{Host, component_user};

const AGENT: &str = "kubelet";
/// Nodes give no roles: this is made for whoever serves their figures.
const USER: &str = "system:node";
const GROUPS: [&str; 1] = ["system:masters"];

/// Lets those who may view things see what nodes and pods use, as those do who bring `metrics.k8s.io` elsewhere.
pub async fn create_role(host: &Host) {
    const AGGREGATES: [&str; 3] = ["admin", "edit", "view"];
    let label = |role: &str| (format!("rbac.authorization.k8s.io/aggregate-to-{role}"), "true".to_owned());
    let role = ClusterRole {
        metadata: ObjectMeta {
            name: Some("system:aggregated-metrics-reader".to_owned()),
            labels: Some(AGGREGATES.into_iter().map(label).collect()),
            ..ObjectMeta::default()
        },
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec!["metrics.k8s.io".to_owned()]),
            resources: Some(vec!["pods".to_owned(), "nodes".to_owned()]),
            verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
            ..PolicyRule::default()
        }]),
        ..ClusterRole::default()
    };
    let roles: Api<ClusterRole> = Api::all(host.client(component_user(USER, &GROUPS), AGENT));
    match roles.create(&PostParams::default(), &role).await {
        Ok(_) => {}
        // What people made of it stays.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => tracing::warn!(%error, "the role for those who read metrics cannot be made"),
    }
}
