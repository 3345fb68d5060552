//! The endpoints of the `kubernetes` service: the addresses of all servers on the store, as Endpoints and EndpointSlice
//! in the namespace `default`.
//!
//! Every server has a key in the store that goes with it ([`membership`]); each makes the objects of the keys that are
//! there ([`plan`]), so that it does not matter which of them does. One that ends in good order takes itself out; of one
//! that does not the key runs out, and the others notice within [`INTERVAL`].

mod membership;
mod plan;

use std::net::IpAddr;
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use rkube_machinery::{Status, Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::bootstrap::{ask, failed};
use crate::server::ApiServer;
use membership::Membership;
use plan::{Member, Step};

/// How often the own key is renewed and the objects are compared with the keys.
const INTERVAL: Duration = Duration::from_secs(10);

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const NAME: &str = "kubernetes";

/// Keeps the endpoints until the server drains or is gone. `alone`: no other server can be on the store.
pub async fn keep(server: Weak<ApiServer>, address: IpAddr, alone: bool) {
    let Some(first) = server.upgrade() else { return };
    let own = Member { port: first.advertise.1, address };
    let mut membership = Membership::new(first.store.clone(), own);
    let mut draining = first.draining.subscribe();
    if alone && let Err(error) = membership.forget_others().await {
        tracing::debug!(%error, "cannot remove what servers before this one left in the store");
    }
    drop(first);
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        let ends = tokio::select! {
            _ = draining.wait_for(|draining| *draining) => true,
            _ = ticks.tick() => false,
        };
        let Some(server) = server.upgrade() else { return };
        if ends {
            if let Err(status) = leave(&server, &mut membership).await {
                tracing::debug!(why = status.message, "cannot take this server out of the endpoints of `kubernetes`");
            }
            return;
        }
        match settle(&server, &mut membership).await {
            Ok(()) => failing = false,
            Err(status) if !std::mem::replace(&mut failing, true) => {
                tracing::warn!(why = status.message, "cannot keep the endpoints of the service `kubernetes`");
            }
            Err(_) => {}
        }
    }
}

async fn settle(server: &ApiServer, membership: &mut Membership) -> Result<(), Status> {
    let unavailable = |error: rkube_store::Error| Status::internal(error.to_string());
    membership.renew().await.map_err(unavailable)?;
    let members = membership.all().await.map_err(unavailable)?;
    if !membership.is_among(&members) {
        return Err(Status::internal("this server's own key is not in the store"));
    }
    publish(server, &members).await
}

/// The last one leaves objects without addresses.
async fn leave(server: &ApiServer, membership: &mut Membership) -> Result<(), Status> {
    let unavailable = |error: rkube_store::Error| Status::internal(error.to_string());
    membership.end().await.map_err(unavailable)?;
    publish(server, &membership.all().await.map_err(unavailable)?).await
}

async fn publish(server: &ApiServer, members: &[Member]) -> Result<(), Status> {
    if let Some(current) = find(server, ENDPOINTS).await? {
        act(server, ENDPOINTS, plan::endpoints(members, current.as_ref())).await?;
    }
    if let Some(current) = find(server, SLICES).await? {
        act(server, SLICES, plan::slice(members, current.as_ref())).await?;
    }
    Ok(())
}

/// The object, where there is one; `None` where its kind is not served.
async fn find(server: &ApiServer, collection: &str) -> Result<Option<Option<Value>>, Status> {
    let served = match collection {
        ENDPOINTS => server.catalog.find("", "v1", "endpoints"),
        _ => server.catalog.find("discovery.k8s.io", "v1", "endpointslices"),
    };
    if served.is_none() {
        return Ok(None);
    }
    let path = format!("{collection}/{NAME}");
    match ask(server, Method::GET, &path, "", Bytes::new()).await? {
        (StatusCode::OK, body) => Ok(Some(json::parse(&body).ok())),
        (StatusCode::NOT_FOUND, _) => Ok(Some(None)),
        (_, body) => Err(failed(&path, &body)),
    }
}

async fn act(server: &ApiServer, collection: &str, step: Step) -> Result<(), Status> {
    let named = format!("{collection}/{NAME}");
    let (method, path, object) = match step {
        Step::Nothing => return Ok(()),
        Step::Create(object) => (Method::POST, collection, object),
        Step::Update(object) => (Method::PUT, named.as_str(), object),
        Step::Replace(object) => {
            let (code, body) = ask(server, Method::DELETE, &named, "", Bytes::new()).await?;
            if !code.is_success() && code != StatusCode::NOT_FOUND {
                return Err(failed(&named, &body));
            }
            (Method::POST, collection, object)
        }
    };
    let (code, body) = ask(server, method, path, "application/json", json::to_string(&object).into()).await?;
    // Whoever was faster wrote the same, or will be corrected next time.
    if code.is_success() || code == StatusCode::CONFLICT { Ok(()) } else { Err(failed(&named, &body)) }
}

#[cfg(test)]
mod tests;
