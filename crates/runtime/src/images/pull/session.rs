//! One repository on one server, and who we are there.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HeaderName, HeaderValue, RANGE, USER_AGENT};
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::Mutex;

use super::auth::{self, Challenge};
use super::hosts::Host;
use super::http::{Answer, Http, Patience};
use crate::api::Credentials;
use crate::images::digest::Digest;
use crate::images::{Error, Reference, Result};

const MANIFESTS: &str = "application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, */*";
const DIGEST: &str = "docker-content-digest";

pub(super) struct Session {
    pub host: Host,
    http: Http,
    domain: String,
    repository: String,
    credentials: Option<Credentials>,
    authorization: Mutex<Option<HeaderValue>>,
}

/// What every request says.
pub(super) fn headers() -> HeaderMap {
    let agent = HeaderValue::from_static(concat!("rkube/", env!("CARGO_PKG_VERSION")));
    HeaderMap::from_iter([(USER_AGENT, agent)])
}

impl Session {
    pub(super) fn new(
        host: Host,
        reference: &Reference,
        credentials: Option<Credentials>,
        patience: Patience,
    ) -> Result<Session> {
        Ok(Session {
            http: Http::new(&host.trust, patience)?,
            host,
            domain: reference.domain().to_owned(),
            repository: reference.path().to_owned(),
            credentials,
            authorization: Mutex::new(None),
        })
    }

    /// The digest that a name stands for; None: the server does not know the name.
    pub(super) async fn resolve(&self, name: &str) -> Result<Option<Digest>> {
        let what = format!("manifests/{name}");
        let answer = self.request(Method::HEAD, &what, Some(MANIFESTS), None).await?;
        match answer.status {
            StatusCode::NOT_FOUND => return Ok(None),
            status if !status.is_success() => return Err(answer.unexpected()),
            _ => {}
        }
        if let Some(digest) = answer.headers.get(DIGEST).and_then(|digest| digest.to_str().ok()) {
            return digest.parse().map(Some);
        }
        match self.document(&what).await? {
            Some(content) => Ok(Some(Digest::of(&content))),
            None => Ok(None),
        }
    }

    /// A manifest or a configuration, as `manifests/sha256:…` or `blobs/sha256:…`. None: it is not there.
    pub(super) async fn document(&self, what: &str) -> Result<Option<Bytes>> {
        let accept = what.starts_with("manifests/").then_some(MANIFESTS);
        let answer = self.request(Method::GET, what, accept, None).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if !status.is_success() => Err(answer.unexpected()),
            _ => answer.document().await.map(Some),
        }
    }

    /// A layer, from this byte on if the server can.
    pub(super) async fn blob(&self, digest: &Digest, offset: u64) -> Result<Answer> {
        self.request(Method::GET, &format!("blobs/{digest}"), None, (offset > 0).then_some(offset)).await
    }

    /// Shows who we are once it is asked for.
    async fn request(&self, method: Method, what: &str, accept: Option<&str>, offset: Option<u64>) -> Result<Answer> {
        let namespace = if self.host.mirror { format!("?ns={}", self.domain) } else { String::new() };
        let url = format!("{}/{}/{what}{namespace}", self.host.base, self.repository);
        let mut headers = headers();
        for (name, value) in &self.host.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        }
        if let Some(accept) = accept.and_then(|accept| HeaderValue::from_str(accept).ok()) {
            headers.insert(ACCEPT, accept);
        }
        if let Some(range) = offset.and_then(|offset| HeaderValue::from_str(&format!("bytes={offset}-")).ok()) {
            headers.insert(RANGE, range);
        }
        let shown = self.authorization.lock().await.clone();
        if let Some(value) = &shown {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let answer = self.http.send(method.clone(), &url, &headers, Bytes::new()).await?;
        let Some(challenge) =
            (answer.status == StatusCode::UNAUTHORIZED).then(|| Challenge::of(&answer.headers)).flatten()
        else {
            return Ok(answer);
        };
        headers.insert(AUTHORIZATION, self.authorize(&challenge, shown.as_ref()).await?);
        let answer = self.http.send(method, &url, &headers, Bytes::new()).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            let message = Challenge::of(&answer.headers).and_then(|challenge| challenge.error);
            let said = message.map(|message| format!("server message: {message}: ")).unwrap_or_default();
            return Err(denied(&format!("{said}authorization failed")));
        }
        Ok(answer)
    }

    /// One who asks for all who wait.
    async fn authorize(&self, challenge: &Challenge, refused: Option<&HeaderValue>) -> Result<HeaderValue> {
        let mut authorization = self.authorization.lock().await;
        if let Some(value) = authorization.as_ref().filter(|value| Some(*value) != refused) {
            return Ok(value.clone());
        }
        let value = auth::authorize(&self.http, challenge, &self.repository, self.credentials.as_ref())
            .await
            .map_err(|error| error.within("failed to authorize"))?;
        *authorization = Some(value.clone());
        Ok(value)
    }
}

fn denied(why: &str) -> Error {
    Error::Pull(format!("pull access denied, repository does not exist or may require authorization: {why}"))
}
