//! The roles and bindings that every cluster has: made in a new one, and brought up to date at each start as upstream
//! does it. What people have added to them stays, and so does what they have marked as their own.

mod plan;
mod table;

use bytes::Bytes;
use futures::future::join_all;
use http::{Method, StatusCode};
use rkube_catalog::Entry;
use rkube_machinery::{Status, Value, json};

use crate::features::Features;
use crate::internal_client::{InternalClient, failed};
use crate::registry::{InternalWriter, Registry};
use plan::Plan;

const GROUP: &str = "rbac.authorization.k8s.io";
/// A write that another server on the same store overtakes is planned again so often.
const ATTEMPTS_MAX: usize = 4;

/// Returns when all are as they should be. All are written at once, so that they share their way to the disk; nothing
/// is written where nothing is to be done.
pub async fn settle(client: &InternalClient, registry: &Registry, features: &Features) -> Result<(), Status> {
    let objects = table::objects(features);
    let settled = join_all(objects.iter().map(|expected| settle_one(client, registry, expected))).await;
    settled.into_iter().collect()
}

async fn settle_one(client: &InternalClient, registry: &Registry, expected: &Value) -> Result<(), Status> {
    let metadata = expected.get("metadata");
    let resource = format!("{}s", expected.str("kind").to_lowercase());
    let Some(writer) = InternalWriter::new(registry, GROUP, "v1", &resource, metadata.str("namespace")) else {
        // The group is turned off.
        return Ok(());
    };
    let mut last = Ok(());
    for _ in 0..ATTEMPTS_MAX {
        let existing = writer.find(metadata.str("name")).await?;
        last = match existing {
            None => create(registry, &writer, &resource, expected).await,
            Some(existing) => bring_up_to_date((client, registry), &writer, &resource, expected, &existing).await,
        };
        match &last {
            Err(status) if matches!(status.code, 404 | 409) => {}
            _ => break,
        }
    }
    last
}

async fn create(
    registry: &Registry,
    writer: &InternalWriter<'_>,
    resource: &str,
    expected: &Value,
) -> Result<(), Status> {
    let mut object = expected.clone();
    if let Some(served) = registry.catalog.find(GROUP, "v1", resource) {
        served.kind.schema.complete(&mut object);
    }
    writer.create(object).await.map(drop)
}

async fn bring_up_to_date(
    (client, registry): (&InternalClient, &Registry),
    writer: &InternalWriter<'_>,
    resource: &str,
    expected: &Value,
    existing: &Entry,
) -> Result<(), Status> {
    let name = existing.object.name.as_str();
    match plan::plan(expected, &existing.object.value(existing.revision)) {
        Plan::Nothing => Ok(()),
        Plan::Protected => {
            tracing::warn!(resource, name, "a default role lacks something and is marked not to be updated");
            Ok(())
        }
        Plan::Recreate => {
            writer.delete(name, &existing.object.uid).await?;
            create(registry, writer, resource, expected).await
        }
        Plan::Update(object) => {
            let scope = match existing.object.namespace.as_str() {
                "" => String::new(),
                namespace => format!("namespaces/{namespace}/"),
            };
            let path = format!("/apis/{GROUP}/v1/{scope}{resource}/{name}");
            let body = Bytes::from(json::to_string(&object));
            match Box::pin(client.ask(Method::PUT, &path, "application/json", body)).await? {
                (code, _) if code.is_success() => Ok(()),
                (code @ (StatusCode::NOT_FOUND | StatusCode::CONFLICT), body) => {
                    Err(Status { code: code.as_u16(), ..failed(&path, &body) })
                }
                (_, body) => Err(failed(&path, &body)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
