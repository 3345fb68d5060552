//! Requests that are passed on: to nodes, pods and services.
//!
//! A request goes out as it came in, on a connection of its own; its body and the answer's are streams. Where the client
//! asks for another protocol and the backend agrees, both connections are joined, and bytes are copied until one of them
//! ends: WebSocket and SPDY alike. There are at most [`CONNECTIONS_MAX`] such connections; more are turned away.

mod dial;
mod headers;
mod html;
mod location;
mod relay;
mod rewrite;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rkube_extensions::webhook::words;
use rkube_machinery::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::content::{Answer, Body};
use crate::limits::RETRY_AFTER_SECONDS;
use crate::request::HeldPlace;
use dial::Connectors;
pub use dial::KubeletTls;
pub use headers::{ClientAddress, wanted_upgrade};
pub use location::{Id, Location, Security, backend_path, encode_query};
use rewrite::Prefix;

/// So many connections to backends are open at once.
pub const CONNECTIONS_MAX: usize = 1_000;

/// What a client sends beside the head of its request.
pub type ClientBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A request to be passed on, as it came in.
pub struct Visit<'a> {
    pub parts: &'a Parts,
    pub body: ClientBody,
}

/// How requests are passed on.
pub struct Proxy {
    connectors: Connectors,
    turns: Arc<Semaphore>,
    /// True once the server takes no more work: joined connections end.
    draining: watch::Receiver<bool>,
}

/// What a backend answered, and what its connection holds.
type Exchanged = (Response<Incoming>, OwnedSemaphorePermit);

impl Proxy {
    pub fn new(tls: KubeletTls<'_>, draining: watch::Receiver<bool>) -> Result<Proxy, String> {
        let turns = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Ok(Proxy { connectors: Connectors::new(tls)?, turns, draining })
    }

    /// Gets what a backend has to say, without a client's request: `Err` says why it was not reached.
    pub async fn get(&self, location: &Location, accept: &'static str) -> Result<Response<Body>, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if let Ok(host) = HeaderValue::from_str(&location.authority()) {
            headers.insert(header::HOST, host);
        }
        let nothing = http_body_util::Empty::new().map_err(Into::into).boxed_unsync();
        let exchanged = self.exchange(location, (Method::GET, headers), nothing).await?;
        let (response, held) = exchanged.map_err(|why| failed(format!("Get \"{location}\": {why}")))?;
        Ok(relayed(response, held))
    }

    /// Passes a request on that must become another protocol: `exec`, `attach`, `portforward`.
    pub async fn upgrade(&self, location: &Location, visit: Visit<'_>) -> Result<Answer, Status> {
        if wanted_upgrade(&visit.parts.headers).is_none() {
            return Err(Status::bad_request("Upgrade request required"));
        }
        self.try_upgrade(location, visit).await
    }

    /// Passes any request on. Links in the answer lead back through here.
    pub async fn forward(&self, location: &Location, visit: Visit<'_>, prefix: &str) -> Result<Answer, Status> {
        if wanted_upgrade(&visit.parts.headers).is_some() {
            return self.try_upgrade(location, visit).await;
        }
        let parts = visit.parts;
        if location.path.is_empty() && matches!(parts.method, Method::GET | Method::HEAD) {
            return Ok(redirect_to_root(parts));
        }
        let prefix = Prefix::new(prefix, location, parts);
        let headers = headers::outgoing(parts, Some(&prefix.forwarded_uri(location)));
        let exchanged = self.exchange(location, (parts.method.clone(), headers), visit.body).await?;
        let reached = |why: String| Status::service_unavailable(format!("error trying to reach service: {why}"));
        let (response, held) = exchanged.map_err(reached)?;
        let mut answer = relayed(response, held);
        headers::remove_cors(answer.headers_mut());
        rewrite::run(&prefix, answer).await
    }

    async fn try_upgrade(&self, location: &Location, visit: Visit<'_>) -> Result<Answer, Status> {
        let Visit { parts, body } = visit;
        let Some(client) = parts.extensions.get::<OnUpgrade>().cloned() else {
            return Err(failed("request connection cannot be hijacked".to_owned()));
        };
        let headers = headers::outgoing(parts, None);
        let exchanged = self.exchange(location, (parts.method.clone(), headers), body).await?;
        let (mut response, held) = exchanged.map_err(|why| failed(format!("error dialing backend: {why}")))?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {}
            other if other.as_u16() < 400 => {
                return Err(failed(format!("invalid upgrade response: status code {}", other.as_u16())));
            }
            _ => return Ok(relayed(response, held)),
        }
        let place = parts.extensions.get::<HeldPlace>().cloned();
        let backend = hyper::upgrade::on(&mut response);
        tokio::spawn(relay::run(client, backend, self.draining.clone(), (held, place)));
        Ok(response.map(|_| Body::Empty))
    }

    /// Sends a request and waits for the head of its answer. The outer error is the server's own.
    async fn exchange(
        &self,
        location: &Location,
        (method, headers): (Method, HeaderMap),
        body: ClientBody,
    ) -> Result<Result<Exchanged, String>, Status> {
        let Ok(held) = self.turns.clone().try_acquire_owned() else {
            let why =
                "as many connections to nodes, pods and services are open as there may be, please try again later";
            return Err(Status::too_many_requests(why, RETRY_AFTER_SECONDS));
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = match location.path_and_query().parse() {
            Ok(uri) => uri,
            Err(error) => return Err(Status::bad_request(format!("{error}"))),
        };
        *request.headers_mut() = headers;
        Ok(self.send(location, request).await.map(|response| (response, held)))
    }

    async fn send(&self, location: &Location, request: Request<ClientBody>) -> Result<Response<Incoming>, String> {
        let stream = self.connectors.dial(location).await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| words::http(&error))?;
        // Ends when the answer is read, or when nobody reads it any more.
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to a backend broke");
            }
        });
        sender.send_request(request).await.map_err(|error| words::http(&error))
    }
}

/// An error that is no status of the API's: what it says, and no reason.
pub fn failed(message: String) -> Status {
    Status { code: 500, message, ..Status::default() }
}

/// Pages with relative links need a slash at the end of their address.
fn redirect_to_root(parts: &Parts) -> Answer {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut answer = Response::new(Body::Empty);
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(place) = HeaderValue::from_str(&format!("{}/{query}", parts.uri.path())) {
        answer.headers_mut().insert(header::LOCATION, place);
    }
    answer
}

fn relayed(response: Response<Incoming>, held: OwnedSemaphorePermit) -> Answer {
    let mut answer = response.map(|body| Body::Relayed(Box::pin(RelayedBody { body, _held: held })));
    headers::incoming(answer.headers_mut());
    answer
}

/// A backend's body, and its place among the connections.
struct RelayedBody {
    body: Incoming,
    _held: OwnedSemaphorePermit,
}

impl http_body::Body for RelayedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(io::Error::other)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
