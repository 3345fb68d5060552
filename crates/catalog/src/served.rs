//! A kind in one version as it is served.

use std::sync::Arc;

use rkube_kinds::Kind;
use rkube_machinery::schema::Schema;
use rkube_machinery::{GroupResource, Type, TypeRef, Value};

use crate::resource::{Entry, Resource};

pub struct Served {
    pub kind: Arc<Kind>,
    /// Its objects; none for reviews, which are answered and forgotten.
    pub cache: Option<Arc<Resource>>,
    /// As messages name it.
    pub group_resource: GroupResource,
    pub api_version: String,
}

impl Served {
    pub(crate) fn new(kind: Arc<Kind>, cache: Option<Arc<Resource>>) -> Served {
        let (group_resource, api_version) = (kind.group_resource(), kind.api_version());
        Served { kind, cache, group_resource, api_version }
    }

    /// The objects of a resource in the form in which they are stored.
    pub fn of_storage(resource: Arc<Resource>) -> Served {
        Served::new(resource.kind.clone(), Some(resource))
    }

    /// Whether a definition made the kind.
    pub fn is_custom(&self) -> bool {
        self.kind.schema.table().is_none()
    }

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

    /// The schema of the version in which objects are stored.
    pub fn stored_schema(&self) -> &Schema {
        self.cache.as_ref().map_or(&self.kind.schema, |cache| &cache.kind.schema)
    }

    pub fn list_schema(&self) -> Option<&'static Type> {
        self.kind.schema.table()?;
        TypeRef::find(&format!("{}List", self.kind.type_name)).map(TypeRef::get)
    }

    /// The stored objects. Only kinds with storage are asked for it.
    pub fn stored(&self) -> &Arc<Resource> {
        self.cache.as_ref().expect("kinds without storage allow no verb that reads it")
    }
}
