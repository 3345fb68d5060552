//! How Endpoints and EndpointSlices are written: over what is there, so that nothing is lost that is not ours.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rkube_machinery::{Text, time};
use rkube_operator::kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, PostParams};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client};
use serde_json::{Value, json};

use super::slices::{Endpoint, ports_json};
use super::{Port, TRIGGER_TIME};

/// No name is longer.
const NAME_MAX: usize = 253;

/// Objects of one namespace and kind.
pub struct Writer {
    api: Api<DynamicObject>,
    resource: ApiResource,
}

/// What a slice is to be.
pub struct NewSlice<'a> {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner: OwnerReference,
    pub address_type: &'a str,
    pub ports: &'a [Port],
    pub endpoints: &'a [Endpoint],
}

impl Writer {
    pub fn new(client: &Client, namespace: &str, resource: ApiResource) -> Writer {
        Writer { api: Api::namespaced_with(client.clone(), namespace, &resource), resource }
    }

    /// `of`: by what the object's name begins.
    pub async fn create_slice(&self, of: &str, slice: NewSlice<'_>) -> Result<(), kube::Error> {
        let metadata = ObjectMeta {
            generate_name: Some(prefix(of)),
            labels: Some(slice.labels),
            annotations: Some(slice.annotations),
            owner_references: Some(vec![slice.owner]),
            ..ObjectMeta::default()
        };
        let data = json!({
            "addressType": slice.address_type,
            "endpoints": slice.endpoints,
            "ports": ports_json(slice.ports),
        });
        self.create(metadata, data).await
    }

    pub async fn create(&self, metadata: ObjectMeta, data: Value) -> Result<(), kube::Error> {
        let object = DynamicObject { types: Some(self.types()), metadata, data };
        self.api.create(&PostParams::default(), &object).await.map(|_| ())
    }

    /// The object as it is, if it is.
    pub async fn get(&self, name: &str) -> Result<Option<DynamicObject>, kube::Error> {
        self.api.get_opt(name).await
    }

    /// Writes over what was read.
    pub async fn replace(&self, name: &str, object: &DynamicObject) -> Result<(), kube::Error> {
        self.api.replace(name, &PostParams::default(), object).await.map(|_| ())
    }

    /// That it is gone is no failure.
    pub async fn delete(&self, name: &str) -> Result<(), kube::Error> {
        match self.api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn types(&self) -> kube::api::TypeMeta {
        kube::api::TypeMeta { api_version: self.resource.api_version.clone(), kind: self.resource.kind.clone() }
    }
}

/// Says when the change happened that led to this, or nothing if that has no time.
pub fn set_trigger_time(annotations: &mut BTreeMap<String, String>, changed: Option<i64>) {
    match changed {
        Some(seconds) => annotations.insert(TRIGGER_TIME.to_owned(), time::format_seconds(seconds)),
        None => annotations.remove(TRIGGER_TIME),
    };
}

/// A name with a dash, if there can be one of it.
pub fn prefix(name: &str) -> String {
    if name.len() < NAME_MAX { format!("{name}-") } else { name.to_owned() }
}

/// Who controls an object.
pub fn controlled_by(kind: &str, name: &Text, uid: &Text) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_string(),
        uid: uid.to_string(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
