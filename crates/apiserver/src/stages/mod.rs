//! The road of a request: its stages in the order of the picture in ARCHITECTURE.md, one file each. The one entrance for
//! clients on sockets and for components in the process.
//!
//! | stage | file |
//! | --- | --- |
//! | what is asked for | `request_info.rs` |
//! | until when | `deadline.rs`: it runs from when the body is read |
//! | who asks | `authenticate.rs` |
//! | audit | none yet; its place is in [`ApiServer::travel`] |
//! | as whom | `impersonation.rs` |
//! | whose turn it is | `fairness.rs` |
//! | may they | `authorize.rs` |
//! | where it goes | `route.rs`, then `pages.rs` or `resource.rs` |
//! | the way back | `reply.rs`, `count.rs` |
//!
//! A stage knows the request ([`incoming::Incoming`]) and what it needs of the server, and none knows another.

mod authenticate;
mod authorize;
mod count;
mod deadline;
mod fairness;
mod impersonation;
mod incoming;
mod missing;
mod pages;
mod refusal;
mod reply;
mod request_info;
mod resource;
mod route;

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderValue, Method, Request, header};
use rkube_access::UserRef;
use rkube_machinery::Status;

use crate::content::{Answer, drain};
use crate::limits::Slot;
use crate::request::{Options, RequestInfo};
use crate::server::ApiServer;
use incoming::Incoming;
use refusal::Refusal;

impl ApiServer {
    /// Answers a request. `connection`: the user of the connection's certificate, or the component's in-process identity.
    pub async fn handle<B>(&self, request: Request<B>, connection: Option<&UserRef>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = self.clock.now_micros();
        let (mut parts, body) = request.into_parts();
        let wanted = impersonation::take(&mut parts.headers);
        let (info, options) = request_info::read(&parts);
        let catalog = self.catalog.snapshot();
        let incoming = Incoming::new(&parts, &catalog, &info, (connection, &wanted), &options);
        let mutating = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let in_flight = self.metrics.in_flight(mutating);
        let mut body = std::pin::pin!(body);
        let mut slot = None;
        let travelling = self.travel(&incoming, body.as_mut(), options, &mut slot);
        let answer = AssertUnwindSafe(travelling).catch_unwind().await.unwrap_or_else(|_| Err(panicked(&info).into()));
        let answer = answer.or_else(Refusal::into_answer);
        drop(in_flight);
        if answer.is_err() && mutating {
            slot = None;
        }
        let is_read = !mutating || drain(body).await;
        let mut answer = reply::finish(&incoming, answer, self.features.response_compression);
        if !is_read && parts.version <= http::Version::HTTP_11 {
            // Clients must not send the next request behind a body that nobody reads.
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(slot) = slot {
            answer.body_mut().hold(slot);
        }
        let micros = self.clock.now_micros().saturating_sub(started);
        count::run(&self.metrics, &incoming, answer.status(), u64::try_from(micros).unwrap_or_default());
        answer
    }

    /// The stages, in their order. `slot` outlives them: it is held until the answer is sent.
    async fn travel<B>(
        &self,
        incoming: &Incoming<'_>,
        body: B,
        options: Options,
        slot: &mut Option<Slot>,
    ) -> Result<Answer, Refusal>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        request_info::check(incoming)?;
        let requester = authenticate::run(&self.authenticators, incoming)?;
        // Here is the place of audit: who asks is known, and nothing is refused to them yet.
        let acting = impersonation::run(&self.impersonation, &self.authorizers, incoming, requester)?;
        let user = acting.user();
        *slot = fairness::run(&self.limits, incoming.info, user)?;
        authorize::run(&self.authorizers, user, incoming.info)?;
        Ok(route::run(self, incoming, user, body, options).await?)
    }
}

fn panicked(info: &RequestInfo) -> Status {
    tracing::error!(path = info.path, verb = %info.verb, "a request made the server panic");
    Status::internal("This request caused apiserver to panic. Look in the logs for details.")
}
