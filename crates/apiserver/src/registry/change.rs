//! How an update makes the new object from the old one: by replacing it, patching it, or applying to it.

use std::sync::Arc;

use bytes::Bytes;
use rkube_kinds::Kind;
use rkube_kinds::kind::Part;
use rkube_machinery::decode::{DecodeError, Decoded};
use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::managed::{self, Reset};
use rkube_machinery::patch::{Decoding, PatchError, json_patch, merge_patch, printed, strategic};
use rkube_machinery::schema::Schema;
use rkube_machinery::value::Text;
use rkube_machinery::{GroupResource, Map, Status, Type, Value, decode, json, time};

use super::body_type::{Fit, Misfit, Named};
use super::write::Write;
use crate::request::FieldValidation;
use rkube_catalog::{Conversions, Served};

/// How often a change is worked out again because another version of an object has to be known for it. Two or three times
/// are usual where owners use other versions.
const CONVERSIONS_MAX: usize = 16;

/// What a request wants done to an object.
pub enum Intent {
    Replace(Replacement),
    Json(Patch),
    Merge(Patch),
    Strategic(Patch),
    Apply(Value),
    /// The same, done to the object's scale.
    Scale(Box<Intent>),
}

/// An object in the place of another.
pub struct Replacement {
    pub value: Value,
    /// The text that it was read from: then an attempt may use it up, and the next one reads that again.
    body: Option<Bytes>,
}

impl Replacement {
    pub fn of(value: Value) -> Replacement {
        Replacement { value, body: None }
    }

    pub fn read_from(body: &Bytes, value: Value) -> Replacement {
        Replacement { value, body: Some(body.clone()) }
    }

    /// The object, for one attempt.
    fn take(&mut self) -> Value {
        match self.body {
            Some(_) => std::mem::take(&mut self.value),
            None => self.value.clone(),
        }
    }

    /// What to read it from again, if it was taken.
    pub fn used_up(&self) -> Option<Bytes> {
        self.body.clone().filter(|_| self.value.is_null())
    }
}

/// A patch, and what strict reading objects to in it.
pub struct Patch {
    pub document: Value,
    pub strict: Vec<String>,
}

/// Who writes, when, and in which version; owned, so that views of it can be made.
pub struct Authorship {
    manager: String,
    served: Arc<Served>,
    subresource: Text,
    time: String,
}

impl Authorship {
    pub fn view(&self) -> managed::WriteContext<'_> {
        managed::WriteContext {
            manager: &self.manager,
            api_version: &self.served.api_version,
            kind: &self.served.kind.kind,
            subresource: &self.subresource,
            time: &self.time,
        }
    }
}

