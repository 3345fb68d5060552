//! Marks tokens of service accounts that were made by themselves, are in Secrets and are used by nobody as invalid, and
//! deletes them when nobody has missed them for as long again. Looks at them once a day. Watches Secrets and service
//! accounts; writes labels of Secrets, and deletes them.

mod plan;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Caches, Informer, Selection};
use serde_json::json;

use crate::Context;
use crate::requests;
use plan::{Account, Step, TokenSecret, UsedSecrets};

const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);
const TRACKING: &str = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let unused = i64::try_from(settings.legacy_service_account_token_clean_up_period.as_secs()).unwrap_or(i64::MAX);
    let secrets = caches.view(&ApiResource::erase::<Secret>(&()), Selection::default(), TokenSecret::read);
    let accounts = caches.view(&ApiResource::erase::<ServiceAccount>(&()), Selection::default(), Account::read);
    secrets.synced().await;
    accounts.synced().await;
    loop {
        match tracked_since(&client).await {
            Ok(since) => {
                let times = plan::Times { since, now: clock.now_seconds(), unused };
                clean(&client, &caches, &secrets, &accounts, &times).await;
            }
            Err(why) => tracing::warn!(why, "cannot tell since when the use of tokens is known"),
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// The day from which on uses are known.
async fn tracked_since(client: &Client) -> Result<i64, String> {
    let map = requests::get_value(client, TRACKING).await.map_err(|error| requests::message(&error))?;
    let day = map["data"]["since"].as_str().unwrap_or_default();
    plan::day_seconds(day).ok_or_else(|| format!("{day:?} is no day"))
}

async fn clean(
    client: &Client,
    caches: &Caches,
    secrets: &Informer<TokenSecret>,
    accounts: &Informer<Account>,
    times: &plan::Times,
) {
    // Pods are looked at where it matters only.
    let mut used: BTreeMap<Text, BTreeSet<String>> = BTreeMap::new();
    for secret in secrets.all() {
        let account = accounts.get(&secret.namespace, &secret.account);
        let step = plan::step(&secret, account.as_deref(), times);
        if step == Step::Keep {
            continue;
        }
        let used = match used.entry(secret.namespace.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(used_by_pods(caches, &secret.namespace).await),
        };
        if used.contains(secret.name.as_str()) {
            continue;
        }
        match take(client, &secret, &step).await {
            Ok(()) => {
                tracing::info!(namespace = %secret.namespace, name = %secret.name, ?step, "an unused token")
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => {
                tracing::warn!(namespace = %secret.namespace, name = %secret.name, %error, "an unused token stays")
            }
        }
    }
}

async fn used_by_pods(caches: &Caches, namespace: &Text) -> BTreeSet<String> {
    let selection = Selection { namespace: Some(namespace.clone()), ..Selection::default() };
    let pods = caches.view(&ApiResource::erase::<Pod>(&()), selection, UsedSecrets::read);
    pods.synced().await;
    pods.all().iter().flat_map(|pod| pod.0.iter().cloned()).collect()
}

async fn take(client: &Client, secret: &TokenSecret, step: &Step) -> Result<(), kube::Error> {
    let path = format!("/api/v1/namespaces/{}/secrets/{}", secret.namespace, secret.name);
    match step {
        Step::Keep => {}
        Step::Invalidate(day) => {
            let metadata = json!({ "uid": secret.uid.as_str(), "labels": { plan::INVALID_SINCE: day } });
            requests::patch(client, &path, &json!({ "metadata": metadata })).await?;
        }
        Step::Delete => {
            // One that was used in the meantime stays.
            let options = json!({ "preconditions": { "resourceVersion": secret.revision.to_string() } });
            requests::delete_with(client, &path, options).await?;
        }
    }
    Ok(())
}
