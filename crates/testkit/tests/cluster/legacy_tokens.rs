//! Tokens of service accounts that were made by themselves, and that nobody uses: marked first, deleted later.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use rkube_operator::kube::api::PostParams;
use rkube_operator::kube::{Api, ResourceExt as _};
use rkube_testkit::{Settings, TestCluster};
use serde_json::json;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
#[ignore = "six virtual days take two minutes; the plan has tests of its own"]
async fn unused_tokens_are_marked_and_then_deleted() {
    let settings = Settings { legacy_service_account_token_clean_up_period: DAY, ..Settings::default() };
    let controllers = "legacy-serviceaccount-token-cleaner-controller,serviceaccount-token-controller";
    let builder = TestCluster::builder().controllers(controllers).controller_settings(settings).without_scheduler();
    let cluster = builder.virtual_time().start().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), "default");
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "default");
    let account = json!({ "metadata": { "name": "old" }, "secrets": [{ "name": "by-itself" }] });
    accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
    for name in ["by-itself", "by-hand"] {
        let secret = json!({
            "metadata": { "name": name, "annotations": { "kubernetes.io/service-account.name": "old" } },
            "type": "kubernetes.io/service-account-token",
        });
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    }
    let mark = async |name: &str| {
        let secret = secrets.get_opt(name).await.unwrap();
        secret.map(|secret| secret.labels().contains_key("kubernetes.io/legacy-token-invalid-since"))
    };
    cluster.advance(DAY / 2).await;
    assert_eq!(mark("by-itself").await, Some(false), "it is not known for long enough");
    cluster.advance(DAY * 3).await;
    assert_eq!(mark("by-itself").await, Some(true));
    cluster.advance(DAY * 3).await;
    assert_eq!(mark("by-itself").await, None);
    assert_eq!(mark("by-hand").await, Some(false), "somebody made it, and keeps it");
    cluster.shutdown().await;
}
