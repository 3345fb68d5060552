//! The way of a part's requests to the server, on which some get lost.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use rkube_apiserver::Body;
use rkube_cluster::Transport;
use rkube_operator::kube::client::Body as Sent;
use tower::Service;

use super::parts::Instance;
use super::plan::Safeguard;
use super::trace::Requester;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The requests of one instance of a part.
#[derive(Clone)]
pub(crate) struct Unreliable {
    direct: Transport,
    instance: Arc<Instance>,
    user: Arc<str>,
}

/// What becomes of a request.
#[derive(Clone, Copy)]
enum Fate {
    Arrives,
    /// It is not carried out.
    Refused(StatusCode, &'static str),
    /// It is carried out, and nobody is told.
    Unacknowledged,
}

impl Unreliable {
    pub fn new(direct: Transport, instance: Arc<Instance>, user: &str) -> Unreliable {
        Unreliable { direct, instance, user: user.into() }
    }

    fn draw(&self, request: &Request<Sent>) -> Fate {
        let chaos = self.instance.chaos();
        let plan = chaos.plan();
        let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
        let fate = if matches!(*request.method(), Method::PUT | Method::PATCH) && chaos.happens(plan.conflicts) {
            Fate::Refused(StatusCode::CONFLICT, "Conflict")
        } else if chaos.happens(plan.overloads) {
            Fate::Refused(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")
        } else if chaos.happens(plan.errors) {
            match chaos.below(3) {
                0 => Fate::Refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
                1 => Fate::Refused(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
                _ => Fate::Refused(StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            }
        } else if writes && chaos.happens(plan.lost_acknowledgements) {
            Fate::Unacknowledged
        } else {
            return Fate::Arrives;
        };
        let what = match fate {
            Fate::Refused(code, _) => code.as_str().to_owned(),
            _ => "lost answer".to_owned(),
        };
        chaos.note(&format!("{}: {what}: {} {}", self.instance.name, request.method(), request.uri().path()));
        fate
    }
}

impl Service<Request<Sent>> for Unreliable {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.direct.poll_ready(context)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let (instance, user) = (self.instance.clone(), self.user.clone());
        let chaos = instance.chaos();
        let fate = self.draw(&request);
        let slow = chaos.happens(chaos.plan().slow_requests).then(|| chaos.a_while(chaos.plan().request_delay_max));
        let drops_conflicts = chaos.plan().without == Some(Safeguard::ConflictRetry);
        let mut asking = drops_conflicts.then(|| (self.direct.clone(), current(&request)));
        // It is carried out when it is polled, not before.
        let answering = self.direct.call(request);
        async move {
            if let Some(delay) = slow {
                tokio::time::sleep(delay).await;
            }
            instance.lives().await;
            let is_told = !matches!(fate, Fate::Unacknowledged);
            let answering = attributed(answering, Requester { instance: instance.clone(), user, is_told });
            let answer = match fate {
                Fate::Arrives => answering.await?,
                Fate::Refused(code, reason) => refusal(code, reason),
                Fate::Unacknowledged => {
                    answering.await?;
                    return Err("connection reset by peer".into());
                }
            };
            instance.lives().await;
            match asking.take() {
                Some((mut direct, request)) if answer.status() == StatusCode::CONFLICT => direct.call(request).await,
                _ => Ok(answer),
            }
        }
        .boxed()
    }
}

/// Has what is written while a request is carried out noted as the instance's.
fn attributed(
    mut answering: BoxFuture<'static, Result<Response<Body>, BoxError>>,
    requester: Requester,
) -> impl Future<Output = Result<Response<Body>, BoxError>> {
    std::future::poll_fn(move |context| {
        let chaos = requester.instance.chaos();
        chaos.set_writer(Some(&requester));
        let answer = answering.as_mut().poll(context);
        chaos.set_writer(None);
        answer
    })
}

/// Asks for the object as it is, instead of writing it: who takes that for the answer takes a conflict for a success.
fn current(request: &Request<Sent>) -> Request<Sent> {
    let path = request.uri().path();
    let path = path.strip_suffix("/status").or_else(|| path.strip_suffix("/scale")).unwrap_or(path);
    let mut asked = Request::new(Sent::empty());
    *asked.uri_mut() = path.parse().unwrap_or_else(|_| request.uri().clone());
    asked
}

fn refusal(code: StatusCode, reason: &'static str) -> Response<Body> {
    let message = match code {
        StatusCode::CONFLICT => {
            "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again"
        }
        _ => "a fault of the test",
    };
    let text = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(Body::from(text.to_string().into_bytes()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    if code == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    answer
}
