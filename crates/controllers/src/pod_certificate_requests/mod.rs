//! Deletes PodCertificateRequests that are older than any pod waits for one. Runs where the gate `PodCertificateRequest` is
//! on.

use std::time::Duration;

use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Item, Selection, kube};
use serde::Deserialize;
use serde_json::json;

use crate::Context;
use crate::metadata::RawMetadata;
use crate::requests;

const API_VERSION: &str = "certificates.k8s.io/v1beta1";
const PLURAL: &str = "podcertificaterequests";
const PERIOD: Duration = Duration::from_secs(5 * 60);
const KEPT_SECONDS: i64 = 15 * 60;

struct Request {
    namespace: Text,
    name: Text,
    uid: Text,
    created: Option<i64>,
}

#[derive(Deserialize)]
struct RawRequest<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let resource = ApiResource {
        group: "certificates.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: API_VERSION.to_owned(),
        kind: "PodCertificateRequest".to_owned(),
        plural: PLURAL.to_owned(),
    };
    let selection = Selection { metadata_only: true, ..Selection::default() };
    let watched = caches.view(&resource, selection, read);
    watched.synced().await;
    loop {
        let now = clock.now_seconds();
        for request in watched.all().iter().filter(|request| is_old(request, now)) {
            let Request { namespace, name, uid, .. } = &**request;
            let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}/{name}");
            let options = json!({ "preconditions": { "uid": uid.as_str() } });
            match requests::delete_with(&client, &path, options).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => tracing::warn!(%namespace, %name, %error, "cannot delete a pod's certificate request"),
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

fn is_old(request: &Request, now: i64) -> bool {
    request.created.is_some_and(|created| now - created >= KEPT_SECONDS)
}

fn read(item: &Item) -> Option<Request> {
    let raw: RawRequest<'_> = serde_json::from_slice(&item.json).ok()?;
    Some(Request {
        namespace: item.namespace.clone(),
        name: item.name.clone(),
        uid: item.uid.clone(),
        created: raw.metadata.created(),
    })
}
