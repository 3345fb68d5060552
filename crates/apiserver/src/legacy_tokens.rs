//! What is remembered of tokens that come out of Secrets: since when their use is noticed, and the day of the last use, as
//! a label of the Secret.

use bytes::Bytes;
use http::{Method, StatusCode};
use rkube_access::authenticate::service_account::{LAST_USED, LegacyUse, OnLegacyUse, day};
use rkube_machinery::{Status, Value, json, object};
use std::sync::Arc;
use tokio::sync::mpsc::{self, Receiver};

use crate::internal_client::{InternalClient, failed};

/// So many uses wait to be written down. Beyond that they are forgotten until the next use.
const WAITING_MAX: usize = 64;

const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const MAP: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// What is called at each use that is not written down, and where it comes out.
pub fn channel() -> (OnLegacyUse, Receiver<LegacyUse>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let told = move |used| {
        // Requests wait for nothing here.
        let _ = sender.try_send(used);
    };
    (Arc::new(told), receiver)
}

/// Writes uses down until the server is gone.
pub async fn keep(client: InternalClient, mut uses: Receiver<LegacyUse>) {
    if let Err(status) = begin(&client).await {
        tracing::debug!(why = status.message, "cannot say since when the use of old tokens is noticed");
    }
    while let Some(used) = uses.recv().await {
        if client.is_gone() {
            return;
        }
        if let Err(status) = mark(&client, &used).await {
            tracing::debug!(why = status.message, secret = used.name, "cannot say when a token was last used");
        }
    }
}

/// Says since when, once for all.
async fn begin(client: &InternalClient) -> Result<(), Status> {
    let path = format!("{MAPS}/{MAP}");
    let (code, _) = client.ask(Method::GET, &path, "", Bytes::new()).await?;
    if code == StatusCode::OK {
        return Ok(());
    }
    let map = object! {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object! { "name": MAP, "namespace": "kube-system" },
        "data": object! { "since": day(client.clock.now_seconds()) },
    };
    let (code, body) = client.ask(Method::POST, MAPS, "application/json", json::to_string(&map).into()).await?;
    if code.is_success() || code == StatusCode::CONFLICT { Ok(()) } else { Err(failed(&path, &body)) }
}

/// Labels the Secret with today, if it is still the same and does not say so already.
async fn mark(client: &InternalClient, used: &LegacyUse) -> Result<(), Status> {
    let path = format!("/api/v1/namespaces/{}/secrets/{}", used.namespace, used.name);
    let today = day(client.clock.now_seconds());
    let (_, body) = client.ask(Method::GET, &path, "", Bytes::new()).await?;
    let secret = json::parse(&body).unwrap_or_default();
    if secret.at(&["metadata", "labels", LAST_USED]).as_str() == today {
        return Ok(());
    }
    let mut labels = Value::object();
    labels.set(LAST_USED, today);
    let patch = object! { "metadata": object! { "uid": used.uid.as_str(), "labels": labels } };
    let body = json::to_string(&patch).into();
    let (code, body) = client.ask(Method::PATCH, &path, "application/merge-patch+json", body).await?;
    if code.is_success() || code == StatusCode::NOT_FOUND { Ok(()) } else { Err(failed(&path, &body)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server;

    #[tokio::test]
    async fn uses_are_written_down_once_a_day() {
        let server = test_server::server().await;
        let client = InternalClient::new(&server.road, server.road.registry.itself.clone());
        begin(&client).await.unwrap();
        let get =
            async |path: &str| json::parse(&client.ask(Method::GET, path, "", Bytes::new()).await.unwrap().1).unwrap();
        assert_eq!(get(&format!("{MAPS}/{MAP}")).await.get("data").str("since"), "1970-01-01");
        begin(&client).await.unwrap();
        let secrets = "/api/v1/namespaces/default/secrets";
        let secret = Bytes::from_static(br#"{"metadata":{"name":"s"}}"#);
        assert_eq!(client.ask(Method::POST, secrets, "application/json", secret).await.unwrap().0, StatusCode::CREATED);
        let made = get(&format!("{secrets}/s")).await;
        let uid = made.get("metadata").str("uid").to_owned();
        let used = LegacyUse { namespace: "default".to_owned(), name: "s".to_owned(), uid };
        mark(&client, &used).await.unwrap();
        let marked = get(&format!("{secrets}/s")).await;
        assert_eq!(marked.at(&["metadata", "labels", LAST_USED]).as_str(), "1970-01-01");
        mark(&client, &used).await.unwrap();
        assert_eq!(get(&format!("{secrets}/s")).await, marked);
        // Of another Secret of the name nothing is said.
        let other = LegacyUse { uid: "other".to_owned(), ..used };
        mark(&client, &other).await.unwrap();
        assert_eq!(get(&format!("{secrets}/s")).await, marked);
    }

    #[test]
    fn too_many_uses_are_forgotten() {
        let (told, mut uses) = channel();
        let used = LegacyUse { namespace: String::new(), name: String::new(), uid: String::new() };
        (0..WAITING_MAX * 2).for_each(|_| told(used.clone()));
        assert_eq!(std::iter::from_fn(|| uses.try_recv().ok()).count(), WAITING_MAX);
    }
}
