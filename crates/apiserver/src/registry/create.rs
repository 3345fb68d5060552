//! `create`: a new object, from the body to the store.

use bytes::Bytes;
use rkube_kinds::lifecycle;
use rkube_machinery::names::generated;
use rkube_machinery::{Status, Text, Value};
use rkube_store::Expect;

use super::admit::Admission;
use super::engine::{self, CompareAndSwap, Place, Seen, Verdict};
use super::metadata;
use super::metadata::Stage;
use super::reply::Written;
use super::write::Write;
use crate::content::Format;
use rkube_catalog::{Entry, Inside};

/// How often another name is tried when a generated one is taken.
const GENERATE_ATTEMPTS_MAX: usize = 8;

/// How often a new object is put only if what it rests upon, its namespace, is not written meanwhile.
const GUARDED_ATTEMPTS_MAX: usize = 4;

/// Which verb makes the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Create,
    /// An update or apply that found nothing to change. What it says of the resource version counts for nothing.
    Update,
}

/// A new object on its way to the store.
struct Creation<'c, 'a> {
    write: &'c mut Write<'a>,
    place: Place<'a>,
    name: Text,
    template: Value,
    /// Whether the name is the server's choice, which may have to be made again.
    is_generated: bool,
    is_prefixed: bool,
    origin: Origin,
    /// How many warnings there were before the first attempt.
    warnings: usize,
    /// Keeps the kind of a custom resource from being taken away.
    _inside: Option<Inside<'a>>,
}

impl CompareAndSwap for Creation<'_, '_> {
    type Done = Written;

    fn place(&self) -> &Place<'_> {
        &self.place
    }

    fn attempts_max(&self) -> usize {
        if self.is_generated { GENERATE_ATTEMPTS_MAX } else { 1 }
    }

    /// What is there is another object: it does not matter which.
    async fn attempt(&mut self, _current: Option<&Entry>) -> Result<Verdict<Written>, Status> {
        let registry = self.write.registry;
        let mut value = if self.is_generated { self.template.clone() } else { std::mem::take(&mut self.template) };
        let uid = generated::uuid(&*registry.entropy);
        let name = self.is_generated.then(|| {
            let name = generated::generate_name(value.get("metadata").str("generateName"), &*registry.entropy);
            Text::from(name)
        });
        if let Some(name) = &name {
            self.name = name.clone();
            self.place = self.write.place(name);
        }
        let version = lifecycle::identify(&self.write.request.served.kind, &mut value, uid, name, self.write.now());
        let version = version.map_or(0, |version| number(&version));
        let Creation { write, place, name, origin, .. } = self;
        let held = registry.allocation.begin_create(&write.claimant(), &mut value).await?;
        let stored = write.finish_create(place, value, (name, version, *origin)).await;
        match &stored {
            Ok(Verdict::Committed(_) | Verdict::Decided(_)) => registry.allocation.keep(registry, held).await,
            Ok(Verdict::Overtaken) | Err(_) => registry.allocation.abandon(registry, held).await,
        }
        stored
    }

    fn again(&mut self) -> Result<(), Status> {
        self.write.warnings.truncate(self.warnings);
        Ok(())
    }

    fn exhausted(&self, current: Option<&Entry>) -> Status {
        self.write.taken(&self.name, self.is_prefixed, current)
    }
}

impl<'a> Write<'a> {
    pub(super) async fn create(&mut self, body: &Bytes) -> Result<Written, Status> {
        let format = Format::of(self.request.content_type)?;
        self.take_options("CreateOptions", None)?;
        let mut value = self.decode(format, body)?;
        self.gave_no_labels = value.get("metadata").map("labels").is_empty();
        lifecycle::begin(&self.request.served.kind, &mut value);
        let metadata = value.object_mut("metadata");
        metadata::place(metadata, self.request.object_namespace())?;
        self.create_value(value, Origin::Create).await
    }

    /// Stores a new object that is decoded and defaulted.
    pub(super) async fn create_value(&mut self, mut value: Value, origin: Origin) -> Result<Written, Status> {
        self.warnings.extend(metadata::dedup_owners(value.object_mut("metadata"), Stage::Sent));
        self.track(&Value::Null, &mut value, None);
        self.create_tracked(value, origin).await
    }

    /// Stores a new object whose managed fields are right already.
    async fn create_tracked(&mut self, value: Value, origin: Origin) -> Result<Written, Status> {
        let mut creation = self.begin_creation(value, origin).await?;
        engine::run(&mut creation, Seen::ABSENT).await
    }

    /// The same by a write that found no object to change: one attempt, which another write may overtake.
    pub(super) async fn create_missing(&mut self, value: Value) -> Result<Verdict<Written>, Status> {
        self.begin_creation(value, Origin::Update).await?.attempt(None).await
    }

