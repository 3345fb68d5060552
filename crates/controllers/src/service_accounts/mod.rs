//! Owns the `default` ServiceAccount of every namespace. Watches namespaces and service accounts; creates what is missing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use rkube_operator::Outcome;
use rkube_operator::kube::Client;
use rkube_operator::kube::api::{Api, ObjectMeta, PostParams};

use crate::namespaced;

const NAME: &str = "default";

pub async fn run(client: Client) {
    namespaced::run(
        "service-account-controller",
        client,
        NAME,
        |client, namespace, current: Option<Arc<ServiceAccount>>| async move {
            if current.is_some() {
                return Ok(Outcome::Unchanged);
            }
            let account = ServiceAccount {
                metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
                ..ServiceAccount::default()
            };
            Api::namespaced(client, &namespace)
                .create(&PostParams::default(), &account)
                .await
                .map(|_: ServiceAccount| Outcome::Wrote)
        },
    )
    .await;
}
