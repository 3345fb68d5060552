//! ConfigMaps of `kube-system` that the server itself keeps: whose client certificates it takes, for servers beside it
//! that want to take the same, and since when tokens in Secrets are watched for their use.
// tidy: types ConfigMap

use bytes::Bytes;
use futures::future::try_join;
use http::{Method, StatusCode};
use rkube_machinery::{Status, Value, json, object, time};

use crate::internal_client::{InternalClient, failed};
use crate::registry::{InternalWriter, Registry};

const NAMESPACE: &str = "kube-system";
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const CLIENT_AUTHORITY: &str = "client-ca-file";
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";

/// Makes what is missing. Authorities that others have added stay.
/// `authority`: PEM of the one whose client certificates are taken.
pub async fn settle(client: &InternalClient, registry: &Registry, authority: &str) -> Result<(), Status> {
    try_join(settle_authority(client, registry, authority), settle_tracking(client, registry)).await.map(drop)
}

/// At which revisions they are, if all are there: where these were right before, nothing has to be looked at.
pub fn revisions(client: &InternalClient) -> Option<[u64; 2]> {
    let revision = |name| client.cached(("", "configmaps"), NAMESPACE, name).map(|entry| entry.revision);
    Some([revision(AUTHENTICATION)?, revision(TOKEN_TRACKING)?])
}

async fn settle_authority(client: &InternalClient, registry: &Registry, authority: &str) -> Result<(), Status> {
    let own = authority.trim();
    if own.is_empty() {
        return Ok(());
    }
    settle_entry((client, registry), AUTHENTICATION, CLIENT_AUTHORITY, |known| match known {
        known if known.contains(own) => None,
        "" => Some(format!("{own}\n")),
        known => Some(format!("{}\n{own}\n", known.trim_end())),
    })
    .await
}

async fn settle_tracking(client: &InternalClient, registry: &Registry) -> Result<(), Status> {
    let now = time::format_seconds(registry.clock.now_seconds());
    let today = now.split('T').next().unwrap_or_default();
    let is_date = |text: &str| time::parse_date(text).is_ok();
    settle_entry((client, registry), TOKEN_TRACKING, SINCE, |known| (!is_date(known)).then(|| today.to_owned())).await
}

/// Writes the entry of a map if `wanted` says that it should be another one.
async fn settle_entry(
    (client, registry): (&InternalClient, &Registry),
    name: &str,
    key: &str,
    wanted: impl Fn(&str) -> Option<String>,
) -> Result<(), Status> {
    let Some(writer) = InternalWriter::new(registry, "", "v1", "configmaps", NAMESPACE) else { return Ok(()) };
    let found = writer.find(name).await?;
    let data = |value: String| {
        let mut data = Value::object();
        data.set(key, value);
        data
    };
    let Some(found) = found else {
        let Some(value) = wanted("") else { return Ok(()) };
        let metadata = object! { "name": name, "namespace": NAMESPACE };
        let map = object! { "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data(value) };
        return match writer.create(map).await {
            // Another server on the same store was first.
            Err(status) if status.code != 409 => Err(status),
            _ => Ok(()),
        };
    };
    let Some(value) = wanted(found.object.tree().get("data").str(key)) else { return Ok(()) };
    let version = found.revision.to_string();
    let patch = object! { "metadata": object! { "resourceVersion": version }, "data": data(value) };
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
    let body = Bytes::from(json::to_string(&patch));
    match Box::pin(client.ask(Method::PATCH, &path, "application/merge-patch+json", body)).await? {
        (code, _) if code.is_success() || matches!(code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
        (_, body) => Err(failed(&path, &body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ApiServer;
    use crate::test_server::{self, ask};

    async fn data(server: &ApiServer, name: &str) -> Value {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
        let (code, body) = ask(server, Method::GET, &path, "", Bytes::new()).await.unwrap();
        assert_eq!(code, StatusCode::OK);
        json::parse(&body).unwrap().get("data").clone()
    }

    async fn patch(server: &ApiServer, name: &str, body: &'static str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
        let body = Bytes::from_static(body.as_bytes());
        let (code, _) = ask(server, Method::PATCH, &path, "application/merge-patch+json", body).await.unwrap();
        assert_eq!(code, StatusCode::OK);
    }

    async fn again(server: &ApiServer) -> Result<(), Status> {
        let registry = &server.road.registry;
        settle(&InternalClient::new(&server.road, registry.itself.clone()), registry, "authority").await
    }

    #[tokio::test]
    async fn they_are_made_and_mended() {
        let server = test_server::server().await;
        assert_eq!(data(&server, AUTHENTICATION).await.str(CLIENT_AUTHORITY), "authority\n");
        assert_eq!(data(&server, TOKEN_TRACKING).await.str(SINCE), "1970-01-01");
        let revision = server.road.registry.store.revision().await.unwrap();
        again(&server).await.unwrap();
        assert_eq!(server.road.registry.store.revision().await.unwrap(), revision, "there was nothing to do");

        patch(&server, AUTHENTICATION, r#"{"data":{"client-ca-file":"another\n","more":"x"}}"#).await;
        patch(&server, TOKEN_TRACKING, r#"{"data":{"since":"never"}}"#).await;
        again(&server).await.unwrap();
        let found = data(&server, AUTHENTICATION).await;
        assert_eq!((found.str(CLIENT_AUTHORITY), found.str("more")), ("another\nauthority\n", "x"));
        assert_eq!(data(&server, TOKEN_TRACKING).await.str(SINCE), "1970-01-01");
    }
}
