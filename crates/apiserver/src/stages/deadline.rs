//! Until when a request is worked on.

use std::time::Duration;

use http::StatusCode;
use rkube_machinery::Status;

use crate::content::{Accept, Answer, value_answer};
use crate::request::{Options, RequestInfo};

/// How long the work on the request may take; none for what lasts as long as the client wants.
pub fn of(info: &RequestInfo, options: &Options) -> Result<Option<Duration>, Status> {
    if info.is_long_running() { Ok(None) } else { options.time_limit().map(Some) }
}

/// Ends the work when its time is over.
pub async fn run(
    limit: Option<Duration>,
    work: impl Future<Output = Result<Answer, Status>>,
) -> Result<Answer, Status> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Ok(too_slow())),
        None => work.await,
    }
}

/// Said below the codecs: a status without its kind, whatever form was asked for.
fn too_slow() -> Answer {
    let status = Status::timeout("request did not complete within the allotted timeout", 0);
    let mut value = status.to_value();
    value.remove("kind");
    value.remove("apiVersion");
    value_answer(StatusCode::GATEWAY_TIMEOUT, Accept::PLAIN, &value, None)
}
