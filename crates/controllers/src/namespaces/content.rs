//! Deletes what is in a namespace, kind by kind: pods first, and nothing else as long as there are any.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use http::{Method, Request, header};
use k8s_openapi::api::core::v1::Pod;
use rkube_operator::Discovered;
use rkube_operator::kube::api::{Api, ListParams};
use rkube_operator::kube::{self, Client};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::plan::{Findings, Rest, estimate_for_pods, rest_of};

/// So many kinds are emptied at a time.
const KINDS_AT_ONCE: usize = 4;
/// So many objects are deleted at a time, of kinds that have no deletion of collections.
const DELETIONS_AT_ONCE: usize = 32;
/// Dependents are deleted like everything else here: nobody is to hold objects up for their sake.
const BACKGROUND: &str = r#"{"propagationPolicy":"Background"}"#;

/// What is left of a kind.
#[derive(Default)]
struct Left {
    count: usize,
    finalizers: BTreeMap<String, usize>,
    estimate: i64,
    error: Option<String>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    finalizers: Option<Vec<String>>,
}

/// The content of a namespace that goes.
pub struct Content<'a> {
    pub client: &'a Client,
    pub namespace: &'a str,
    /// How long ago its deletion was asked for.
    pub deleted_seconds_ago: i64,
}

impl Content<'_> {
    /// Deletes all objects of these kinds; says what is left.
    pub async fn delete(&self, kinds: &[Discovered]) -> Findings {
        let wanted = kinds.iter().filter(|kind| kind.preferred && kind.namespaced && kind.supports(&["delete"]));
        let (pods, others): (Vec<_>, Vec<_>) = wanted.partition(|kind| is_pods(kind));
        let mut findings = Findings::default();
        for kind in pods {
            note(&mut findings, kind, self.empty(kind).await);
        }
        if !findings.remaining.is_empty() {
            findings.only_pods = true;
            return findings;
        }
        let others = others.into_iter().cloned();
        let emptied = stream::iter(others).map(|kind| async move {
            let left = self.empty(&kind).await;
            (kind, left)
        });
        let emptied: Vec<(Discovered, Left)> = emptied.buffer_unordered(KINDS_AT_ONCE).collect().await;
        emptied.into_iter().for_each(|(kind, left)| note(&mut findings, &kind, left));
        findings
    }

    async fn empty(&self, kind: &Discovered) -> Left {
        let estimate = match self.estimate(kind).await {
            Ok(estimate) => estimate,
            Err(error) => return Left { error: Some(words(&error)), ..Left::default() },
        };
        let left = match self.delete_objects(kind).await {
            Ok(items) => items,
            Err(error) => return Left { estimate, error: Some(words(&error)), ..Left::default() },
        };
        let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
        for finalizer in left.iter().filter_map(|item| item.metadata.finalizers.as_ref()).flatten() {
            *finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        let (estimate, error) = match rest_of(left.len(), !finalizers.is_empty(), estimate) {
            Rest::Nothing => (0, None),
            Rest::Leaving(seconds) => (seconds, None),
            Rest::Unexpected => (0, Some(self.unexpected(kind))),
        };
        Left { count: left.len(), finalizers, estimate, error }
    }

    fn unexpected(&self, kind: &Discovered) -> String {
        let (namespace, resource) = (self.namespace, &kind.resource);
        let name = format!("{}/{}, Resource={}", resource.group, resource.version, resource.plural);
        format!("unexpected items still remain in namespace: {namespace} for gvr: {name}")
    }

    /// How many seconds the objects may take to end.
    async fn estimate(&self, kind: &Discovered) -> Result<i64, kube::Error> {
        if !is_pods(kind) {
            return Ok(0);
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), self.namespace);
        let pods = pods.list(&ListParams::default()).await?.items;
        Ok(estimate_for_pods(&pods, self.deleted_seconds_ago))
    }

    /// Deletes the objects of a kind; returns those that are still there.
    async fn delete_objects(&self, kind: &Discovered) -> Result<Vec<Item>, kube::Error> {
        let can_list = kind.supports(&["list"]);
        if can_list && self.list(kind, "?limit=1").await?.is_empty() {
            return Ok(Vec::new());
        }
        let mut deleted = false;
        if kind.supports(&["deletecollection"]) {
            deleted = supported(self.send(Method::DELETE, self.path(kind), BACKGROUND).await)?.is_some();
        }
        if !can_list {
            return Ok(Vec::new());
        }
        if !deleted {
            self.delete_each(kind).await?;
        }
        self.list(kind, "").await
    }

    async fn delete_each(&self, kind: &Discovered) -> Result<(), kube::Error> {
        let items = self.list(kind, "").await?;
        let deletions = stream::iter(items).map(|item| async move {
            let path = format!("{}/{}", self.path(kind), item.metadata.name);
            supported(self.send(Method::DELETE, path, BACKGROUND).await).map(|_| ())
        });
        let outcomes: Vec<_> = deletions.buffer_unordered(DELETIONS_AT_ONCE).collect().await;
        outcomes.into_iter().collect()
    }

    async fn list(&self, kind: &Discovered, query: &str) -> Result<Vec<Item>, kube::Error> {
        let text = supported(self.send(Method::GET, self.path(kind) + query, "").await)?;
        let list = text.map(|text| parse::<List>(&text)).transpose()?;
        Ok(list.map(|list| list.items).unwrap_or_default())
    }

    async fn send(&self, method: Method, path: String, body: &str) -> Result<String, kube::Error> {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(body.as_bytes().to_vec()).map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await
    }

    fn path(&self, kind: &Discovered) -> String {
        let resource = &kind.resource;
        let root = if resource.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}/namespaces/{}/{}", resource.api_version, self.namespace, resource.plural)
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, kube::Error> {
    serde_json::from_str(text).map_err(kube::Error::SerdeError)
}

fn is_pods(kind: &Discovered) -> bool {
    kind.resource.group.is_empty() && kind.resource.plural == "pods"
}

/// That a kind or an object is gone by now, or a verb not supported, is no failure.
fn supported(outcome: Result<String, kube::Error>) -> Result<Option<String>, kube::Error> {
    match outcome {
        Ok(text) => Ok(Some(text)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An error as the API said it.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn note(findings: &mut Findings, kind: &Discovered, left: Left) {
    let Left { count, finalizers, estimate, error } = left;
    findings.estimate = findings.estimate.max(estimate);
    findings.content_errors.extend(error);
    if count > 0 {
        findings.remaining.insert((kind.resource.plural.clone(), kind.resource.group.clone()), count);
    }
    for (finalizer, count) in finalizers {
        *findings.finalizers.entry(finalizer).or_default() += count;
    }
}
