//! Storage classes.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::storage::v1;
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::Deserialize;

use crate::metadata::RawMetadata;

const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    pub name: Text,
    pub provisioner: Text,
    /// Whether its claims wait until a pod needs them.
    pub waits_for_consumer: bool,
    pub reclaim_policy: Text,
    /// Claims that say no class have this one.
    pub is_default: bool,
    /// In seconds.
    pub created: i64,
}

/// All classes.
pub fn classes(caches: &Caches) -> Informer<StorageClass> {
    caches.view(&ApiResource::erase::<v1::StorageClass>(&()), Selection::default(), StorageClass::read)
}

/// The newest of those that are the default; of several, the first by name.
pub fn default_class(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let mut defaults: Vec<&Arc<StorageClass>> = classes.iter().filter(|class| class.is_default).collect();
    defaults.sort_by(|one, other| (other.created, &one.name).cmp(&(one.created, &other.name)));
    defaults.into_iter().next()
}

impl StorageClass {
    fn read(item: &Item) -> Option<StorageClass> {
        let raw: Raw<'_> = match serde_json::from_slice(&item.json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a storage class cannot be read and is left out");
                return None;
            }
        };
        Some(StorageClass {
            name: item.name.clone(),
            provisioner: Text::new(&raw.provisioner),
            waits_for_consumer: raw.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            reclaim_policy: Text::new(raw.reclaim_policy.as_deref().unwrap_or("Delete")),
            is_default: IS_DEFAULT.iter().any(|name| raw.metadata.annotations.get(name) == Some("true")),
            created: raw.metadata.created().unwrap_or_default(),
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(borrow)]
    provisioner: Cow<'a, str>,
    #[serde(borrow)]
    volume_binding_mode: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reclaim_policy: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_default_counts() {
        let class = |name: &str, created, is_default| {
            Arc::new(StorageClass { name: name.into(), created, is_default, ..StorageClass::default() })
        };
        let name = |classes: &[Arc<StorageClass>]| default_class(classes).map(|class| class.name.to_string());
        assert_eq!(name(&[class("a", 5, false)]), None);
        let all = [class("c", 2, true), class("b", 2, true), class("a", 1, true), class("d", 9, false)];
        assert_eq!(name(&all).as_deref(), Some("b"));
    }
}
