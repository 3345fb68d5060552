//! The road of a request: its stages in the order of the picture in ARCHITECTURE.md, one file each. The one entrance for
//! clients on sockets and for components in the process.
//!
//! | stage | file |
//! | --- | --- |
//! | what is asked for | `request_info.rs` |
//! | until when | `deadline.rs` |
//! | who asks | `authenticate.rs` |
//! | audit | none yet; its place is in [`Road::travel`] |
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
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderValue, Method, Request, header};
use rkube_access::UserRef;
use rkube_access::authenticate::{Authenticators, Known};
use rkube_access::authorize::Authorizers;
use rkube_access::impersonate::Impersonation;
use rkube_catalog::Catalog;
use rkube_machinery::Status;
use rkube_machinery::host::Clock;
use tokio::time::Instant;

use crate::content::{Answer, drain};
use crate::limits::{Limits, Slot};
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::request::RequestInfo;
use crate::warnings;
use incoming::Incoming;
pub use pages::Pages;
use refusal::Refusal;

/// What the stages work with. Each gets what it needs of this, and none the whole.
pub struct Road {
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
    pub authenticators: Arc<Authenticators>,
    pub authorizers: Arc<Authorizers>,
    pub impersonation: Impersonation,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    /// Where requests on objects go.
    pub registry: Arc<Registry>,
    pub pages: Pages,
    pub response_compression: bool,
}

impl Road {
    /// Answers a request. `connection`: the user of the connection's certificate, or the component's in-process identity.
    pub async fn handle<B>(&self, request: Request<B>, connection: Option<&UserRef>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (started, arrived) = (self.clock.now_micros(), Instant::now());
        let (mut parts, body) = request.into_parts();
        let wanted = impersonation::take(&mut parts.headers);
        let (info, query) = request_info::read(&parts);
        let catalog = self.catalog.snapshot();
        let incoming = Incoming::new(&parts, &catalog, (&info, &query), (connection, &wanted));
        let mutating = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let in_flight = self.metrics.in_flight(mutating);
        let mut body = Some(body);
        let (mut slot, mut warning) = (None, None);
        let travelling = self.travel(&incoming, arrived, &mut body, (&mut slot, &mut warning));
        let answer = AssertUnwindSafe(travelling).catch_unwind().await.unwrap_or_else(|_| Err(panicked(&info).into()));
        let answer = answer.or_else(Refusal::into_answer);
        drop(in_flight);
        if answer.is_err() && mutating {
            slot = None;
        }
        let is_read = match body {
            Some(body) if mutating => drain(body).await,
            // Nothing to read, or somebody else does.
            _ => true,
        };
        let mut answer = reply::finish(&incoming, answer, self.response_compression);
        if !is_read && parts.version <= http::Version::HTTP_11 {
            // Clients must not send the next request behind a body that nobody reads.
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(warning) = warning {
            warnings::add(&mut answer, &[warning.to_owned()]);
        }
        if let Some(slot) = slot {
            answer.body_mut().hold(slot);
        }
        let micros = self.clock.now_micros().saturating_sub(started);
        count::run(&self.metrics, &incoming, answer.status(), u64::try_from(micros).unwrap_or_default());
        answer
    }

    /// The stages, in their order. `slot` outlives them: it is held until the answer is sent. `warning` goes with the answer.
    /// The body is taken by what passes the request on.
    async fn travel<B>(
        &self,
        incoming: &Incoming<'_>,
        arrived: Instant,
        body: &mut Option<B>,
        (slot, warning): (&mut Option<Slot>, &mut Option<&'static str>),
    ) -> Result<Answer, Refusal>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        request_info::check(incoming)?;
        let deadline = deadline::of(incoming.info, incoming.query, arrived)?;
        let in_time = pin!(async {
            let Known { user: requester, warning: said } = authenticate::run(&self.authenticators, incoming)?;
            *warning = said;
            // Here is the place of audit: who asks is known, and nothing is refused to them yet.
            let acting = impersonation::run(&self.impersonation, &self.authorizers, incoming, requester)?;
            let user = acting.user();
            *slot = fairness::run(&self.limits, incoming, user)?;
            authorize::run(&self.authorizers, user, incoming.info)?;
            Ok(route::run((&self.registry, &self.pages), &self.limits, incoming, user, body).await?)
        });
        deadline::run(deadline, in_time).await
    }
}

fn panicked(info: &RequestInfo) -> Status {
    tracing::error!(path = info.path, verb = %info.verb, "a request made the server panic");
    Status::internal("This request caused apiserver to panic. Look in the logs for details.")
}
