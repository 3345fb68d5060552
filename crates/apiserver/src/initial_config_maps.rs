//! ConfigMaps of `kube-system` that the server itself keeps: whose client certificates it takes, for servers beside it
//! that want to take the same, and since when tokens in Secrets are watched for their use.
// tidy: types ConfigMap

use bytes::Bytes;
use futures::future::try_join;
use http::{Method, StatusCode};
use rkube_machinery::{Status, Value, json, object, time};

use crate::internal_client::{InternalClient, failed};

const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const CLIENT_AUTHORITY: &str = "client-ca-file";
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";

/// Makes what is missing. Authorities that others have added stay.
pub async fn settle(client: &InternalClient, client_authority: &str) -> Result<(), Status> {
    try_join(settle_authority(client, client_authority.trim()), settle_tracking(client)).await.map(drop)
}

async fn settle_authority(client: &InternalClient, own: &str) -> Result<(), Status> {
    if own.is_empty() {
        return Ok(());
    }
    settle_entry(client, AUTHENTICATION, CLIENT_AUTHORITY, |known| match known {
        known if known.contains(own) => None,
        "" => Some(format!("{own}\n")),
        known => Some(format!("{}\n{own}\n", known.trim_end())),
    })
    .await
}

async fn settle_tracking(client: &InternalClient) -> Result<(), Status> {
    let now = time::format_seconds(client.clock.now_seconds());
    let today = now.split('T').next().unwrap_or_default();
    let is_date = |text: &str| time::parse_date(text).is_ok();
    settle_entry(client, TOKEN_TRACKING, SINCE, |known| (!is_date(known)).then(|| today.to_owned())).await
}

/// Writes the entry of a map if `wanted` says that it should be another one.
async fn settle_entry(
    client: &InternalClient,
    name: &str,
    key: &str,
    wanted: impl Fn(&str) -> Option<String> + Send,
) -> Result<(), Status> {
    let path = format!("{MAPS}/{name}");
    let (code, body) = Box::pin(client.ask(Method::GET, &path, "", Bytes::new())).await?;
    let found = if code == StatusCode::OK { json::parse(&body).unwrap_or_default() } else { Value::Null };
    let Some(value) = wanted(found.get("data").str(key)) else { return Ok(()) };
    let mut data = Value::object();
    data.set(key, value);
    let metadata = match code {
        StatusCode::OK => object! { "resourceVersion": found.get("metadata").str("resourceVersion") },
        _ => object! { "name": name },
    };
    let body = Bytes::from(json::to_string(&object! { "metadata": metadata, "data": data }));
    let (method, path, content_type) = match code {
        StatusCode::OK => (Method::PATCH, path.as_str(), "application/merge-patch+json"),
        _ => (Method::POST, MAPS, "application/json"),
    };
    match Box::pin(client.ask(method, path, content_type, body)).await? {
        // Another server on the same store was first, or somebody removed it: later.
        (code, _) if code.is_success() || matches!(code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
        (_, body) => Err(failed(path, &body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ApiServer;
    use crate::test_server::{self, ask};

    async fn data(server: &ApiServer, name: &str) -> Value {
        let path = format!("{MAPS}/{name}");
        let (code, body) = ask(server, Method::GET, &path, "", Bytes::new()).await.unwrap();
        assert_eq!(code, StatusCode::OK);
        json::parse(&body).unwrap().get("data").clone()
    }

    async fn patch(server: &ApiServer, name: &str, body: &'static str) {
        let path = format!("{MAPS}/{name}");
        let body = Bytes::from_static(body.as_bytes());
        let (code, _) = ask(server, Method::PATCH, &path, "application/merge-patch+json", body).await.unwrap();
        assert_eq!(code, StatusCode::OK);
    }

    #[tokio::test]
    async fn they_are_made_and_mended() {
        let server = test_server::server().await;
        let client = InternalClient::new(&server.road, server.road.registry.itself.clone());
        assert_eq!(data(&server, AUTHENTICATION).await.str(CLIENT_AUTHORITY), "authority\n");
        assert_eq!(data(&server, TOKEN_TRACKING).await.str(SINCE), "1970-01-01");
        let revision = server.road.registry.store.revision().await.unwrap();
        settle(&client, "authority").await.unwrap();
        assert_eq!(server.road.registry.store.revision().await.unwrap(), revision, "there was nothing to do");

        patch(&server, AUTHENTICATION, r#"{"data":{"client-ca-file":"another\n","more":"x"}}"#).await;
        patch(&server, TOKEN_TRACKING, r#"{"data":{"since":"never"}}"#).await;
        settle(&client, "authority").await.unwrap();
        let found = data(&server, AUTHENTICATION).await;
        assert_eq!((found.str(CLIENT_AUTHORITY), found.str("more")), ("another\nauthority\n", "x"));
        assert_eq!(data(&server, TOKEN_TRACKING).await.str(SINCE), "1970-01-01");
    }
}
