//! A kind in one version as it is served.

use std::sync::Arc;

use rkube_kinds::Kind;
use rkube_machinery::schema::Schema;
use rkube_machinery::schema::structural::sort;
use rkube_machinery::{GroupResource, Status, Type, TypeRef, Value, json};

use crate::derived::Derived;
use crate::event::Entry;
use crate::object::Object;
use crate::resource::Resource;
use crate::versions::Versions;

pub struct Served {
    pub kind: Arc<Kind>,
    /// Its objects as they are stored; none for reviews, which are answered and forgotten.
    pub cache: Option<Arc<Resource>>,
    /// As messages name it.
    pub group_resource: GroupResource,
    pub api_version: String,
    /// How a custom resource gets from one version to another.
    custom: Option<Custom>,
}

struct Custom {
    versions: Arc<Versions>,
    derived: Arc<Derived>,
}

impl Served {
    pub(crate) fn new(kind: Arc<Kind>, cache: Option<Arc<Resource>>) -> Served {
        let (group_resource, api_version) = (kind.group_resource(), kind.api_version());
        Served { kind, cache, group_resource, api_version, custom: None }
    }

    /// The objects of a resource in the form in which they are stored.
    pub fn of_storage(resource: Arc<Resource>) -> Served {
        Served::new(resource.kind.clone(), Some(resource))
    }

    /// Whether a definition made the kind.
    pub fn is_custom(&self) -> bool {
        self.kind.schema.table().is_none()
    }

    /// A version of a custom resource whose objects are stored in `cache`.
    pub(crate) fn custom(kind: Arc<Kind>, cache: &Arc<Resource>, versions: &Arc<Versions>) -> Served {
        let derived = Arc::new(Derived::new(kind.clone(), versions.clone(), cache.clone()));
        let custom = Some(Custom { versions: versions.clone(), derived });
        Served { custom, ..Served::new(kind, Some(cache.clone())) }
    }

    /// The objects that lists and watches show, with all that was stored before this call. Those of a custom resource
    /// are in this version; those of other kinds are as they are stored, and [`Served::value`] converts them.
    ///
    /// Where objects have to be converted this waits for it, and fails with it. Who wants a revision waits for the
    /// cache to reach it first.
    pub async fn readable(&self) -> Result<Arc<Resource>, Status> {
        let stored = self.stored();
        match &self.custom {
            Some(custom) if !Arc::ptr_eq(&self.kind, &stored.kind) || stored.is_mixed() => custom.derived.read().await,
            _ => Ok(stored.clone()),
        }
    }

    /// One stored object in the form of [`Served::readable`].
    pub async fn in_version(&self, entry: &Entry) -> Result<Entry, Status> {
        let Some(custom) = self.different(entry) else { return Ok(entry.clone()) };
        if let Some(found) = custom.derived.find(entry) {
            return Ok(found);
        }
        let object = Arc::new(Object::new(&custom.convert(entry, &self.kind).await?, &self.kind));
        Ok(Entry::new(object, entry.revision))
    }

    /// A stored object in this version, with its resource version (none if the entry has revision 0).
    pub async fn converted(&self, entry: &Entry) -> Result<Value, Status> {
        if self.different(entry).is_none() {
            return Ok(self.value(entry));
        }
        let entry = self.in_version(entry).await?;
        Ok(entry.object.value(entry.revision))
    }

    /// An object of this version in the form in which it is stored.
    pub async fn to_storage(&self, mut value: Value) -> Result<Value, Status> {
        let Some(custom) = self.custom.as_ref().filter(|_| !Arc::ptr_eq(&self.kind, &self.stored().kind)) else {
            value = self.to_stored(value);
            if self.is_custom() {
                set_status(&mut value, &self.kind);
                sort(value.object_mut("metadata"));
            }
            return Ok(value);
        };
        // Who converts sees no resource version, since none is stored.
        let version = value.object_mut("metadata").remove("resourceVersion");
        let mut stored = custom.versions.to_storage(value).await?;
        if let Some(version) = version {
            stored.object_mut("metadata").set("resourceVersion", version);
            self.stored_schema().complete(&mut stored);
        }
        Ok(stored)
    }

    /// Whether both are versions of the same objects.
    pub fn is_equivalent(&self, other: &Served) -> bool {
        let (kind, other) = (&self.kind, &other.kind);
        match kind.storage_prefix.as_str() {
            "" => other.storage_prefix.is_empty() && kind.is(&other.group, &other.resource),
            prefix => other.storage_prefix == prefix,
        }
    }

    /// An object of a custom resource, in whatever version it is, in this one.
    pub async fn in_this_version(&self, mut value: Value) -> Result<Value, Status> {
        let Some(custom) = self.custom.as_ref().filter(|_| value.str("apiVersion") != self.api_version) else {
            return Ok(value);
        };
        // Who converts sees no resource version, and no text that stands for a tree.
        let version = value.object_mut("metadata").remove("resourceVersion");
        let plain = json::parse(json::to_string(&value).as_bytes()).unwrap_or(value);
        let mut value = custom.versions.convert(vec![plain], &self.kind).await?.pop().unwrap_or_default();
        if let Some(version) = version {
            value.object_mut("metadata").set("resourceVersion", version);
            self.kind.schema.complete(&mut value);
        }
        Ok(value)
    }

    pub(crate) fn custom_versions(&self) -> Option<&Versions> {
        self.custom.as_ref().map(|custom| &*custom.versions)
    }

    /// How to convert a stored object, if it is a custom resource's and in another version.
    fn different(&self, entry: &Entry) -> Option<&Custom> {
        let custom = self.custom.as_ref()?;
        let is_same = custom.versions.is_same(&entry.object, &self.kind, &self.api_version);
        (!is_same).then_some(custom)
    }

    /// The object in this version, with its resource version (none if the entry has revision 0). Of a custom resource
    /// it is one of [`Served::readable`].
    pub fn value(&self, entry: &Entry) -> Value {
        self.to_served(entry.object.value(entry.revision))
    }

    /// An object of [`Served::readable`], in this version.
    pub fn to_served(&self, stored: Value) -> Value {
        match &self.kind.conversion {
            Some(conversion) => conversion.from_stored(stored),
            None => stored,
        }
    }

    /// An object of a built-in kind in the form in which it is stored.
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

/// A new object was sent without a status. What storage gives back of it has the default of one.
fn set_status(value: &mut Value, kind: &Kind) {
    if let Schema::Structural(schema) = &kind.schema
        && schema.property("status").is_some_and(|status| status.default.is_some())
        && !value.has("status")
    {
        schema.set_defaults(value);
        sort(value);
    }
}

impl Custom {
    async fn convert(&self, entry: &Entry, to: &Kind) -> Result<Value, Status> {
        let value = self.versions.as_stored(&entry.object)?;
        let mut converted = self.versions.convert(vec![value], to).await?;
        Ok(converted.pop().unwrap_or_default())
    }
}
