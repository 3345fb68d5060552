//! How an update makes the new object from the old one: by replacing it, patching it, or applying to it.

use rkube_kinds::kind::Part;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::managed::{self, Reset, TableView};
use rkube_machinery::patch::{Decoding, PatchError, json_patch, merge_patch, printed, strategic};
use rkube_machinery::{GroupResource, Map, Status, Value, decode, json, time};

use super::Call;
use crate::request::FieldValidation;

/// What a request wants done to an object.
pub enum Change {
    Replace(Value),
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

/// Who writes, when, and in which version; owned, so that views of it can be made.
pub struct WriteContext {
    manager: String,
    api_version: String,
    kind: &'static str,
    subresource: String,
    time: String,
}

impl WriteContext {
    pub fn view(&self) -> managed::WriteContext<'_> {
        managed::WriteContext {
            manager: &self.manager,
            api_version: &self.api_version,
            kind: self.kind,
            subresource: &self.subresource,
            time: &self.time,
        }
    }
}

impl Call<'_> {
    pub(super) fn write_context(&self) -> WriteContext {
        WriteContext {
            manager: self.manager(),
            api_version: self.served.api_version.clone(),
            kind: self.served.kind.kind,
            subresource: self.info.subresource.clone(),
            time: time::format_seconds(self.now()),
        }
    }

    /// Fields that writers of this part do not own.
    pub(super) fn reset_fields(&self) -> Reset<'static> {
        Reset::Fields(self.served.kind.rules.reset_fields(self.part))
    }

    pub(super) fn view(&self) -> TableView {
        TableView::Object(self.served.schema)
    }

    fn decoding(&self) -> Decoding {
        match self.options.field_validation {
            FieldValidation::Ignore => Decoding::Lenient,
            _ => Decoding::Checked,
        }
    }

    /// The new object: decoded, defaulted, canonical, its managed fields tracked. `old` is in the served version.
    pub(super) fn changed(&mut self, change: &Change, old: &Value) -> Result<Value, Status> {
        if let Change::Apply(config) = change {
            return self.applied(config, old, &self.write_context());
        }
        let mut value = match change {
            Change::Replace(value) => value.clone(),
            Change::Json(operations) => {
                let mut document = old.clone();
                json_patch::apply_as(operations, &mut document, self.decoding()).map_err(refused)?;
                let unknown = json_patch::unknown_fields(operations);
                if self.options.field_validation == FieldValidation::Warn {
                    self.warnings.extend(unknown);
                }
                let shown = document.clone();
                self.decode_patched(document, || json::to_string(&shown))?
            }
            Change::Merge(patch) => {
                let mut document = old.clone();
                merge_patch::apply_as(patch, &mut document, self.decoding()).map_err(refused)?;
                let shown = document.clone();
                self.decode_patched(document, || json::to_string(&sorted_along(shown.clone(), patch)))?
            }
            Change::Strategic(patch) => {
                let document = strategic::apply(patch, old, self.served.schema).map_err(refused)?;
                self.decode_patched(document, || printed(patch))?
            }
            Change::Apply(_) => unreachable!("handled above"),
        };
        self.served.kind.rules.default(&mut value);
        super::metadata::dedup_owners(value.object_mut("metadata"));
        self.track(old, &mut value);
        Ok(value)
    }

    /// Records who owns what after this write. Empty lists and maps are nobody's, but stay for the rules to see.
    pub(super) fn track(&self, old: &Value, value: &mut Value) {
        let context = self.write_context();
        if !self.kept_empties {
            decode::complete(value, self.served.schema);
            managed::track_update(old, value, self.view(), &context.view(), self.reset_fields(), None);
            return;
        }
        let mut written = value.clone();
        decode::complete(&mut written, self.served.schema);
        managed::track_update(old, &mut written, self.view(), &context.view(), self.reset_fields(), None);
        let metadata = value.object_mut("metadata");
        match written.object_mut("metadata").remove("managedFields") {
            Some(owners) => metadata.set("managedFields", owners),
            None => drop(metadata.remove("managedFields")),
        }
    }

    fn applied(&mut self, config: &Value, old: &Value, context: &WriteContext) -> Result<Value, Status> {
        let reset = self.reset_fields();
        let applied = managed::apply(old, config, self.view(), &context.view(), self.options.force, reset, None);
        let value = applied.map_err(Status::from)?;
        let decoded = decode::decode(value, self.served.schema);
        let decoded = decoded.map_err(|error| Status::from(managed::unreadable(config, &error.to_string())))?;
        let mut value = decoded.value;
        value.set("kind", self.served.kind.kind);
        value.set("apiVersion", self.served.api_version.as_str());
        self.served.kind.rules.default(&mut value);
        decode::complete(&mut value, self.served.schema);
        Ok(value)
    }

    /// A patched document as an object again. `shown`: the text by which errors name what was patched.
    fn decode_patched(&mut self, document: Value, shown: impl Fn() -> String) -> Result<Value, Status> {
        let text = |decoded: &str| unprocessable(&shown(), decoded);
        let decoded = decode::decode(document, self.served.schema).map_err(|error| text(&error.to_string()))?;
        self.kept_empties |= decoded.kept_empties;
        match self.options.field_validation {
            FieldValidation::Strict if !decoded.strict.is_empty() => {
                return Err(text(&format!("strict decoding error: {}", decoded.strict.join(", "))));
            }
            FieldValidation::Warn => self.warnings.extend(decoded.strict),
            _ => {}
        }
        let mut value = decoded.value;
        value.set("kind", self.served.kind.kind);
        value.set("apiVersion", self.served.api_version.as_str());
        Ok(value)
    }
}

/// The document with its keys sorted wherever the patch went, as errors show it.
fn sorted_along(document: Value, patch: &Value) -> Value {
    let (Value::Object(map), Value::Object(patch)) = (document, patch) else { return Value::Null };
    let entries = map.into_entries().into_iter().map(|(key, value)| match (&value, patch.get(&key)) {
        (Value::Object(_), Some(inner @ Value::Object(_))) => {
            let value = sorted_along(value, inner);
            (key, value)
        }
        _ => (key, value),
    });
    Value::Object(Map::sorted(entries.collect()))
}

fn unprocessable(shown: &str, why: &str) -> Status {
    let mut errors = Errors::new();
    errors.invalid(Path::new("patch"), shown, why);
    Status::invalid(&GroupResource::default(), "", &errors)
}

fn refused(error: PatchError) -> Status {
    Status::from(&error)
}

/// The part of an object that a subresource writes.
pub fn part_of(served: &crate::resources::Served, subresource: &str) -> Option<Part> {
    match subresource {
        "" => Some(Part::Main),
        "status" => served.kind.subresources.iter().any(|part| part.name == "status").then_some(Part::Status),
        name => served.kind.subresources.iter().find(|part| part.name == name).map(|part| Part::Other(part.name)),
    }
}