impl Write<'_> {
    pub(super) fn authorship(&self) -> Authorship {
        Authorship {
            manager: self.request.manager(),
            served: self.request.served.clone(),
            subresource: self.request.info.subresource.clone(),
            time: time::format_seconds(self.now()),
        }
    }

    /// Fields that writers of this part do not own.
    pub(super) fn reset_fields(&self) -> Reset<'static> {
        self.request.served.kind.strategy.reset_fields.of(self.part)
    }

    /// The table's type: what strategic merge patches and protobuf need.
    fn table(&self) -> Result<&'static Type, Status> {
        self.request
            .served
            .kind
            .schema
            .table()
            .ok_or_else(|| Status::internal("custom resources have no type of the table"))
    }

    fn decoding(&self) -> Decoding {
        match self.options.field_validation {
            FieldValidation::Ignore => Decoding::Lenient,
            _ => Decoding::Checked,
        }
    }

    /// The new object: decoded, defaulted, canonical, its managed fields tracked. `old` is in the served version.
    pub(super) async fn changed(&mut self, change: &mut Intent, old: &Value) -> Result<Value, Status> {
        if !self.request.served.is_custom() {
            return self.changed_once(change, old, None);
        }
        let conversions = Conversions::default();
        for _ in 0..CONVERSIONS_MAX {
            let warnings = self.warnings.len();
            let changed = self.changed_once(change, old, Some(&conversions));
            match conversions.learn(self.request.served).await {
                Ok(false) => return changed,
                Ok(true) => self.warnings.truncate(warnings),
                // Who owns what is no reason to refuse a write, unless it asks for that.
                Err(status) if matches!(change, Intent::Apply(_)) => return Err(status),
                Err(_) => break,
            }
        }
        self.changed_once(change, old, None)
    }

    /// The same, with other versions of a custom resource as far as they are known; none: what owners have of other
    /// versions counts as being of this one.
    fn changed_once(
        &mut self,
        change: &mut Intent,
        old: &Value,
        conversions: Option<&Conversions>,
    ) -> Result<Value, Status> {
        if let Intent::Apply(config) = change {
            return self.applied(config, old, &self.authorship(), conversions);
        }
        let mut value = match change {
            Intent::Replace(replacement) => replacement.take(),
            Intent::Json(Patch { document: operations, strict }) => {
                let decoding = self.decoding();
                let patched = || {
                    let mut document = old.clone();
                    if operations.items().iter().any(reaches_owners) {
                        managed::unfold(&mut document);
                    }
                    json_patch::apply_as(operations, &mut document, decoding)?;
                    json_patch::sort_touched(operations, &mut document);
                    Ok(document)
                };
                let document = patched().map_err(refused)?;
                let strict = [json_patch::unknown_fields(operations), strict.clone()].concat();
                self.decode_patched(document, strict, || shown(patched()))?
            }
            Intent::Merge(Patch { document: patch, strict }) => {
                let decoding = self.decoding();
                let patched = || {
                    let mut document = old.clone();
                    if names_owners(patch) {
                        managed::unfold(&mut document);
                    }
                    merge_patch::apply_as(patch, &mut document, decoding)?;
                    Ok(sorted_along(document, patch))
                };
                let document = patched().map_err(refused)?;
                self.decode_patched(document, strict.clone(), || shown(patched()))?
            }
            Intent::Strategic(Patch { document: patch, strict }) => {
                let unfolded = names_owners(patch).then(|| {
                    let mut old = old.clone();
                    managed::unfold(&mut old);
                    old
                });
                let old = unfolded.as_ref().unwrap_or(old);
                let document = strategic::apply(patch, old, self.table()?).map_err(refused)?;
                if let Some(message) = self.request.served.kind.rules.unreadable(&document) {
                    return Err(Status { code: 500, message, ..Status::default() });
                }
                let converted = self.request.served.kind.schema.convert_patched(document, patch);
                self.take_patched(converted, strict.clone(), || printed(patch))?
            }
            Intent::Apply(_) => unreachable!("handled above"),
            Intent::Scale(_) => return Err(Status::internal("a scale is changed by itself")),
        };
        let reset = resets_owners(&value);
        self.request.served.kind.rules.default(&mut value);
        if reset {
            value.object_mut("metadata").set("managedFields", Vec::<Value>::new());
        }
        self.track(old, &mut value, conversions);
        Ok(value)
    }

    /// Records who owns what after this write. Empty lists and maps are nobody's, but stay for the rules to see.
    pub(super) fn track(&self, old: &Value, value: &mut Value, conversions: Option<&Conversions>) {
        let context = self.authorship();
        let convert = |object: &Value, version: &str| self.in_version(object, version, conversions);
        let schema = &self.request.served.kind.schema;
        if !self.kept_empties {
            // A new object is put in order when it is whole; whose fields are whose does not depend on it.
            if old.is_null() {
                if schema.track_new(value, &context.view(), self.reset_fields()) {
                    return;
                }
            } else {
                schema.complete_beside(value, old, None);
            }
            schema.track_update(old, value, &context.view(), self.reset_fields(), Some(&convert));
            return;
        }
        let mut written = value.clone();
        schema.complete(&mut written);
        if resets_owners(value) {
            written.object_mut("metadata").set("managedFields", Vec::<Value>::new());
        }
        schema.track_update(old, &mut written, &context.view(), self.reset_fields(), Some(&convert));
        let metadata = value.object_mut("metadata");
        match written.object_mut("metadata").remove("managedFields") {
            Some(owners) => metadata.set("managedFields", owners),
            None => drop(metadata.remove("managedFields")),
        }
    }

    /// An object of the served version in another one of its group. What other groups own does not count here.
    fn in_version(&self, object: &Value, version: &str, conversions: Option<&Conversions>) -> Option<(Value, &Schema)> {
        let kind = &self.request.served.kind;
        match conversions {
            _ if !self.request.served.is_custom() => {}
            Some(conversions) => return conversions.get(self.request.served, object, version),
            None => return Some((object.clone(), &kind.schema)),
        }
        let related = |other: &Kind| other.storage_prefix == kind.storage_prefix && other.group == kind.group;
        let mut candidates = self.request.catalog.all().iter();
        let other = candidates.find(|other| other.api_version == version && related(&other.kind))?;
        let stored = self.request.served.to_stored(object.clone());
        let value = match &other.kind.conversion {
            Some(conversion) => conversion.from_stored(stored),
            None => stored,
        };
        Some((value, &other.kind.schema))
    }

    fn applied(
        &mut self,
        config: &Value,
        old: &Value,
        context: &Authorship,
        conversions: Option<&Conversions>,
    ) -> Result<Value, Status> {
        let reset = self.reset_fields();
        let convert = |object: &Value, version: &str| self.in_version(object, version, conversions);
        let force = self.request.query.force.unwrap_or(false);
        let schema = &self.request.served.kind.schema;
        let applied = schema.apply(old, config, &context.view(), force, reset, &convert);
        let value = applied.map_err(Status::from)?;
        let converted = self.request.served.kind.schema.convert(value);
        let converted = converted.map_err(|error| Status::from(managed::unreadable(config, &error.to_string())))?;
        self.kept_empties |= converted.kept_empties;
        let mut value = converted.value;
        if let Some(why) = self.request.served.kind.rules.unreadable(&value) {
            return Err(Status::from(managed::unconvertible(config, &why)));
        }
        value.set("kind", self.request.served.kind.kind.clone());
        value.set("apiVersion", self.request.served.api_version.as_str());
        self.request.served.kind.rules.default(&mut value);
        if !self.kept_empties {
            self.request.served.kind.schema.complete(&mut value);
        }
        Ok(value)
    }

    /// A patched document as an object again. `strict`: what strict reading objects to in the patch; `shown`: the text
    /// by which errors name what was patched.
    fn decode_patched(
        &mut self,
        document: Value,
        strict: Vec<String>,
        shown: impl Fn() -> String,
    ) -> Result<Value, Status> {
        let decoded =
            match patched_type(&document, &self.request.served.kind, &self.request.served.api_version, &shown)? {
                Fit::Internal => Ok(nothing_of(&document)),
                Fit::Same | Fit::OtherVersion => self.request.served.kind.schema.decode(document),
            };
        self.take_patched(decoded, strict, shown)
    }

    fn take_patched(
        &mut self,
        decoded: Result<Decoded, DecodeError>,
        mut strict: Vec<String>,
        shown: impl Fn() -> String,
    ) -> Result<Value, Status> {
        let decoded = decoded.map_err(|error| unprocessable(&shown(), &error.to_string()))?;
        self.kept_empties |= decoded.kept_empties;
        strict.extend(decoded.strict);
        match self.options.field_validation {
            FieldValidation::Strict if !strict.is_empty() => {
                return Err(unprocessable(&shown(), &format!("strict decoding error: {}", strict.join(", "))));
            }
            FieldValidation::Warn => self.warnings.extend(strict),
            _ => {}
        }
        if let Some(why) = self.request.served.kind.rules.unreadable(&decoded.value) {
            return Err(unprocessable(&shown(), &why));
        }
        let mut value = decoded.value;
        value.set("kind", self.request.served.kind.kind.clone());
        value.set("apiVersion", self.request.served.api_version.as_str());
        Ok(value)
    }
}