    /// A new object that may come and is admitted, up to the attempts to store it.
    async fn begin_creation<'c>(&'c mut self, value: Value, origin: Origin) -> Result<Creation<'c, 'a>, Status> {
        let mut value = self.request.served.to_stored(value);
        let name = metadata::name_of(&value);
        let served = self.request.served;
        let inside = if served.is_custom() {
            let why = "create not allowed while custom resource definition is terminating";
            let inside = served.stored().gate.enter().await;
            Some(inside.ok_or_else(|| Status::forbidden(&served.group_resource, &name, why))?)
        } else {
            None
        };
        self.admit(Admission::create(&name), &mut value).await?;
        self.stay_placed(&mut value)?;
        self.warnings.extend(metadata::dedup_owners(value.object_mut("metadata"), Stage::Mutated));
        let is_generated = value.get("metadata").str("name").is_empty() && value.get("metadata").has("generateName");
        let is_prefixed = !value.get("metadata").str("generateName").is_empty();
        let name = metadata::name_of(&value);
        let place = self.place(&name);
        let warnings = self.warnings.len();
        Ok(Creation {
            write: self,
            place,
            name,
            template: value,
            is_generated,
            is_prefixed,
            origin,
            warnings,
            _inside: inside,
        })
    }

    /// An attempt: from the named object to the store.
    async fn finish_create(
        &mut self,
        place: &Place<'_>,
        mut value: Value,
        (name, version, origin): (&str, u64, Origin),
    ) -> Result<Verdict<Written>, Status> {
        let checked = self.lifecycle(|lifecycle| lifecycle.create(&mut value));
        let warnings =
            checked.map_err(|errors| Status::invalid(&self.request.served.kind.group_kind(), name, &errors))?;
        self.warnings.extend(warnings);
        if matches!(origin, Origin::Update) {
            // Whoever may change an object need not be one who may make it.
            self.registry.authorizers.check(self.request.user, &self.request.info.creation())?;
        }
        self.check_admitted(Admission::create(name), &value).await?;

        let mut value = self.request.storage_form(value).await?;
        if !place.is_dry_run() {
            if version != 0 && matches!(origin, Origin::Create) {
                return Err(Status {
                    code: 500,
                    message: "resourceVersion should not be set on objects to be created".to_owned(),
                    ..Status::default()
                });
            }
            value.object_mut("metadata").remove("selfLink");
        }
        let put = self.put_new(place, value, name).await?;
        // What stores nothing leaves the version as it was given.
        let revision = |entry: &Entry| if place.is_dry_run() { version } else { entry.revision };
        let written = |entry: Entry| {
            let revision = revision(&entry);
            Written { entry: Entry::new(entry.object, revision), created: true }
        };
        Ok(put.map(written))
    }

    /// Stores it, if what admission rests upon is still so.
    async fn put_new(&self, place: &Place<'_>, value: Value, name: &str) -> Result<Verdict<Entry>, Status> {
        let object = place.kept_form(&value);
        // The tree is still in this core's cache, and another request can use its memory while this one waits.
        drop(value);
        let Some(guardian) = self.guardian(Admission::create(name)) else {
            return place.put_object(object, Expect::Absent).await;
        };
        let mut seen = guardian.resource.get(&guardian.key);
        let guardian = Place::new(&self.registry.engine, &guardian.resource, guardian.key, place.is_dry_run());
        for _ in 0..GUARDED_ATTEMPTS_MAX {
            self.check_guardian(Admission::create(name), seen.as_ref().map(|entry| &*entry.object))?;
            let guard = seen.map(|entry| guardian.guard(&entry));
            if let Some(put) = place.put_guarded(object.clone(), Expect::Absent, guard).await? {
                return Ok(put);
            }
            seen = guardian.read().await?;
        }
        // It is written all the time, and nobody waits for that to end: it is looked at when the object is stored. Whoever
        // empties it then finds the object, or that is taken back.
        self.check_guardian(Admission::create(name), seen.as_ref().map(|entry| &*entry.object))?;
        let put = place.put_object(object, Expect::Absent).await?;
        if let Verdict::Committed(entry) = &put {
            let seen = guardian.read().await?;
            let stays = self.check_guardian(Admission::create(name), seen.as_ref().map(|entry| &*entry.object));
            if let Err(refused) = stays {
                place.remove(entry.revision).await?;
                return Err(refused);
            }
        }
        Ok(put)
    }

    /// The name is another object's, which may be on its way out.
    fn taken(&self, name: &str, prefixed: bool, by: Option<&Entry>) -> Status {
        let mut status = if prefixed {
            Status::generate_name_conflict(&self.request.served.group_resource, name)
        } else {
            Status::already_exists(&self.request.served.group_resource, name)
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
