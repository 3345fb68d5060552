//! `update` and `patch`: a change of an object that is there, retried when another write came first.

use bytes::Bytes;
use rkube_kinds::kind::Part;
use rkube_kinds::lifecycle;
use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::status::Details;
use rkube_machinery::{Status, Value, json, patch, yaml};
use rkube_store::Expect;

use super::admit::Admission;
use super::change::{Intent, Patch, Replacement};
use super::decode::each_complaint;
use super::engine::{self, CompareAndSwap, Place, Verdict};
use super::metadata;
use super::metadata::Stage;
use super::reply::Written;
use super::write::Write;
use crate::content::Format;
use crate::request::FieldValidation;
use rkube_catalog::Entry;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const PATCH_TYPES: [&str; 4] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH];

/// The change of an object that is there.
struct Modification<'c, 'a> {
    write: &'c mut Write<'a>,
    place: Place<'a>,
    change: Intent,
    /// How many warnings there were before the first attempt.
    warnings: usize,
}

impl CompareAndSwap for Modification<'_, '_> {
    type Done = Written;

    fn place(&self) -> &Place<'_> {
        &self.place
    }

    async fn attempt(&mut self, current: Option<&Entry>) -> Result<Verdict<Written>, Status> {
        let Modification { write, place, change, .. } = self;
        match current {
            Some(entry) => write.attempt(place, change, entry).await,
            None => write.create_instead(change).await,
        }
    }

    fn again(&mut self) -> Result<(), Status> {
        if let Intent::Replace(replacement) = &mut self.change
            && let Some(body) = replacement.used_up()
        {
            replacement.value = self.write.replacement(&body)?;
        }
        self.write.warnings.truncate(self.warnings);
        Ok(())
    }

    fn exhausted(&self, _current: Option<&Entry>) -> Status {
        Status::modified(&self.write.request.served.group_resource, &self.write.request.info.name)
    }
}