/// What the patch made of the object's type.
pub(super) fn patched_type(
    document: &Value,
    kind: &Kind,
    api_version: &str,
    shown: &impl Fn() -> String,
) -> Result<Fit, Status> {
    if document.str("kind") == kind.kind && document.str("apiVersion") == api_version {
        return Ok(Fit::Same);
    }
    let refuse = |why: &str| unprocessable(&shown(), why);
    let (api_version, name) = decode::type_meta(document)
        .map_err(|error| refuse(&format!("couldn't get version/kind; json parse error: {error}")))?;
    let fit = Named::read_patched(&api_version, &name, kind).and_then(|named| named.check(kind, shown));
    fit.map_err(|misfit| match &misfit {
        Misfit::Unrelated { schema: Some(schema), .. } => match decode::decode(document.clone(), schema.get()) {
            Ok(_) => refuse(&misfit.to_string()),
            Err(error) => refuse(&error.to_string()),
        },
        _ => refuse(&misfit.to_string()),
    })
}

/// Whether a patch says anything of who owns what, in whatever way.
fn names_owners(patch: &Value) -> bool {
    patch.map("metadata").keys().any(|key| key.contains(OWNERS))
}

/// Whether an operation of a JSON patch goes by the owners: to them, below them, or with what they are in.
fn reaches_owners(operation: &Value) -> bool {
    ["path", "from"].iter().any(|field| {
        let mut steps = operation.str(field).split('/').skip(1);
        operation.has(field)
            && steps.next().is_none_or(|first| first == "metadata")
            && steps.next().is_none_or(|second| second == OWNERS)
    })
}

