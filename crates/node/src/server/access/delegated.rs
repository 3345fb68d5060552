//! Access as the API server decides it: tokens by `TokenReview`, rights by `SubjectAccessReview`.
//!
//! Its answers are kept as long as upstream's kubelets keep them. That it could not be asked is not kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use rkube_machinery::host::Clock;
use rkube_machinery::{Map, Text, Value, json, object};
use rkube_operator::kube::Client;
use rkube_operator::kube::client::Body;
use rustls::pki_types::CertificateDer;

use super::attributes::Attributes;
use super::{Access, User};

const TOKEN_SECONDS: i64 = 2 * 60;
const ALLOWED_SECONDS: i64 = 5 * 60;
const REFUSED_SECONDS: i64 = 30;
/// Answers that are kept of either kind. At it all are forgotten: who asks pays for one question more.
const ANSWERS_MAX: usize = 10_000;
/// The API server has to answer in this time.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
const REVIEW_BYTES_MAX: usize = 1 << 20;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

type OfCertificates = dyn Fn(&[CertificateDer<'_>]) -> Option<User> + Send + Sync;

pub struct DelegatedAccess {
    client: Client,
    clock: Arc<dyn Clock>,
    node: Text,
    of_certificates: Box<OfCertificates>,
    /// By the digest of the token, so that none lies about.
    tokens: Cache<Vec<u8>, Option<Arc<User>>>,
    rights: Cache<(Arc<User>, Attributes), bool>,
}

impl DelegatedAccess {
    /// `of_certificates`: whom a chain proves to whoever keeps the cluster's authority. `client` acts as the node.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        node: Text,
        of_certificates: impl Fn(&[CertificateDer<'_>]) -> Option<User> + Send + Sync + 'static,
    ) -> DelegatedAccess {
        let of_certificates = Box::new(of_certificates);
        DelegatedAccess { client, clock, node, of_certificates, tokens: Cache::default(), rights: Cache::default() }
    }

    async fn review_token(&self, token: &str) -> Result<Option<Arc<User>>, String> {
        let key = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        let now = self.clock.now_seconds();
        if let Some(known) = self.tokens.get(&key, now) {
            return Ok(known);
        }
        let spec = object! { "token": token };
        let status = self.review(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec).await?;
        let user = status.bool("authenticated").then(|| Arc::new(user_of(status.get("user"))));
        self.tokens.put(key, user.clone(), now + TOKEN_SECONDS);
        Ok(user)
    }

    async fn review_access(&self, user: &Arc<User>, attributes: &Attributes) -> Result<bool, String> {
        let key = (user.clone(), *attributes);
        let now = self.clock.now_seconds();
        if let Some(known) = self.rights.get(&key, now) {
            return Ok(known);
        }
        let spec = access_spec(user, attributes, &self.node);
        let status = self.review(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec).await?;
        let is_allowed = status.bool("allowed");
        let seconds = if is_allowed { ALLOWED_SECONDS } else { REFUSED_SECONDS };
        self.rights.put(key, is_allowed, now + seconds);
        Ok(is_allowed)
    }

    /// The status of a review that the API server has answered.
    async fn review(&self, path: &str, version: &str, kind: &str, spec: Value) -> Result<Value, String> {
        let review = object! { "apiVersion": version, "kind": kind, "metadata": Value::object(), "spec": spec };
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Body::from(json::to_string(&review).into_bytes()))
            .map_err(|error| error.to_string())?;
        let exchange = async {
            let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
            let code = answer.status();
            let body = Limited::new(answer.into_body(), REVIEW_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            let told = json::parse(&body).map_err(|error| format!("{code}: {error}"))?;
            match code.is_success() {
                true => Ok(told.get("status").clone()),
                false => Err(format!("{code}: {}", told.str("message"))),
            }
        };
        let answered = tokio::time::timeout(REVIEW_TIMEOUT, exchange).await;
        answered.unwrap_or_else(|_| Err("the API server does not answer".to_owned()))
    }
}

impl Access for DelegatedAccess {
    fn certificate(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<User>> {
        (self.of_certificates)(chain).map(Arc::new)
    }

    fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Arc<User>>, String>> {
        self.review_token(token).boxed()
    }

    fn allows<'a>(&'a self, user: &'a Arc<User>, attributes: &'a Attributes) -> BoxFuture<'a, Result<bool, String>> {
        self.review_access(user, attributes).boxed()
    }
}

fn user_of(user: &Value) -> User {
    let texts = |list: &[Value]| list.iter().map(|text| text.as_str().to_owned()).collect();
    User {
        name: user.str("username").to_owned(),
        uid: user.str("uid").to_owned(),
        groups: texts(user.list("groups")),
        extra: user.map("extra").iter().map(|(name, values)| (name.to_string(), texts(values.items()))).collect(),
    }
}

fn access_spec(user: &User, attributes: &Attributes, node: &str) -> Value {
    let list = |texts: &[String]| texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>();
    let resource = object! {
        "verb": attributes.verb,
        "version": "v1",
        "resource": "nodes",
        "subresource": attributes.subresource,
        "name": node,
    };
    let mut spec = object! { "resourceAttributes": resource, "user": user.name.as_str() };
    if !user.uid.is_empty() {
        spec.set("uid", user.uid.as_str());
    }
    if !user.groups.is_empty() {
        spec.set("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(name, values)| (name.as_str().into(), list(values).into())).collect();
        spec.set("extra", Map::sorted(extra));
    }
    spec
}

/// Answers, each with the second until which it counts.
struct Cache<K, V> {
    answers: Mutex<HashMap<K, (V, i64)>>,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Cache { answers: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn get(&self, key: &K, now: i64) -> Option<V> {
        let answers = self.answers.lock();
        answers.get(key).filter(|(_, until)| now < *until).map(|(answer, _)| answer.clone())
    }

    fn put(&self, key: K, answer: V, until: i64) {
        let mut answers = self.answers.lock();
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(key, (answer, until));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use http::Response;

    use super::*;

    #[derive(Default)]
    struct TestClock(AtomicI64);

    impl Clock for TestClock {
        fn now_micros(&self) -> i64 {
            self.0.load(Ordering::Relaxed) * 1_000_000
        }
    }

    /// Knows the token `good`, allows `get`, and counts what it is asked.
    fn access(asked: Arc<AtomicUsize>, clock: Arc<TestClock>) -> DelegatedAccess {
        let answer = move |request: Request<Body>| {
            let asked = asked.clone();
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let review = json::parse(&body).unwrap();
                let spec = review.get("spec");
                let status = match path.as_str() {
                    TOKEN_REVIEWS if spec.str("token") == "good" => {
                        r#"{"authenticated":true,"user":{"username":"u","groups":["g"],"extra":{"k":["v"]}}}"#
                    }
                    TOKEN_REVIEWS => r#"{"authenticated":false}"#,
                    _ => {
                        assert_eq!(json::to_string(spec.get("groups")), r#"["g"]"#);
                        assert_eq!(json::to_string(spec.get("extra")), r#"{"k":["v"]}"#);
                        let resource = spec.get("resourceAttributes");
                        assert_eq!((resource.str("resource"), resource.str("name")), ("nodes", "n"));
                        match (resource.str("verb"), resource.str("subresource")) {
                            ("get", "proxy") => r#"{"allowed":true}"#,
                            ("get", _) => r#"{"allowed":false}"#,
                            _ => "broken",
                        }
                    }
                };
                let body = format!(r#"{{"status":{status}}}"#);
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.into_bytes())))
            }
        };
        let client = Client::new(tower::service_fn(answer), "default");
        DelegatedAccess::new(client, clock, "n".into(), |_| None)
    }

    #[tokio::test]
    async fn answers_are_kept_for_a_while() {
        let (asked, clock) = (Arc::new(AtomicUsize::new(0)), Arc::new(TestClock::default()));
        let access = access(asked.clone(), clock.clone());
        let count = || asked.swap(0, Ordering::Relaxed);
        let user = access.token("good").await.unwrap().unwrap();
        assert_eq!(user.name, "u");
        assert_eq!(access.token("bad").await, Ok(None));
        assert_eq!(count(), 2);
        assert!(access.token("good").await.unwrap().is_some());
        assert_eq!((access.token("bad").await, count()), (Ok(None), 0));
        let get = |subresource| Attributes { verb: "get", subresource };
        for _ in 0..2 {
            assert_eq!(access.allows(&user, &get("proxy")).await, Ok(true));
            assert_eq!(access.allows(&user, &get("stats")).await, Ok(false));
        }
        assert_eq!(count(), 2);
        clock.0.store(REFUSED_SECONDS, Ordering::Relaxed);
        assert_eq!(access.allows(&user, &get("proxy")).await, Ok(true));
        assert_eq!((access.allows(&user, &get("stats")).await, count()), (Ok(false), 1));
        clock.0.store(ALLOWED_SECONDS, Ordering::Relaxed);
        assert_eq!((access.allows(&user, &get("proxy")).await, count()), (Ok(true), 1));
        assert!(access.token("good").await.unwrap().is_some());
        assert_eq!(count(), 1);
        let create = Attributes { verb: "create", subresource: "proxy" };
        assert!(access.allows(&user, &create).await.is_err());
        assert!(access.allows(&user, &create).await.is_err());
        assert_eq!(count(), 2, "what went wrong is not kept");
    }
}
