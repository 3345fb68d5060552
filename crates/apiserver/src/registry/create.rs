//! `create`: a new object, from the body to the store.

use bytes::Bytes;
use rkube_machinery::names::generated;
use rkube_machinery::{Status, Value};
use rkube_store::Expect;

use super::admit::Admission;
use super::metadata::Stage;
use super::{Call, Written, metadata};
use crate::content::Format;
use rkube_catalog::Entry;

/// How often another name is tried when a generated one is taken.
const GENERATE_ATTEMPTS: usize = 8;

/// Which verb makes the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Create,
    /// An update or apply that found nothing to change. What it says of the resource version counts for nothing.
    Update,
}

impl Call<'_> {
    pub(super) async fn create(&mut self, body: &Bytes) -> Result<Written, Status> {
        let format = Format::of(self.content_type)?;
        self.options.check_write("CreateOptions", None)?;
        let mut value = self.decode(format, body)?;
        self.gave_no_labels = value.get("metadata").map("labels").is_empty();
        self.served.kind.rules.default(&mut value);
        let metadata = value.object_mut("metadata");
        metadata::wipe(metadata);
        metadata::place(metadata, if self.served.kind.is_namespaced() { &self.info.namespace } else { "" })?;
        self.create_value(value, Origin::Create).await
    }

    /// Stores a new object that is decoded and defaulted.
    pub(super) async fn create_value(&mut self, mut value: Value, origin: Origin) -> Result<Written, Status> {
        self.warnings.extend(metadata::dedup_owners(value.object_mut("metadata"), Stage::Sent));
        self.track(&Value::Null, &mut value, None);
        self.create_tracked(value, origin).await
    }

    /// Stores a new object whose managed fields are right already.
    pub(super) async fn create_tracked(&mut self, value: Value, origin: Origin) -> Result<Written, Status> {
        let mut value = self.served.to_stored(value);
        let kind = &self.served.kind;
        let server = self.server;
        let name = metadata::name_of(&value);
        let served = self.served;
        let _inside = if served.is_custom() {
            let why = "create not allowed while custom resource definition is terminating";
            let inside = served.stored().gate.enter().await;
            Some(inside.ok_or_else(|| Status::forbidden(&served.group_resource, &name, why))?)
        } else {
            None
        };
        self.admit(Admission::create(&name), &mut value).await?;
        self.warnings.extend(metadata::dedup_owners(value.object_mut("metadata"), Stage::Mutated));
        let generated = value.get("metadata").str("name").is_empty() && value.get("metadata").has("generateName");
        let prefixed = !value.get("metadata").str("generateName").is_empty();
        let mut template = value;
        for attempt in 1.. {
            // Only a generated name may have to be made again.
            let mut value = if generated { template.clone() } else { std::mem::take(&mut template) };
            let metadata = value.object_mut("metadata");
            metadata::fill(metadata, &*server.entropy, self.now());
            if generated {
                let prefix = metadata.str("generateName").to_owned();
                metadata.set("name", generated::generate_name(&prefix, &*server.entropy));
            }
            let version = metadata.remove("resourceVersion").unwrap_or_default();
            if kind.strategy.has_generation {
                metadata.set("generation", 1);
            }
            let held = server.allocation.begin_create(self, &mut value).await?;
            let name = value.get("metadata").str("name").to_owned();
            let stored = self.finish_create(value, &name, number(&version), origin, attempt == 1).await;
            match &stored {
                Ok(Some(_)) => server.allocation.keep(self, held).await,
                Ok(None) | Err(_) => server.allocation.abandon(self, held).await,
            }
            match stored? {
                Some(entry) => return Ok(Written { entry, created: true }),
                None if generated && attempt < GENERATE_ATTEMPTS => {}
                None => {
                    let other = self.fresh(&self.key(&name)).await?;
                    return Err(self.taken(&name, prefixed, other.as_ref()));
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    /// The second half of an attempt: from the named object to the store. `None`: the name is taken.
    async fn finish_create(
        &mut self,
        mut value: Value,
        name: &str,
        version: u64,
        origin: Origin,
        is_first: bool,
    ) -> Result<Option<Entry>, Status> {
        let kind = &self.served.kind;
        kind.rules.prepare_create(&mut value);
        self.stamp(&mut value, None);
        let mut errors = self.namespace_errors(&value, None);
        errors.0.extend(kind.validate_create(&value).0);
        if !errors.is_empty() {
            return Err(Status::invalid(&kind.group_kind(), name, &errors));
        }
        if is_first {
            self.warnings.extend(kind.rules.warnings(&value, None));
        }
        kind.rules.canonicalize(&mut value);
        if self.kept_empties {
            self.served.stored_schema().settle(&mut value);
        }
        self.check_admitted(Admission::create(name), &value).await?;

        let mut value = self.storage_form(value).await?;
        let key = self.key(name);
        if self.options.dry_run {
            if self.served.stored().get(&key).is_some() {
                return Ok(None);
            }
            let object = std::sync::Arc::new(self.kept_form(&value));
            // What stores nothing leaves the version as it was given.
            return Ok(Some(Entry { object, revision: version }));
        }
        if version != 0 && matches!(origin, Origin::Create) {
            return Err(Status {
                code: 500,
                message: "resourceVersion should not be set on objects to be created".to_owned(),
                ..Status::default()
            });
        }
        value.object_mut("metadata").remove("selfLink");
        Ok(self.store(key, value, Expect::Absent).await?.ok())
    }

    /// The name is another object's, which may be on its way out.
    fn taken(&self, name: &str, prefixed: bool, by: Option<&Entry>) -> Status {
        let mut status = if prefixed {
            Status::generate_name_conflict(&self.served.group_resource, name)
        } else {
            Status::already_exists(&self.served.group_resource, name)
        };
        if by.is_some_and(|entry| entry.object.deleting) {
            status.message.insert_str(0, "object is being deleted: ");
        }
        status
    }
}

/// A resource version that is a number; 0 for any other.
fn number(version: &Value) -> u64 {
    version.as_str().parse().unwrap_or(0)
}
