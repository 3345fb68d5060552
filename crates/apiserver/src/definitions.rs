//! What the task that serves custom resources asks of the server.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use rkube_catalog::{Entry, Served};
use rkube_extensions::conversion::Converters;
use rkube_extensions::definitions::{Definitions, Requests};
use rkube_kinds::custom_resource_definition::{GROUP, RESOURCE, VERSION};
use rkube_machinery::{Status, Value, json};

use crate::internal_client::{InternalClient, failed};
use crate::registry::{InternalWriter, Registry};

/// What the task writes. It ends when this is gone.
pub struct DefinitionWriter {
    pub client: InternalClient,
    pub registry: Arc<Registry>,
}

/// Serves the custom resources that are defined, and those that will be, until the server takes no more work.
pub async fn start(writer: &Arc<DefinitionWriter>) {
    let requests: Arc<dyn Requests> = writer.clone();
    let Registry { catalog, clock, entropy, metrics, draining, .. } = &*writer.registry;
    let Some(definitions) = Definitions::new(catalog.clone(), Arc::downgrade(&requests), clock.clone()) else { return };
    let converters = Converters::new(catalog, entropy.clone(), metrics.conversion.clone());
    let definitions = definitions.with_converters(converters);
    let mut draining = draining.clone();
    let end = async move {
        // Without a sender the server is gone.
        let _ = draining.wait_for(|draining| *draining).await;
    };
    definitions.start(end).await;
}

impl Requests for DefinitionWriter {
    fn put_status(&self, definition: Value) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            let name = definition.get("metadata").str("name");
            let path = format!("/apis/{GROUP}/{VERSION}/{RESOURCE}/{name}/status");
            let body = Bytes::from(json::to_string(&definition));
            let (code, answer) = self.client.ask(Method::PUT, &path, "application/json", body).await?;
            match code.is_success() {
                true => Ok(()),
                false => Err(Status { code: code.as_u16(), ..failed(&path, &answer) }),
            }
        })
    }

    fn delete<'a>(&'a self, served: &'a Arc<Served>, entry: &'a Entry) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let object = &entry.object;
            let writer = InternalWriter::of(&self.registry, served.clone(), &object.namespace);
            writer.delete(&object.name, &object.uid).await
        })
    }
}