impl Write<'_> {
    pub(super) async fn update(&mut self, body: &Bytes) -> Result<Written, Status> {
        self.take_options("UpdateOptions", None)?;
        let value = self.replacement(body)?;
        let change = match self.request.served.is_custom() {
            // Other versions of it may have to be known, and then the change is worked out again.
            true => Replacement::of(value),
            false => Replacement::read_from(body, value),
        };
        self.modify(Intent::Replace(change)).await
    }

    /// The object that the body of an update has.
    fn replacement(&mut self, body: &Bytes) -> Result<Value, Status> {
        let format = Format::of(self.request.content_type)?;
        let mut value = self.decode(format, body)?;
        let metadata = value.object_mut("metadata");
        metadata::place(metadata, self.request.object_namespace())?;
        self.check_name(&value)?;
        self.warnings.extend(metadata::dedup_owners(value.object_mut("metadata"), Stage::Sent));
        Ok(value)
    }

    pub(super) async fn patch(&mut self, body: &Bytes) -> Result<Written, Status> {
        let change = self.patch_of(body).await?;
        self.modify(change).await
    }

    /// What the body of a patch wants done, by its content type.
    pub(super) async fn patch_of(&mut self, body: &Bytes) -> Result<Intent, Status> {
        let content_type = self.request.content_type.split(';').next().unwrap_or_default().trim().to_owned();
        if self.request.served.is_custom()
            && (content_type == STRATEGIC_PATCH || !PATCH_TYPES.contains(&content_type.as_str()))
        {
            return Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
            )));
        }
        if !PATCH_TYPES.contains(&content_type.as_str()) {
            let status = Status::unsupported_media_type("415: Unsupported Media Type");
            return Err(status.with_details(Details::default()));
        }
        self.take_options("PatchOptions", Some(content_type == APPLY_PATCH))?;
        Ok(match content_type.as_str() {
            APPLY_PATCH => Intent::Apply(self.decode_apply(body)?),
            STRATEGIC_PATCH => Intent::Strategic(self.decode_patch(body, &content_type).await?),
            JSON_PATCH => Intent::Json(self.decode_patch(body, &content_type).await?),
            _ => Intent::Merge(self.decode_patch(body, &content_type).await?),
        })
    }

    /// The patch's document. Whether there is anything to patch counts before whether it can be read.
    async fn decode_patch(&mut self, body: &Bytes, content_type: &str) -> Result<Patch, Status> {
        let lenient = self.options.field_validation == FieldValidation::Ignore;
        let error = match json::parse(body) {
            Ok(mut document) => {
                if matches!(content_type, MERGE_PATCH | JSON_PATCH) && has_fractions(&document) {
                    // What is shown of a patched object has its numbers as they were sent.
                    document = json::parse_exact(body).unwrap_or(document);
                }
                let mut strict = patch::take_last(&mut document);
                if content_type == JSON_PATCH {
                    strict.iter_mut().for_each(|complaint| complaint.insert_str(0, "json patch "));
                }
                return Ok(Patch { document, strict });
            }
            Err(error) => error,
        };
        if self.place(&self.request.info.name).read().await?.is_none() {
            return Err(Status::not_found(&self.request.served.group_resource, &self.request.info.name));
        }
        Err(Status::bad_request(match content_type {
            JSON_PATCH if matches!(error, json::SyntaxError::Range(_)) && !lenient => {
                // A number in an operation is met when its value is read.
                let error = error.to_string().replace("value of type", "struct field jsonPatchOp.value of type");
                format!("error decoding patch: {error}")
            }
            MERGE_PATCH if lenient => "Invalid JSON Patch".to_owned(),
            MERGE_PATCH | JSON_PATCH if !lenient => format!("error decoding patch: {error}"),
            _ => error.to_string(),
        }))
    }

    /// The configuration of an apply: YAML, of which JSON is a part, not decoded by any schema.
    fn decode_apply(&mut self, body: &Bytes) -> Result<Value, Status> {
        if let Ok(mut config) = json::parse(body)
            && patch::take_last(&mut config).is_empty()
        {
            return check_config(config);
        }
        let document = yaml::parse_document(body).map_err(|error| {
            Status::bad_request(format!("error decoding YAML: error converting YAML to JSON: {error}"))
        })?;
        if let Some(complaint) = document.strict {
            match self.options.field_validation {
                FieldValidation::Strict => {
                    return Err(Status::bad_request(format!(
                        "error strict decoding YAML: error converting YAML to JSON: {complaint}"
                    )));
                }
                FieldValidation::Warn => self.warnings.extend(each_complaint(&complaint)),
                FieldValidation::Ignore => {}
            }
        }
        check_config(document.value)
    }

    /// Reads the object, changes it, checks it and writes it, until no other write comes in between.
    pub(super) async fn modify(&mut self, change: Intent) -> Result<Written, Status> {
        let place = self.place(&self.request.info.name);
        let seen = place.cached();
        let warnings = self.warnings.len();
        engine::run(&mut Modification { write: self, place, change, warnings }, seen).await
    }

    async fn attempt(
        &mut self,
        place: &Place<'_>,
        change: &mut Intent,
        entry: &Entry,
    ) -> Result<Verdict<Written>, Status> {
        let kind = &self.request.served.kind;
        let registry = self.registry;
        let old = self.request.working_form(entry).await?;
        if let Intent::Replace(replacement) = change {
            self.check_uid(place.key(), &replacement.value, &old)?;
        }
        let converted = kind.conversion.as_ref().map(|conversion| conversion.from_stored(old.clone()));
        let before = converted.as_ref().unwrap_or(&old);
        let mut value = match change {
            // Admission sees the scale, not the object that has it.
            Intent::Scale(change) => {
                let scaled = self.scaled(change, before).await?;
                self.request.served.to_stored(self.placed(scaled)?)
            }
            _ => {
                let changed = self.changed(change, before).await?;
                let mut value = self.request.served.to_stored(self.placed(changed)?);
                self.admit(Admission::update(&self.request.info.name, &old), &mut value).await?;
                self.stay_placed(&mut value)?;
                value
            }
        };
        self.warnings.extend(metadata::dedup_owners(value.object_mut("metadata"), Stage::Mutated));
        self.check_version(&mut value, entry.revision)?;
        let held = registry.allocation.begin_update(&self.claimant(), &mut value, &old).await?;
        let written = self.finish_attempt(place, value, entry, (&old, change)).await;
        match &written {
            Ok(Verdict::Committed(_) | Verdict::Decided(_)) => registry.allocation.keep(registry, held).await,
            Ok(Verdict::Overtaken) | Err(_) => registry.allocation.abandon(registry, held).await,
        }
        written
    }

    /// The second half of an attempt: from the changed object to the store.
    async fn finish_attempt(
        &mut self,
        place: &Place<'_>,
        mut value: Value,
        entry: &Entry,
        (old, change): (&Value, &Intent),
    ) -> Result<Verdict<Written>, Status> {
        let kind = &self.request.served.kind;
        let checked = self.lifecycle(|lifecycle| lifecycle.update(&mut value, old));
        let name = value.get("metadata").str("name");
        let warnings = checked.map_err(|errors| Status::invalid(&kind.group_kind(), name, &errors))?;
        self.warnings.extend(warnings);
        match change {
            Intent::Scale(_) => self.check_scale_admitted(&value, old).await?,
            _ => self.check_admitted(Admission::update(&self.request.info.name, old), &value).await?,
        }

        if lifecycle::is_finished(kind, &value, old) {
            return self.delete_finished(place, value, entry).await;
        }
        let value = self.request.storage_form(value).await?;
        let object = place.kept_form(&value);
        drop(value);
        if object.stored() == entry.object.stored() {
            return Ok(Verdict::Decided(Written { entry: entry.clone(), created: false }));
        }
        let put = place.put_object(object, Expect::Revision(entry.revision)).await?;
        Ok(put.map(|entry| Written { entry, created: false }))
    }

    /// There is no such object: some kinds, and every apply, make it.
    async fn create_instead(&mut self, change: &Intent) -> Result<Verdict<Written>, Status> {
        let missing = || Status::not_found(&self.request.served.group_resource, &self.request.info.name);
        match change {
            Intent::Apply(config) if self.part == Part::Main => {
                let config = config.clone();
                if !config.get("metadata").str("uid").is_empty() {
                    return Err(Status::conflict(
                        &self.request.served.group_resource,
                        &self.request.info.name,
                        format!(
                            "uid mismatch: the provided object specified uid {}, and no existing object was found",
                            config.get("metadata").str("uid")
                        ),
                    ));
                }
                self.gave_no_labels = config.get("metadata").map("labels").is_empty();
                let value = self.changed(&mut Intent::Apply(config), &Value::Null).await?;
                let value = self.placed(value)?;
                self.create_missing(value).await
            }
            Intent::Replace(Replacement { value, .. })
                if self.part == Part::Main && self.request.served.kind.strategy.create_on_update =>
            {
                parse_version(value.get("metadata").str("resourceVersion"))?;
                self.check_uid(&self.request.key(&self.request.info.name), value, &Value::Null)?;
                let mut value = value.clone();
                self.request.served.kind.rules.default(&mut value);
                self.warnings.extend(metadata::dedup_owners(value.object_mut("metadata"), Stage::Sent));
                self.track(&Value::Null, &mut value, None);
                self.create_missing(value).await
            }
            _ => Err(missing()),
        }
    }

    /// Whoever changed the object on its way must have left it in its namespace.
    pub(super) fn stay_placed(&self, value: &mut Value) -> Result<(), Status> {
        metadata::place(value.object_mut("metadata"), self.request.object_namespace())
    }

    /// The changed object must still be the one that the path names.
    fn placed(&self, mut value: Value) -> Result<Value, Status> {
        metadata::place(value.object_mut("metadata"), self.request.object_namespace())?;
        self.check_name(&value)?;
        Ok(value)
    }

    pub(super) fn check_name(&self, value: &Value) -> Result<(), Status> {
        let (name, wanted) = (value.get("metadata").str("name"), &self.request.info.name);
        if name.is_empty() {
            let message =
                format!("the name of the object ({wanted} based on URL) was undeterminable: name must be provided");
            return Err(Status::bad_request(message));
        }
        if name != wanted {
            let message = format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
            return Err(Status::bad_request(message));
        }
        Ok(())
    }

    pub(super) fn check_uid(&self, key: &str, value: &Value, old: &Value) -> Result<(), Status> {
        let (wanted, found) = (value.get("metadata").str("uid"), old.get("metadata").str("uid"));
        if wanted.is_empty() || wanted == found {
            return Ok(());
        }
        // What is only tried does not get as far as the store, which puts its prefix before keys.
        let key = if self.options.dry_run { key.strip_prefix("/registry").unwrap_or(key) } else { key };
        Err(Status::conflict(
            &self.request.served.group_resource,
            &self.request.info.name,
            format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
            ),
        ))
    }

    /// Optimistic locking: a resource version in the object must be the current one.
    fn check_version(&self, value: &mut Value, revision: u64) -> Result<(), Status> {
        let metadata = value.object_mut("metadata");
        let given = metadata.str("resourceVersion");
        if !matches!(given, "" | "0") {
            if parse_version(given)? != revision {
                return Err(Status::modified(&self.request.served.group_resource, &self.request.info.name));
            }
        } else if !self.request.served.kind.strategy.unconditional_update {
            let mut errors = Errors::new();
            errors.invalid(Path::new("metadata").child("resourceVersion"), 0, "must be specified for an update");
            let resource = self.request.served.kind.group_resource();
            return Err(Status::invalid(&resource, &self.request.info.name, &errors));
        }
        metadata.set("resourceVersion", revision.to_string());
        Ok(())
    }

    /// The last finalizer is gone from an object that is being deleted: so is the object.
    async fn delete_finished(
        &self,
        place: &Place<'_>,
        value: Value,
        entry: &Entry,
    ) -> Result<Verdict<Written>, Status> {
        let gone = Entry::new(place.kept_form(&value), entry.revision);
        let removed = place.remove(entry.revision).await?;
        if let Verdict::Committed(_) = removed {
            self.registry.allocation.release(&self.claimant(), &entry.object.value(entry.revision)).await;
        }
        Ok(removed.map(|_| Written { entry: gone, created: false }))
    }
}

/// The configuration of an apply is an object.
fn check_config(config: Value) -> Result<Value, Status> {
    let word = match &config {
        Value::Object(_) | Value::Written(_) | Value::Null => return Ok(config),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
    };
    Err(Status::bad_request(format!(
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
    )))
}

/// A resource version that a client sent.
fn parse_version(given: &str) -> Result<u64, Status> {
    if given.is_empty() {
        return Ok(0);
    }
    given.parse().map_err(|_| {
        let is_number = given.bytes().all(|byte| byte.is_ascii_digit());
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        let message = format!("strconv.ParseUint: parsing {}: {why}", quote(given));
        Status { code: 500, message, ..Status::default() }
    })
}

/// Whether there are numbers that are no integers.
fn has_fractions(value: &Value) -> bool {
    match value {
        Value::Float(_) => true,
        Value::Array(items) => items.iter().any(has_fractions),
        Value::Object(map) => map.iter().any(|(_, value)| has_fractions(value)),
        _ => false,
    }
}
