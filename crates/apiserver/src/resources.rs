//! What is served: each kind in each version, with its place in the cache.

use std::collections::HashMap;
use std::sync::Arc;

use rkube_kinds::Kind;
use rkube_machinery::{GroupResource, Text, Type, TypeRef, Value};

use crate::cache::{self, Entry, schema_of};

/// A kind in one version as it is served.
pub struct Served {
    pub kind: Arc<Kind>,
    pub schema: &'static Type,
    /// The schema of the version in which objects are stored.
    pub stored_schema: &'static Type,
    /// Its objects; none for reviews, which are answered and forgotten.
    pub cache: Option<Arc<cache::Resource>>,
    /// As messages name it.
    pub group_resource: GroupResource,
    pub api_version: String,
    pub list_kind: String,
}

impl Served {
    /// The object in this version, with its resource version (none if the entry has revision 0).
    pub fn value(&self, entry: &Entry) -> Value {
        self.to_served(entry.object.value(entry.revision))
    }

    /// An object in the stored form, in this version.
    pub fn to_served(&self, stored: Value) -> Value {
        match &self.kind.conversion {
            Some(conversion) => conversion.from_stored(stored),
            None => stored,
        }
    }

    /// An object of this version in the form in which it is stored.
    pub fn to_stored(&self, value: Value) -> Value {
        match &self.kind.conversion {
            Some(conversion) => conversion.to_stored(value),
            None => value,
        }
    }

    pub fn list_schema(&self) -> Option<&'static Type> {
        TypeRef::find(&format!("{}List", self.kind.type_name)).map(TypeRef::get)
    }

    /// The stored objects. Only kinds with storage are asked for it.
    pub fn stored(&self) -> &Arc<cache::Resource> {
        self.cache.as_ref().expect("kinds without storage allow no verb that reads it")
    }
}

/// All that is served, found by group, version and resource.
pub struct Resources {
    all: Vec<Arc<Served>>,
    /// By the name of the resource; few groups and versions share one.
    by_name: HashMap<Text, Vec<Arc<Served>>>,
    caches: Vec<Arc<cache::Resource>>,
}

impl Resources {
    pub fn new(kinds: &[Arc<Kind>]) -> Resources {
        let mut caches: Vec<Arc<cache::Resource>> = Vec::new();
        // The version in which objects are stored may itself not be served.
        let stored = |prefix: &str| {
            let mut candidates = kinds.iter().chain(rkube_kinds::all());
            candidates.find(|kind| kind.storage_prefix == prefix && kind.conversion.is_none()).cloned()
        };
        for kind in kinds.iter().filter(|kind| !kind.storage_prefix.is_empty()) {
            let known = caches.iter().any(|cache| cache.kind.storage_prefix == kind.storage_prefix);
            if let Some(stored) = stored(&kind.storage_prefix).filter(|_| !known) {
                caches.push(Arc::new(cache::Resource::new(stored)));
            }
        }
        let find = |kind: &Kind| caches.iter().find(|cache| cache.kind.storage_prefix == kind.storage_prefix).cloned();
        let all: Vec<Arc<Served>> = kinds
            .iter()
            .map(|kind| {
                let cache = find(kind);
                Arc::new(Served {
                    kind: kind.clone(),
                    schema: schema_of(kind),
                    stored_schema: cache.as_ref().map_or_else(|| schema_of(kind), |cache| schema_of(&cache.kind)),
                    cache,
                    group_resource: kind.group_resource(),
                    api_version: kind.api_version(),
                    list_kind: format!("{}List", kind.kind),
                })
            })
            .collect();
        let mut by_name: HashMap<Text, Vec<Arc<Served>>> = HashMap::new();
        for served in &all {
            by_name.entry(served.kind.resource.clone()).or_default().push(served.clone());
        }
        Resources { all, by_name, caches }
    }

    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Served>> {
        let mut found = self.by_name.get(resource)?.iter();
        found.find(|served| served.kind.group == group && served.kind.version == version)
    }

    /// The objects of a resource, where it is served and has any.
    pub fn cache(&self, group: &str, version: &str, resource: &str) -> Option<Arc<cache::Resource>> {
        self.find(group, version, resource).and_then(|served| served.cache.clone())
    }

    pub fn all(&self) -> &[Arc<Served>] {
        &self.all
    }

    pub fn caches(&self) -> &[Arc<cache::Resource>] {
        &self.caches
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.all.iter().any(|served| served.kind.group == group && served.kind.version == version)
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.all.iter().any(|served| served.kind.group == group)
    }
}
