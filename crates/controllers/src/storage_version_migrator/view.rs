//! StorageVersionMigrations as their controller sees them.

use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::Deserialize;

use crate::metadata::RawMetadata;

pub const GROUP: &str = "storagemigration.k8s.io";
pub const PLURAL: &str = "storageversionmigrations";

pub const RUNNING: &str = "Running";
pub const SUCCEEDED: &str = "Succeeded";
pub const FAILED: &str = "Failed";

/// Group and plural name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

#[derive(Clone, Debug)]
pub struct Migration {
    pub item: Item,
    /// In seconds since 1970.
    pub created: i64,
    pub generation: i64,
    /// What is migrated.
    pub of: GroupResource,
    /// What was written later needs no migration. None: that is not known yet.
    pub until: Option<u64>,
    /// The types of its conditions that hold.
    holding: Vec<String>,
}

impl Migration {
    pub fn read(item: &Item) -> Option<Migration> {
        let raw: Raw<'_> = serde_json::from_slice(&item.json).ok()?;
        let holding = raw.status.conditions.into_iter().filter(|condition| condition.status == "True");
        Some(Migration {
            item: item.clone(),
            created: raw.metadata.created().unwrap_or(0),
            generation: raw.metadata.generation,
            of: raw.spec.resource,
            until: raw.status.resource_version.parse().ok(),
            holding: holding.map(|condition| condition.kind).collect(),
        })
    }

    pub fn is_running(&self) -> bool {
        self.holds(RUNNING)
    }

    pub fn succeeded(&self) -> bool {
        self.holds(SUCCEEDED)
    }

    /// Whether nothing is migrated any more.
    pub fn is_over(&self) -> bool {
        self.succeeded() || self.holds(FAILED)
    }

    fn holds(&self, kind: &str) -> bool {
        self.holding.iter().any(|holding| holding == kind)
    }
}

pub fn informer(caches: &Caches, resource: &ApiResource) -> Informer<Migration> {
    caches.view(resource, Selection::default(), Migration::read)
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize)]
struct RawSpec {
    resource: GroupResource,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    conditions: Vec<RawCondition>,
    resource_version: String,
}

#[derive(Deserialize)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}
