//! The endpoints of the `kubernetes` service: the addresses of all servers on the store, as Endpoints and EndpointSlice
//! in the namespace `default`.
//!
//! Every server has a key in the store that goes with it ([`membership`]); each makes the objects of the keys that are
//! there ([`plan`]), so that it does not matter which of them does. One that ends in good order takes itself out; of one
//! that does not the key runs out, and the others notice within [`INTERVAL`].

mod membership;
mod plan;

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use rkube_machinery::{Status, Value, json};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::internal_client::{InternalClient, failed};
pub use membership::Membership;
pub use plan::Member;
use plan::Step;

/// How often the own key is renewed and the objects are compared with the keys.
const INTERVAL: Duration = Duration::from_secs(10);

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const NAME: &str = "kubernetes";

/// Keeps the endpoints until the server drains or is gone. `alone`: no other server can be on the store.
pub async fn keep(
    client: InternalClient,
    mut membership: Membership,
    mut draining: watch::Receiver<bool>,
    alone: bool,
) {
    if alone && let Err(error) = membership.forget_others().await {
        tracing::debug!(%error, "cannot remove what servers before this one left in the store");
    }
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        let ends = tokio::select! {
            biased;
            _ = draining.wait_for(|draining| *draining) => true,
            _ = ticks.tick() => false,
        };
        if client.is_gone() {
            return;
        }
        if ends {
            if let Err(status) = leave(&client, &mut membership).await {
                tracing::debug!(why = status.message, "cannot take this server out of the endpoints of `kubernetes`");
            }
            return;
        }
        match settle(&client, &mut membership).await {
            Ok(()) => failing = false,
            Err(status) if !std::mem::replace(&mut failing, true) => {
                tracing::warn!(why = status.message, "cannot keep the endpoints of the service `kubernetes`");
            }
            Err(_) => {}
        }
    }
}

async fn settle(client: &InternalClient, membership: &mut Membership) -> Result<(), Status> {
    let unavailable = |error: rkube_store::Error| Status::internal(error.to_string());
    membership.renew().await.map_err(unavailable)?;
    let members = membership.all().await.map_err(unavailable)?;
    if !membership.is_among(&members) {
        return Err(Status::internal("this server's own key is not in the store"));
    }
    publish(client, &members).await
}

/// The last one leaves objects without addresses.
async fn leave(client: &InternalClient, membership: &mut Membership) -> Result<(), Status> {
    let unavailable = |error: rkube_store::Error| Status::internal(error.to_string());
    membership.end().await.map_err(unavailable)?;
    publish(client, &membership.all().await.map_err(unavailable)?).await
}

async fn publish(client: &InternalClient, members: &[Member]) -> Result<(), Status> {
    if let Some(current) = find(client, ENDPOINTS).await? {
        act(client, ENDPOINTS, plan::endpoints(members, current.as_ref())).await?;
    }
    if let Some(current) = find(client, SLICES).await? {
        act(client, SLICES, plan::slice(members, current.as_ref())).await?;
    }
    Ok(())
}

/// The object, where there is one; `None` where its kind is not served.
async fn find(client: &InternalClient, collection: &str) -> Result<Option<Option<Value>>, Status> {
    let served = match collection {
        ENDPOINTS => client.is_served("", "v1", "endpoints"),
        _ => client.is_served("discovery.k8s.io", "v1", "endpointslices"),
    };
    if !served {
        return Ok(None);
    }
    let path = format!("{collection}/{NAME}");
    match client.ask(Method::GET, &path, "", Bytes::new()).await? {
        (StatusCode::OK, body) => Ok(Some(json::parse(&body).ok())),
        (StatusCode::NOT_FOUND, _) => Ok(Some(None)),
        (_, body) => Err(failed(&path, &body)),
    }
}

async fn act(client: &InternalClient, collection: &str, step: Step) -> Result<(), Status> {
    let named = format!("{collection}/{NAME}");
    let (method, path, object) = match step {
        Step::Nothing => return Ok(()),
        Step::Create(object) => (Method::POST, collection, object),
        Step::Update(object) => (Method::PUT, named.as_str(), object),
        Step::Replace(object) => {
            let (code, body) = client.ask(Method::DELETE, &named, "", Bytes::new()).await?;
            if !code.is_success() && code != StatusCode::NOT_FOUND {
                return Err(failed(&named, &body));
            }
            (Method::POST, collection, object)
        }
    };
    let (code, body) = client.ask(method, path, "application/json", json::to_string(&object).into()).await?;
    // Whoever was faster wrote the same, or will be corrected next time.
    if code.is_success() || code == StatusCode::CONFLICT { Ok(()) } else { Err(failed(&named, &body)) }
}

#[cfg(test)]
mod tests;
