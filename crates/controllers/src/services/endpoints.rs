//! What is kept of Endpoints: enough to see whether they are as they should be, and whose business they are.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Key, Selection};
use serde::Deserialize;

use super::subsets::{Subset, or_empty};
use crate::metadata::{Labels, RawMetadata};

/// Endpoints with it are a lock that somebody holds, and belong to no service.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Label of Endpoints that are not to be mirrored.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of Endpoints of which addresses were left out.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

pub struct Endpoints {
    pub namespace: Text,
    pub name: Text,
    pub labels: Arc<Labels>,
    /// Whether they say that addresses were left out.
    pub says_truncated: bool,
    pub is_lock: bool,
    /// A [`digest`] of them.
    pub subsets: u64,
}

/// All Endpoints.
pub fn informer(caches: &Caches) -> Informer<Endpoints> {
    caches.view(&ApiResource::erase::<v1::Endpoints>(&()), Selection::default(), Endpoints::read)
}

impl Endpoints {
    fn read(item: &Item) -> Option<Endpoints> {
        #[derive(Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            metadata: RawMetadata<'a>,
            #[serde(default, deserialize_with = "or_empty")]
            subsets: Vec<Subset>,
        }
        match serde_json::from_slice::<Raw<'_>>(&item.json) {
            Ok(raw) => Some(Endpoints {
                namespace: item.namespace.clone(),
                name: item.name.clone(),
                labels: raw.metadata.labels.to_labels().shared(),
                says_truncated: raw.metadata.annotations.get(OVER_CAPACITY).is_some(),
                is_lock: raw.metadata.annotations.get(LEADER).is_some(),
                subsets: digest(&raw.subsets),
            }),
            Err(error) => {
                tracing::error!(name = %item.name, %error, "Endpoints cannot be read and are left out");
                None
            }
        }
    }

    pub fn key(&self) -> Key {
        Key { namespace: self.namespace.to_string(), name: self.name.to_string() }
    }

    /// Whether there are to be slices of them, if their service selects no pods.
    pub fn is_mirrored(&self) -> bool {
        !self.is_lock && self.labels.get(SKIP_MIRROR) != Some("true")
    }
}

/// A number that is the same for the same subsets.
pub fn digest(subsets: &[Subset]) -> u64 {
    let mut hasher = DefaultHasher::new();
    subsets.hash(&mut hasher);
    hasher.finish()
}
