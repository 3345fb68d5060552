//! What nodes say to the API server, as requests. Answers are looked at no further than has to be.

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use rkube_machinery::{Value, json, object};
use rkube_operator::kube::client::Body;
use rkube_operator::kube::{self, Client};

const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";

/// What became of a request that need not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The object is not there.
    NotFound,
    /// It is another one than was meant, or exists already.
    Conflict,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{method} {path}: {why}")]
    Refused { method: Method, path: String, why: String },
    #[error(transparent)]
    Transport(#[from] kube::Error),
    #[error("a request cannot be made")]
    Request(#[from] http::Error),
}

pub async fn create(client: &Client, path: &str, object: &Value) -> Result<Answer, Error> {
    send(client, Method::POST, path, JSON, object).await
}

pub async fn patch_strategic(client: &Client, path: &str, patch: &Value) -> Result<Answer, Error> {
    send(client, Method::PATCH, path, STRATEGIC, patch).await
}

/// What became of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The object has this revision now; 0 where that is not known.
    At(u64),
    NotFound,
    /// Somebody else has written it since, or it is another one.
    Conflict,
}

/// Writes a pod's status.
pub async fn patch_status(client: &Client, path: &str, patch: String) -> Result<Written, Error> {
    let answer = exchange(client, Method::PATCH, path, STRATEGIC, patch).await?;
    match verdict(answer.status()) {
        Some(Answer::Done) => {}
        Some(Answer::NotFound) => return Ok(Written::NotFound),
        Some(Answer::Conflict) => return Ok(Written::Conflict),
        None => return Err(refused(Method::PATCH, path, answer).await),
    }
    let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(Written::At(revision(&body).unwrap_or(0)))
}

/// Writes a status, and says what the object is then. None: it is gone, or another.
pub async fn patch_whole(client: &Client, path: &str, patch: String) -> Result<Option<Value>, Error> {
    let answer = exchange(client, Method::PATCH, path, STRATEGIC, patch).await?;
    match verdict(answer.status()) {
        Some(Answer::Done) => {}
        Some(_) => return Ok(None),
        None => return Err(refused(Method::PATCH, path, answer).await),
    }
    let body = answer.into_body().collect().await?.to_bytes();
    json::parse(&body).map(Some).map_err(|error| Error::Refused {
        method: Method::PATCH,
        path: path.to_owned(),
        why: error.to_string(),
    })
}

/// Of an object as the server writes it. Its metadata comes first, and nothing in there comes before that looks like it.
fn revision(body: &[u8]) -> Option<u64> {
    const FIELD: &[u8] = b"\"resourceVersion\":\"";
    let start = body.windows(FIELD.len()).position(|window| window == FIELD)? + FIELD.len();
    let digits = body[start..].split(|byte| *byte == b'"').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub async fn patch_merge(client: &Client, path: &str, patch: &Value) -> Result<Answer, Error> {
    send(client, Method::PATCH, path, MERGE, patch).await
}

/// Removes a pod of which nothing runs any more.
pub async fn remove_pod(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<Answer, Error> {
    let options = object! {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": object! { "uid": uid },
    };
    send(client, Method::DELETE, &format!("/api/v1/namespaces/{namespace}/pods/{name}"), JSON, &options).await
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: &Value,
) -> Result<Answer, Error> {
    let answer = exchange(client, method.clone(), path, content_type, json::to_string(body)).await?;
    match verdict(answer.status()) {
        Some(verdict) => Ok(verdict),
        None => Err(refused(method, path, answer).await),
    }
}

async fn exchange(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: String,
) -> Result<Response<Body>, Error> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::ACCEPT, JSON)
        .body(Body::from(body.into_bytes()))?;
    Ok(client.send(request).await?)
}

/// None: something is wrong.
fn verdict(status: StatusCode) -> Option<Answer> {
    match status {
        status if status.is_success() => Some(Answer::Done),
        StatusCode::NOT_FOUND => Some(Answer::NotFound),
        StatusCode::CONFLICT => Some(Answer::Conflict),
        _ => None,
    }
}

async fn refused(method: Method, path: &str, answer: Response<Body>) -> Error {
    let status = answer.status();
    let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let told = json::parse(&body).unwrap_or_default();
    let why = if told.str("message").is_empty() { status.to_string() } else { told.str("message").to_owned() };
    Error::Refused { method, path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_found() {
        assert_eq!(revision(br#"{"metadata":{"name":"a","resourceVersion":"12","x":1}}"#), Some(12));
        assert_eq!(revision(br#"{"metadata":{}}"#), None);
    }
}
