//! Reads what pods refer to, under the node's identity.
//!
//! An object is asked for when it is needed, so that what is written is never older than that; who needs to know when it
//! changes watches it ([`super::watches`]).

use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use rkube_machinery::{Value, json};
use rkube_operator::kube::Client;
use rkube_operator::kube::client::Body;

/// A pod that waits for longer is told why, and asks again.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
const JSON: &str = "application/json";

/// Why there is no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    NotFound,
    /// What the server, or the way to it, said.
    Refused(String),
}

#[derive(Clone)]
pub struct ObjectReader {
    client: Client,
}

impl ObjectReader {
    pub fn new(client: Client) -> ObjectReader {
        ObjectReader { client }
    }

    /// An object by its path, as `/api/v1/namespaces/a/secrets/b`.
    pub async fn get(&self, path: &str) -> Result<Arc<Value>, Missing> {
        let request = Request::get(path).header(header::ACCEPT, JSON).body(Body::empty());
        self.send(request).await.map(Arc::new)
    }

    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Missing> {
        let request = Request::post(path).header(header::ACCEPT, JSON).header(header::CONTENT_TYPE, JSON);
        self.send(request.body(Body::from(json::to_string(object).into_bytes()))).await
    }

    /// `configmap "x" not found` and the like.
    pub async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<Value>, Missing> {
        self.get(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await
    }

    pub async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Value>, Missing> {
        self.get(&format!("/api/v1/namespaces/{namespace}/secrets/{name}")).await
    }

    async fn send(&self, request: Result<Request<Body>, http::Error>) -> Result<Value, Missing> {
        let request = request.map_err(|error| Missing::Refused(error.to_string()))?;
        let exchange = async {
            let answer = self.client.send(request).await.map_err(|error| Missing::Refused(error.to_string()))?;
            let status = answer.status();
            let body = answer.into_body().collect().await.map_err(|error| Missing::Refused(error.to_string()))?;
            Ok((status, body.to_bytes()))
        };
        let answered = tokio::time::timeout(ANSWER_WAIT, exchange).await;
        let (status, body) = answered.map_err(|_| Missing::Refused("the API server does not answer".to_owned()))??;
        let body = json::parse(&body).unwrap_or_default();
        match status {
            status if status.is_success() => Ok(body),
            StatusCode::NOT_FOUND => Err(Missing::NotFound),
            status if body.str("message").is_empty() => Err(Missing::Refused(status.to_string())),
            _ => Err(Missing::Refused(body.str("message").to_owned())),
        }
    }
}

impl Missing {
    /// In upstream's words. `kind` is as `configmap`.
    pub fn say(&self, kind: &str, name: &str) -> String {
        match self {
            Missing::NotFound => format!("{kind} {name:?} not found"),
            Missing::Refused(why) => why.clone(),
        }
    }
}
