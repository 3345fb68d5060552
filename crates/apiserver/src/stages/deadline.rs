//! Until when a request is worked on: so long after it arrived, whatever it waits for.

use http::StatusCode;
use rkube_machinery::Status;
use tokio::time::{Instant, timeout_at};

use super::refusal::Refusal;
use crate::content::{Accept, Answer, value_answer};
use crate::request::{Query, RequestInfo};

/// When the work on the request has to be done; none for what lasts as long as the client wants.
pub fn of(info: &RequestInfo, query: &Query, arrived: Instant) -> Result<Option<Instant>, Status> {
    if info.is_long_running() { Ok(None) } else { query.time_limit().map(|limit| Some(arrived + limit)) }
}

/// Ends the work when its time is over. What it had to say is not said then, not even its warnings.
pub async fn run(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<Answer, Refusal>>,
) -> Result<Answer, Refusal> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await.unwrap_or_else(|_| Err(Refusal::plain(too_slow()))),
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
