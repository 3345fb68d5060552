//! What is kept of EndpointSlices: enough to say which of them is to change, in a few bytes for each endpoint.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use k8s_openapi::api::discovery::v1;
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::subsets::{Reference, or_empty};
use super::{Port, TRIGGER_TIME};
use crate::metadata::{Labels, Owner, RawMetadata};

/// Label with the name of the service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label with who made the slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Who makes slices of pods.
pub const BY_PODS: &str = "endpointslice-controller.k8s.io";
/// Who makes slices of Endpoints.
pub const BY_MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

/// A slice that one of the two controllers made.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    pub namespace: Text,
    pub name: Text,
    pub service: Text,
    pub manager: Text,
    pub deleting: bool,
    pub address_type: Text,
    pub ports: Vec<Port>,
    pub labels: Arc<Labels>,
    /// But for the time of what triggered the last change.
    pub annotations: Arc<Labels>,
    pub owners: Vec<Arc<Owner>>,
    pub endpoints: Box<[Known]>,
}

/// What is kept of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which one it is.
    pub identity: u64,
    /// How it is, but for hints.
    pub state: u64,
    /// 0 without any.
    pub hints: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    pub addresses: Vec<String>,
    pub conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Hints>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hints {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub for_zones: Vec<Named>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub for_nodes: Vec<Named>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct Named {
    pub name: Text,
}

impl Endpoint {
    pub fn known(&self) -> Known {
        Known { identity: self.identity(), state: self.state(), hints: hints_digest(self.hints.as_ref()) }
    }

    pub fn identity(&self) -> u64 {
        let target = self.target_ref.as_ref().map_or(("", ""), |target| (&target.namespace, &target.name));
        let mut addresses: Vec<&String> = self.addresses.iter().collect();
        addresses.sort();
        digest(&(addresses, self.hostname.as_deref().unwrap_or_default(), target))
    }

    fn state(&self) -> u64 {
        digest(&(&self.node_name, &self.zone, &self.conditions, &self.target_ref))
    }

    pub fn is_ready(&self) -> bool {
        self.conditions.ready == Some(true)
    }
}

pub fn hints_digest(hints: Option<&Hints>) -> u64 {
    hints.map_or(0, |hints| digest(hints).max(1))
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Ports as a slice has them: each has a name, be it an empty one.
pub fn ports_json(ports: &[Port]) -> Value {
    let one = |port: &Port| {
        let mut one = json!({ "name": port.name.as_str(), "port": port.port, "protocol": port.protocol.as_str() });
        if let Some(app_protocol) = &port.app_protocol {
            one["appProtocol"] = app_protocol.as_str().into();
        }
        one
    };
    ports.iter().map(one).collect()
}

/// All slices that one of the two controllers made.
pub fn informer(caches: &Caches) -> Informer<Slice> {
    let resource = ApiResource::erase::<v1::EndpointSlice>(&());
    caches.view(&resource, Selection::default(), Slice::read).indexed::<ByService>()
}

/// The slices that a controller made for a service, by name.
pub fn of_service(slices: &Informer<Slice>, key: &Key, manager: &str) -> Vec<Arc<Slice>> {
    let mut found = slices.by_index::<ByService, _>(&digest(&(key.namespace.as_str(), key.name.as_str())));
    found.retain(|slice| slice.manager == manager && slice.service == key.name && slice.namespace == key.namespace);
    found
}

struct ByService;

impl Index<Slice> for ByService {
    type Key = u64;

    fn keys(_: &Key, slice: &Slice) -> impl IntoIterator<Item = u64> {
        [digest(&(slice.namespace.as_str(), slice.service.as_str()))]
    }
}

impl Slice {
    fn read(item: &Item) -> Option<Slice> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "an EndpointSlice cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, address_type, ports, endpoints } = raw;
        let manager = metadata.labels.get(MANAGED_BY).filter(|manager| [BY_PODS, BY_MIRRORING].contains(manager))?;
        let mut ports: Vec<Port> = ports.unwrap_or_default().into_iter().map(RawPort::read).collect();
        ports.sort_by_cached_key(Port::order_in_slice);
        Some(Slice {
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            service: Text::new(metadata.labels.get(SERVICE_NAME).unwrap_or_default()),
            manager: Text::new(manager),
            deleting: metadata.deleted().is_some(),
            address_type: Text::new(&address_type),
            ports,
            labels: metadata.labels.to_labels().shared(),
            annotations: without(&metadata.annotations.to_labels(), TRIGGER_TIME).shared(),
            owners: metadata.owners().collect(),
            endpoints: endpoints.unwrap_or_default().iter().map(Endpoint::known).collect(),
        })
    }
}

fn without(pairs: &Labels, key: &str) -> Labels {
    Labels::new(pairs.iter().filter(|(own, _)| *own != key).map(|(key, value)| (key.clone(), value.clone())))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(borrow, default)]
    address_type: Cow<'a, str>,
    #[serde(default)]
    ports: Option<Vec<RawPort>>,
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
}

/// Of others it may be that nothing is said.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPort {
    name: Option<Text>,
    port: Option<i32>,
    protocol: Option<Text>,
    app_protocol: Option<Text>,
}

impl RawPort {
    fn read(self) -> Port {
        Port {
            name: self.name.unwrap_or_default(),
            port: self.port.unwrap_or_default(),
            protocol: self.protocol.unwrap_or_default(),
            app_protocol: self.app_protocol,
        }
    }
}