const OWNERS: &str = "managedFields";

/// Whether the list of owners is there and empty: then they are to be forgotten.
fn resets_owners(value: &Value) -> bool {
    matches!(value.get("metadata").get("managedFields"), Value::Array(list) if list.is_empty())
}

/// What was patched, as errors show it. It could be patched before.
fn shown(patched: Result<Value, PatchError>) -> String {
    patched.map_or_else(|error| error.to_string(), |document| json::to_string(&document))
}

/// What is found of a document in a form that has none of its fields.
pub(super) fn nothing_of(document: &Value) -> Decoded {
    let fields = document.as_map().keys().filter(|key| !matches!(key.as_str(), "kind" | "apiVersion"));
    let strict = fields.map(|key| format!("unknown field {}", quote(key))).collect();
    Decoded { value: Value::object(), strict, kept_empties: false }
}

/// The document with its keys sorted wherever the patch went, as errors show it.
pub(super) fn sorted_along(document: Value, patch: &Value) -> Value {
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
pub fn part_of(served: &rkube_catalog::Served, subresource: &str) -> Option<Part> {
    match subresource {
        "" => Some(Part::Main),
        "status" => served.kind.subresources.iter().any(|part| part.name == "status").then_some(Part::Status),
        name => served.kind.subresources.iter().find(|part| part.name == name).map(|part| Part::Other(part.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_that_go_by_the_owners_are_told() {
        let operation = |text: &str| reaches_owners(&json::parse(text.as_bytes()).unwrap());
        for text in [
            r#"{"op":"test","path":"","value":{}}"#,
            r#"{"op":"test","path":"/metadata","value":{}}"#,
            r#"{"op":"add","path":"/metadata/managedFields/0/fieldsV1/f:a","value":{}}"#,
            r#"{"op":"copy","from":"/metadata/managedFields","path":"/data/a"}"#,
            r#"{"op":"move","from":"/metadata","path":"/data/a"}"#,
        ] {
            assert!(operation(text), "{text}");
        }
        for text in [
            r#"{"op":"add","path":"/metadata/labels/a","value":"b"}"#,
            r#"{"op":"add","path":"/spec/metadata/managedFields","value":"b"}"#,
            r#"{"op":"copy","from":"/metadata/labels","path":"/data/a"}"#,
            r#"{}"#,
        ] {
            assert!(!operation(text), "{text}");
        }
        let patch = |text: &str| names_owners(&json::parse(text.as_bytes()).unwrap());
        assert!(patch(r#"{"metadata":{"managedFields":[{}]}}"#));
        assert!(patch(r#"{"metadata":{"$setElementOrder/managedFields":[]}}"#));
        assert!(!patch(r#"{"metadata":{"labels":{"managedFields":"x"}},"spec":{"managedFields":[]}}"#));
    }
}
