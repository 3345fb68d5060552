//! Events on their way to the API.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use serde::Serialize;

/// So often it is tried to write an event while the API cannot be reached, with a pause in between; upstream's.
const TRIES_MAX: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// What the API said of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Done,
    NotFound,
    AlreadyExists,
    /// It will not be taken.
    Refused,
}

/// Creates an event.
pub(super) async fn create(client: &Client, events: &str, event: &impl Serialize) -> Sent {
    send(client, Method::POST, events, "application/json", event).await
}

/// Changes an event that is there.
pub(super) async fn patch(client: &Client, events: &str, name: &str, patch: &impl Serialize) -> Sent {
    let path = format!("{events}/{name}");
    send(client, Method::PATCH, &path, "application/strategic-merge-patch+json", patch).await
}

async fn send(client: &Client, method: Method, path: &str, content_type: &str, body: &impl Serialize) -> Sent {
    let Ok(body) = serde_json::to_vec(body) else { return Sent::Refused };
    for _ in 0..TRIES_MAX {
        let request = Request::builder().method(method.clone()).uri(path);
        let request = request.header(http::header::CONTENT_TYPE, content_type).body(body.clone());
        let Ok(request) = request else { return Sent::Refused };
        match client.request_text(request).await {
            Ok(_) => return Sent::Done,
            Err(kube::Error::Api(status)) => {
                tracing::debug!(path, why = status.message, "an event was not written");
                return match (status.code, status.reason.as_str()) {
                    (404, _) => Sent::NotFound,
                    (_, "AlreadyExists") => Sent::AlreadyExists,
                    _ => Sent::Refused,
                };
            }
            Err(error) => tracing::debug!(%error, "an event was not written, and is tried again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Sent::Refused
}
