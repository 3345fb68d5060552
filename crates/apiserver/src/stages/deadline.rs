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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;
    use crate::test_server::server;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_body_that_does_not_come_counts() {
        let server = server().await;
        let never = StreamBody::new(futures::stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>());
        let request = Request::builder().method("POST").uri(format!("{MAPS}?timeout=5s")).body(never).unwrap();
        let arrived = Instant::now();
        let answer = server.handle(request, Some(&server.road.registry.itself)).await;
        assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
        // Of the paused clock: five seconds, and one to look for the rest of the body.
        assert_eq!(arrived.elapsed().as_secs(), 6);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("request did not complete within the allotted timeout"));
    }

    #[tokio::test]
    async fn a_limit_that_is_none_is_refused_whoever_asks() {
        let server = server().await;
        for path in [MAPS, "/version"] {
            let uri = format!("{path}?timeout=5");
            let request = Request::builder().uri(uri).body(Full::new(Bytes::new())).unwrap();
            assert_eq!(server.handle(request, None).await.status(), StatusCode::BAD_REQUEST, "{path}");
        }
    }
}
