//! `create`: a new object, from the body to the store.

use bytes::Bytes;
use rkube_machinery::{Status, Value, decode};
use rkube_store::Expect;

use super::{Call, Written, metadata};
use crate::admission::{Attributes, Operation};
use crate::cache::Entry;
use crate::content::Format;

/// How often another name is tried when a generated one is taken.
const GENERATE_ATTEMPTS: usize = 8;

impl Call<'_> {
    pub(super) async fn create(&mut self, body: &Bytes) -> Result<Written, Status> {
        let format = Format::of(self.content_type)?;
        self.options.check_write("CreateOptions", None)?;
        let mut value = self.decode(format, body)?;
        self.served.kind.rules.default(&mut value);
        let metadata = value.object_mut("metadata");
        metadata::wipe(metadata);
        metadata::place(metadata, if self.served.kind.is_namespaced() { &self.info.namespace } else { "" })?;
        self.create_value(value).await
    }

    /// Stores a new object that is decoded and defaulted.
    pub(super) async fn create_value(&mut self, mut value: Value) -> Result<Written, Status> {
        for uid in metadata::dedup_owners(value.object_mut("metadata")) {
            self.warnings.push(format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uid}"
            ));
        }
        self.track(&Value::Null, &mut value);
        self.create_tracked(value).await
    }

    /// Stores a new object whose managed fields are right already.
    pub(super) async fn create_tracked(&mut self, value: Value) -> Result<Written, Status> {
        let mut value = self.served.to_stored(value);
        let kind = self.served.kind;
        let server = self.server;
        let mut attributes = Attributes::new(self, Operation::Create);
        server.admission.mutate(&mut attributes, &mut value, None).await?;
        self.warnings.append(&mut attributes.warnings);
        let generated = value.get("metadata").str("name").is_empty() && value.get("metadata").has("generateName");
        let mut template = value;
        for attempt in 1.. {
            // Only a generated name may have to be made again.
            let mut value = if generated { template.clone() } else { std::mem::take(&mut template) };
            let metadata = value.object_mut("metadata");
            metadata::fill(metadata, &*server.entropy, self.now());
            if generated {
                let prefix = metadata.str("generateName").to_owned();
                metadata.set("name", metadata::generate_name(&prefix, &*server.entropy));
            }
            if !metadata.str("resourceVersion").is_empty() && metadata.str("resourceVersion") != "0" {
                return Err(Status {
                    code: 500,
                    message: "resourceVersion should not be set on objects to be created".to_owned(),
                    ..Status::default()
                });
            }
            metadata.remove("resourceVersion");
            if kind.rules.has_generation() {
                metadata.set("generation", 1);
            }
            let claims = server.allocation.begin_create(self, &mut value)?;
            kind.rules.prepare_create(&mut value);
            self.stamp(&mut value, None);
            let name = value.get("metadata").str("name").to_owned();
            let errors = kind.validate_create(&value);
            if !errors.is_empty() {
                return Err(Status::invalid(&kind.group_kind(), &name, &errors));
            }
            if attempt == 1 {
                self.warnings.extend(kind.rules.warnings(&value, None));
            }
            kind.rules.canonicalize(&mut value);
            decode::complete(&mut value, self.served.stored_schema);
            let mut attributes = Attributes::new(self, Operation::Create);
            attributes.name = name.clone();
            server.admission.validate(&mut attributes, Some(&value), None).await?;
            self.warnings.append(&mut attributes.warnings);

            let key = self.key(&name);
            if self.options.dry_run {
                if self.served.stored().get(&key).is_some() {
                    return Err(self.taken(&name, generated));
                }
                let object = std::sync::Arc::new(self.kept_form(&value));
                return Ok(Written { entry: Entry { object, revision: 0 }, created: true });
            }
            match self.store(key, value, Expect::Absent).await? {
                Ok(entry) => {
                    claims.keep();
                    return Ok(Written { entry, created: true });
                }
                Err(_) if generated && attempt < GENERATE_ATTEMPTS => {}
                Err(_) => return Err(self.taken(&name, generated)),
            }
        }
        unreachable!("the last attempt returns")
    }

    fn taken(&self, name: &str, generated: bool) -> Status {
        if generated {
            Status::generate_name_conflict(&self.served.group_resource, name)
        } else {
            Status::already_exists(&self.served.group_resource, name)
        }
    }
}
