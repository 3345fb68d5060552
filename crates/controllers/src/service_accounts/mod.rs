//! Owns the `default` ServiceAccount of every namespace. Watches namespaces and service accounts; creates what is missing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use rkube_operator::Outcome;
use rkube_operator::kube::api::{Api, ObjectMeta, PostParams};

use crate::{Context, namespaced};

const NAME: &str = "default";

pub async fn run(context: Context) {
    namespaced::run(
        "serviceaccount-controller",
        context,
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
