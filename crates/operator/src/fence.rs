//! The fence between controllers and the API: no request goes out of a process whose lease is not known to be its own.
//!
//! A lease that is renewed no more is another's after a while, whether the process that had it knows or not: it may have been
//! stopped, and wake up in the middle of a reconcile. So what counts is not what the process believes, but the clock: a
//! [`Fence`] is open until a moment that only renewals move. It is asked when a request is made, and again whenever the
//! request gets to do something: one that waited for a connection, or for its turn, is dropped before it is sent.
//!
//! The clock is the monotonic one, which goes on while a process is stopped (`SIGSTOP`); it does not while the whole machine
//! sleeps. What no client can know is how long a request takes once it was sent: the time between
//! the renew deadline and the lease duration is what it has. See [`crate::leader_election`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::written::BoxError;

/// No election: open for good.
const ALWAYS: u64 = u64::MAX;
const NEVER: u64 = 0;

/// A layer for clients: it lets requests pass while the process leads. Open until an election takes it over.
#[derive(Clone)]
pub struct Fence(Arc<Shared>);

struct Shared {
    since: Instant,
    /// Open until so many nanoseconds after `since`.
    open_until: AtomicU64,
    /// Nothing new passes: what is under way may end.
    draining: AtomicBool,
    under_way: AtomicUsize,
    /// Nothing is under way any more.
    idle: Notify,
}

impl Default for Fence {
    fn default() -> Self {
        Fence(Arc::new(Shared {
            since: Instant::now(),
            open_until: AtomicU64::new(ALWAYS),
            draining: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            idle: Notify::new(),
        }))
    }
}

impl Fence {
    /// Whether a request may go out at this moment.
    pub fn is_open(&self) -> bool {
        match self.0.open_until.load(Ordering::Acquire) {
            ALWAYS => true,
            NEVER => false,
            until => nanos(self.0.since.elapsed()) < until,
        }
    }

    /// Lets requests pass until then.
    pub(crate) fn open(&self, until: Instant) {
        let until = nanos(until.saturating_duration_since(self.0.since)).min(ALWAYS - 1);
        self.0.open_until.store(until, Ordering::Release);
    }

    pub(crate) fn close(&self) {
        self.0.open_until.store(NEVER, Ordering::Release);
    }

    /// Lets nothing new pass from now on, whatever opens it, and waits until what is under way has ended: whether it did within this time.
    pub(crate) async fn drain(&self, max: Duration) -> bool {
        self.0.draining.store(true, Ordering::Release);
        let drained = async {
            loop {
                let mut idle = std::pin::pin!(self.0.idle.notified());
                idle.as_mut().enable();
                if self.0.under_way.load(Ordering::Acquire) == 0 {
                    return;
                }
                idle.await;
            }
        };
        tokio::time::timeout(max, drained).await.is_ok()
    }

    fn lets_in(&self) -> bool {
        self.is_open() && !self.0.draining.load(Ordering::Acquire)
    }

    /// A client whose requests pass in any case: the election's own.
    pub(crate) fn past(client: &Client) -> Client {
        let default_namespace = client.default_namespace().to_owned();
        Client::new(Past(client.clone()), default_namespace)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(ALWAYS - 1)
}

/// A request was not sent, or its answer not waited for, because the process does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeading;

impl fmt::Display for NotLeading {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("this process does not hold the lease: nothing is sent")
    }
}

impl std::error::Error for NotLeading {}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, fence: self.clone() }
    }
}

/// A service behind a fence.
#[derive(Clone)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Passing<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Passing<S::Future> {
        if request.extensions().get::<Exempt>().is_some() {
            return Passing { inner: Some(Box::pin(self.inner.call(request))), counted: None };
        }
        let counted = Counted::new(&self.fence);
        // Counted first: who drains either sees this one, or is seen by it.
        let inner = self.fence.lets_in().then(|| Box::pin(self.inner.call(request)));
        Passing { inner, counted: Some(counted) }
    }
}

