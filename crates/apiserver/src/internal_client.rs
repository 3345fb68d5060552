//! Requests that the server sends to itself: by the same road as everybody's, as a user of its own.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use rkube_access::UserRef;
use rkube_catalog::Entry;
use rkube_machinery::host::Clock;
use rkube_machinery::{Status, json};

use crate::registry::AGENT;
use crate::stages::Road;

#[derive(Clone)]
pub struct InternalClient {
    road: Weak<Road>,
    user: UserRef,
    pub clock: Arc<dyn Clock>,
}

impl InternalClient {
    pub fn new(road: &Arc<Road>, user: UserRef) -> InternalClient {
        InternalClient { road: Arc::downgrade(road), user, clock: road.clock.clone() }
    }

    /// Whether there is nobody to answer any more.
    pub fn is_gone(&self) -> bool {
        self.road.strong_count() == 0
    }

    pub fn is_served(&self, group: &str, version: &str, resource: &str) -> bool {
        self.road.upgrade().is_some_and(|road| road.catalog.find(group, version, resource).is_some())
    }

    /// The object as the cache has it, for those who look again and again: a request costs more than a look.
    pub fn cached(&self, (group, resource): (&str, &str), namespace: &str, name: &str) -> Option<Entry> {
        let resource = self.road.upgrade()?.catalog.resource(group, "v1", resource)?;
        resource.get(&resource.key(namespace, name))
    }

    /// Sends a request. Fails where the server is gone.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Status> {
        let road = self.road.upgrade().ok_or_else(|| Status::service_unavailable("the server is gone"))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, AGENT)
            .body(Full::new(body))
            .map_err(|error| Status::internal(error.to_string()))?;
        let answer = road.handle(request, Some(&self.user)).await;
        let code = answer.status();
        let body = answer.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Ok((code, body))
    }
}

/// An answer that should not be.
pub fn failed(path: &str, body: &[u8]) -> Status {
    let answer = json::parse(body).unwrap_or_default();
    let why = match answer.str("message") {
        "" => String::from_utf8_lossy(body),
        message => message.into(),
    };
    Status::internal(format!("{path}: {why}"))
}
