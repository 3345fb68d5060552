//! `get`.

use http::StatusCode;
use rkube_machinery::Status;

use super::request::Request;
use super::{Registry, cache_error};
use crate::content::Answer;

pub async fn get(registry: &Registry, request: &Request<'_>) -> Result<Answer, Status> {
    if let Some(text) = &request.query.resource_version {
        unworded_version(text)?;
    }
    wait_for_version(registry, request).await?;
    let entry = request.find()?;
    request.object_answer(StatusCode::OK, &entry, registry.clock.now_seconds()).await
}

/// Waits until the cache is as new as the request's resource version wants: none means as new as the store.
pub async fn wait_for_version(registry: &Registry, request: &Request<'_>) -> Result<u64, Status> {
    let cache = registry.catalog.cache();
    match request.query.resource_version.as_deref() {
        None => cache.fresh().await.map_err(cache_error),
        Some(text) => {
            let wanted = parse_version(text)?;
            cache.reach(wanted).await.map_err(cache_error)?;
            Ok(wanted)
        }
    }
}

/// As [`parse_version`], but answered as Kubernetes answers it where the storage finds the mistake: without a reason.
pub fn unworded_version(text: &str) -> Result<u64, Status> {
    parse_version(text).map_err(|status| {
        let message = status.message.trim_start_matches("invalid resource version: ").to_owned();
        Status { code: 500, message, ..Status::default() }
    })
}

pub fn parse_version(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| {
        Status::bad_request(format!("invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"))
    })
}
