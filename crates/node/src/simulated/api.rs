//! What nodes say to the API server, as requests. Answers are looked at no further than has to be.

use http::{Method, Request, StatusCode, header};
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
    let request = Request::builder()
        .method(method.clone())
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::ACCEPT, JSON)
        .body(Body::from(json::to_string(body).into_bytes()))?;
    let answer = client.send(request).await?;
    match answer.status() {
        status if status.is_success() => Ok(Answer::Done),
        StatusCode::NOT_FOUND => Ok(Answer::NotFound),
        StatusCode::CONFLICT => Ok(Answer::Conflict),
        status => {
            let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let told = json::parse(&body).unwrap_or_default();
            let why = if told.str("message").is_empty() { status.to_string() } else { told.str("message").to_owned() };
            Err(Error::Refused { method, path: path.to_owned(), why })
        }
    }
}