/// A request on its way, for as long as the fence is open.
pub struct Passing<F> {
    /// None: it is not let through.
    inner: Option<Pin<Box<F>>>,
    /// None: it passes in any case.
    counted: Option<Counted>,
}

impl<F, T, E> Future for Passing<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.counted.as_ref().is_some_and(|counted| !counted.0.is_open()) {
            // Dropped here, so that it is never sent if it was not yet.
            self.inner = None;
        }
        match &mut self.inner {
            Some(inner) => inner.as_mut().poll(context).map_err(Into::into),
            None => Poll::Ready(Err(Box::new(NotLeading))),
        }
    }
}

/// A request that is under way until this is dropped.
struct Counted(Fence);

impl Counted {
    fn new(fence: &Fence) -> Counted {
        fence.0.under_way.fetch_add(1, Ordering::AcqRel);
        Counted(fence.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.0.idle.notify_waiters();
        }
    }
}

/// On a request that passes in any case.
#[derive(Clone, Copy)]
struct Exempt;

struct Past(Client);

impl Service<Request<Body>> for Past {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(Exempt);
        let client = self.0.clone();
        Box::pin(async move { client.send(request).await })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Counts what reaches it; an answer takes a second.
    #[derive(Clone, Default)]
    struct Server(Arc<AtomicU32>);

    impl Service<Request<Body>> for Server {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let reached = self.0.clone();
            Box::pin(async move {
                // Such as for a connection.
                let waits = request.headers().contains_key("waits");
                tokio::time::sleep(Duration::from_secs(u64::from(waits) * 20)).await;
                reached.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Response::new(Body::empty()))
            })
        }
    }

    fn client(fence: &Fence) -> (Client, Server) {
        let server = Server::default();
        (Client::new(fence.layer(server.clone()), "default"), server)
    }

    fn request(waits: bool) -> Request<Body> {
        let mut request = Request::builder().uri("/api");
        if waits {
            request = request.header("waits", "");
        }
        request.body(Body::empty()).unwrap()
    }

    fn is_refused(outcome: Result<Response<Body>, kube::Error>) -> bool {
        matches!(outcome, Err(kube::Error::Service(error)) if error.is::<NotLeading>())
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_through_a_closed_fence() {
        let fence = Fence::default();
        let (client, server) = client(&fence);
        let reached = || server.0.load(Ordering::Relaxed);
        client.send(request(false)).await.unwrap();
        assert_eq!(reached(), 1, "without an election everything passes");

        fence.close();
        assert!(is_refused(client.send(request(false)).await));
        assert_eq!(reached(), 1);
        Fence::past(&client).send(request(false)).await.unwrap();
        assert_eq!(reached(), 2, "the election's own requests pass");

        fence.open(Instant::now() + Duration::from_secs(10));
        client.send(request(false)).await.unwrap();
        assert_eq!(reached(), 3);
        // Whoever slept past the end finds it closed, whether anybody closed it or not.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(is_refused(client.send(request(false)).await));
        assert_eq!(reached(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_to_be_sent_is_not_sent_too_late() {
        let fence = Fence::default();
        let (client, server) = client(&fence);
        fence.open(Instant::now() + Duration::from_secs(10));
        assert!(is_refused(client.send(request(true)).await));
        assert_eq!(server.0.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_ends_before_a_fence_is_drained() {
        let fence = Fence::default();
        let (client, server) = client(&fence);
        fence.open(Instant::now() + Duration::from_secs(60));
        let sending = tokio::spawn({
            let client = client.clone();
            async move { client.send(request(false)).await }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!fence.drain(Duration::from_millis(100)).await);
        assert!(fence.drain(Duration::from_secs(2)).await);
        assert!(sending.await.unwrap().is_ok());
        assert!(is_refused(client.send(request(false)).await), "nothing new passes");
        assert_eq!(server.0.load(Ordering::Relaxed), 1);
    }
}
