//! The API as the collector uses it: objects by their coordinates, whatever kind they are of.

use std::collections::HashMap;
use std::sync::Arc;

use http::{Method, Request, header};
use parking_lot::RwLock;
use rkube_machinery::Text;
use rkube_operator::Discovered;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use serde_json::{Value, json};

use super::object::{Coordinates, Metadata, Partial, PartialList};
use super::plan::Policy;
use crate::requests::escaped;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such kind, or none yet.
    #[error("no kind {kind} is served in {api_version}")]
    NoKind { api_version: Text, kind: Text },
    /// A cluster-scoped object names an owner of a kind that has namespaces. That stays as it is.
    #[error("cluster-scoped objects cannot refer to namespaced owners")]
    NamespacedOwner,
    #[error("not found")]
    NotFound,
    #[error("conflict")]
    Conflict,
    /// The kind of patch is not known for this kind of object.
    #[error("unsupported media type")]
    UnsupportedPatch,
    #[error("{0}")]
    Other(String),
}

/// How a patch is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Strategic,
    Merge,
}

/// What the collector asks of the API.
pub trait Live: Send + Sync + 'static {
    /// Whether objects of this kind have namespaces.
    fn is_namespaced(&self, api_version: &Text, kind: &Text) -> Result<bool, Error>;
    fn get(&self, object: &Coordinates) -> impl Future<Output = Result<Metadata, Error>> + Send;
    /// The object of this uid, if it is in another namespace than is said.
    fn find_elsewhere(&self, object: &Coordinates) -> impl Future<Output = Result<Option<Metadata>, Error>> + Send;
    /// Deletes the object of this uid, at this version if one is given.
    fn delete(
        &self,
        object: &Coordinates,
        resource_version: Option<&str>,
        policy: Policy,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    fn patch(
        &self,
        object: &Coordinates,
        patch_type: PatchType,
        patch: &Value,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The API by a client.
pub struct Cluster {
    client: Client,
    kinds: RwLock<HashMap<(Text, Text), Arc<Served>>>,
}

struct Served {
    resource: ApiResource,
    namespaced: bool,
}

impl Cluster {
    pub fn new(client: Client) -> Cluster {
        Cluster { client, kinds: RwLock::default() }
    }

    /// What is served now.
    pub fn set_kinds(&self, discovered: &[Discovered]) {
        let kinds = discovered.iter().map(|found| {
            let resource = found.resource.clone();
            let kind = (resource.api_version.as_str().into(), resource.kind.as_str().into());
            (kind, Arc::new(Served { resource, namespaced: found.namespaced }))
        });
        *self.kinds.write() = kinds.collect();
    }

    fn served(&self, api_version: &Text, kind: &Text) -> Result<Arc<Served>, Error> {
        let found = self.kinds.read().get(&(api_version.clone(), kind.clone())).cloned();
        found.ok_or_else(|| Error::NoKind { api_version: api_version.clone(), kind: kind.clone() })
    }

    fn url(&self, object: &Coordinates) -> Result<String, Error> {
        let served = self.served(&object.api_version, &object.kind)?;
        let namespace = served.namespaced.then_some(object.namespace.as_str());
        if namespace == Some("") {
            return Err(Error::NamespacedOwner);
        }
        let namespace = namespace.map(escaped);
        Ok(format!("{}/{}", served.resource_path(namespace.as_deref()), escaped(&object.name)))
    }

    async fn send(&self, object: &Coordinates, request: Request<Vec<u8>>) -> Result<String, Error> {
        match self.client.request_text(request).await {
            Ok(text) => Ok(text),
            Err(kube::Error::Api(status)) => Err(match status.code {
                // An object that is not there is named; who is not told a name asked for a kind that is not there.
                404 if status.details.as_ref().is_none_or(|details| details.name.is_empty()) => {
                    Error::NoKind { api_version: object.api_version.clone(), kind: object.kind.clone() }
                }
                404 => Error::NotFound,
                409 => Error::Conflict,
                415 => Error::UnsupportedPatch,
                _ => Error::Other(status.message.clone()),
            }),
            Err(error) => Err(Error::Other(error.to_string())),
        }
    }
}

impl Served {
    fn resource_path(&self, namespace: Option<&str>) -> String {
        let ApiResource { group, api_version, plural, .. } = &self.resource;
        let root = if group.is_empty() { "/api" } else { "/apis" };
        match namespace {
            Some(namespace) => format!("{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{api_version}/{plural}"),
        }
    }
}

fn request(method: Method, url: String, content_type: &str, body: Vec<u8>) -> Result<Request<Vec<u8>>, Error> {
    let request = Request::builder().method(method).uri(url).header(header::CONTENT_TYPE, content_type);
    request.body(body).map_err(|error| Error::Other(error.to_string()))
}

impl Live for Cluster {
    fn is_namespaced(&self, api_version: &Text, kind: &Text) -> Result<bool, Error> {
        Ok(self.served(api_version, kind)?.namespaced)
    }

    async fn get(&self, object: &Coordinates) -> Result<Metadata, Error> {
        let request = request(Method::GET, self.url(object)?, "application/json", Vec::new())?;
        let text = self.send(object, request).await?;
        let partial: Partial = serde_json::from_str(&text).map_err(|error| Error::Other(error.to_string()))?;
        Ok(partial.metadata)
    }

    async fn find_elsewhere(&self, object: &Coordinates) -> Result<Option<Metadata>, Error> {
        let served = self.served(&object.api_version, &object.kind)?;
        if !served.namespaced {
            return Ok(None);
        }
        let path = format!("{}?fieldSelector=metadata.name%3D{}", served.resource_path(None), escaped(&object.name));
        let request = request(Method::GET, path, "application/json", Vec::new())?;
        let text = self.send(object, request).await?;
        let found: PartialList = serde_json::from_str(&text).map_err(|error| Error::Other(error.to_string()))?;
        Ok(found.items.into_iter().map(|item| item.metadata).find(|metadata| metadata.uid == object.uid))
    }

    async fn delete(&self, object: &Coordinates, resource_version: Option<&str>, policy: Policy) -> Result<(), Error> {
        let mut preconditions = json!({ "uid": object.uid.as_str() });
        if let Some(version) = resource_version {
            preconditions["resourceVersion"] = version.into();
        }
        let options = json!({ "preconditions": preconditions, "propagationPolicy": policy.name() });
        let request = request(Method::DELETE, self.url(object)?, "application/json", options.to_string().into_bytes())?;
        self.send(object, request).await.map(|_| ())
    }

    async fn patch(&self, object: &Coordinates, patch_type: PatchType, patch: &Value) -> Result<(), Error> {
        let content_type = match patch_type {
            PatchType::Strategic => "application/strategic-merge-patch+json",
            PatchType::Merge => "application/merge-patch+json",
        };
        let request = request(Method::PATCH, self.url(object)?, content_type, patch.to_string().into_bytes())?;
        self.send(object, request).await.map(|_| ())
    }
}
