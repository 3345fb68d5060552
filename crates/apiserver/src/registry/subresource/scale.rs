//! `scale`: the number of replicas of any workload, as one and the same kind of object.
//!
//! A write of a scale is an update of the object itself: the change is done to the scale that the object has at that
//! moment, and the new number goes back into the object, with the owners that the field has now.

use std::sync::LazyLock;

use bytes::Bytes;
use http::StatusCode;
use rkube_kinds::kind::{Columns, Kind, Part, Row, ScalePaths};
use rkube_kinds::scale;
use rkube_machinery::decode::{DecodeError, Decoded};
use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::managed::{self, Replicas, Reset, TableView};
use rkube_machinery::patch::{json_patch, merge_patch, printed, strategic};
use rkube_machinery::{GroupResource, Status, Type, TypeRef, Value, decode, json, time};

use super::super::admit::Admission;
use super::super::body_type::Fit;
use super::super::change::{Intent, Replacement, nothing_of, patched_type, sorted_along};
use super::super::request::Request;
use super::super::write::Write;
use super::super::{Registry, metadata, read};
use crate::content::{Answer, Transform, one_row, unlisted_answer, value_answer};
use crate::request::FieldValidation;
use rkube_catalog::Entry;

const TYPE: &str = "io.k8s.api.autoscaling.v1.Scale";
const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// As a kind, for what a patch may make of it.
static SCALE: LazyLock<Kind> = LazyLock::new(|| Kind::of(&ROW));
static ROW: Row = Row { group: "autoscaling", version: "v1", kind: KIND, type_name: TYPE, ..Row::DEFAULTS };
static COLUMNS: Columns = Columns::Table(scale::COLUMNS);

/// The scale of an object.
pub async fn get(registry: &Registry, request: &Request<'_>) -> Result<Answer, Status> {
    request.scale_form()?;
    read::wait_for_version(registry, request).await?;
    request.scale_answer(&request.find()?, registry.clock.now_seconds()).await
}

impl Request<'_> {
    fn scale_form(&self) -> Result<(ScalePaths, &'static Type), Status> {
        let paths = self.served.kind.scale.clone().ok_or_else(Status::method_not_allowed)?;
        let schema = TypeRef::find(TYPE).ok_or_else(|| Status::internal("Scale is not in the schema table"))?;
        Ok((paths, schema.get()))
    }

    async fn scale_answer(&self, entry: &Entry, now: i64) -> Result<Answer, Status> {
        let (paths, schema) = self.scale_form()?;
        let object = match self.served.is_custom() {
            true => self.working_form(entry).await?,
            false => entry.object.parts(&paths.sources(), entry.revision),
        };
        let scale = scale_of(&object, &paths, schema)?;
        if let Transform::Table(version) = self.accept.transform {
            let table = one_row(&COLUMNS, version, &scale, &self.query.include_object, now);
            return Ok(value_answer(StatusCode::OK, self.accept, &table, None));
        }
        Ok(unlisted_answer(StatusCode::OK, self.accept, &scale, Some(schema)))
    }
}

impl Write<'_> {
    pub(in crate::registry) async fn scale(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let change = match self.request.info.verb.as_ref() {
            "update" => {
                self.take_options("UpdateOptions", None)?;
                let scale = self.decode_other(body, TYPE, API_VERSION, KIND)?;
                self.check_name(&scale)?;
                Intent::Replace(Replacement::of(scale))
            }
            "patch" => self.patch_of(body).await?,
            _ => return Err(Status::method_not_allowed()),
        };
        self.part = Part::Main;
        let written = self.modify(Intent::Scale(Box::new(change))).await?;
        self.request.scale_answer(&written.entry, self.now()).await
    }

    /// The object with the change done to its scale.
    pub(in crate::registry) async fn scaled(&mut self, change: &Intent, old: &Value) -> Result<Value, Status> {
        let (paths, schema) = self.request.scale_form()?;
        let replicas = Replicas { api_version: &self.request.served.api_version, path: &paths.spec_replicas };
        let unowned = |error: managed::EntryError| Status::internal(error.to_string());
        let mut current = scale_of(old, &paths, schema)?;
        replicas.to_scale(old, &mut current).map_err(unowned)?;
        let mut wanted = self.changed_scale(change, &current, schema)?;
        metadata::place(wanted.object_mut("metadata"), &self.request.info.namespace)?;
        self.check_name(&wanted)?;
        let write = Admission::update(&self.request.info.name, &current).of_kind(API_VERSION, KIND);
        self.admit(write, &mut wanted).await?;
        let errors = scale::validate(&wanted);
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupResource::new("autoscaling", KIND), &self.request.info.name, &errors));
        }
        self.check_scale(change, &wanted, old)?;
        let mut object = old.clone();
        paths.write_scale(&wanted, &mut object);
        replicas.to_object(&wanted, &mut object).map_err(unowned)?;
        let about = object.object_mut("metadata");
        match wanted.get("metadata").str("resourceVersion") {
            // A custom resource may only be updated at its version: the scale is written to what is there.
            "" if self.request.served.is_custom() => {}
            "" => drop(about.remove("resourceVersion")),
            version => about.set("resourceVersion", version),
        }
        Ok(object)
    }

    /// What will be stored, as admission sees it.
    pub(in crate::registry) async fn check_scale_admitted(&mut self, value: &Value, old: &Value) -> Result<(), Status> {
        let (paths, schema) = self.request.scale_form()?;
        let (wanted, current) = (scale_of(value, &paths, schema)?, scale_of(old, &paths, schema)?);
        let write = Admission::update(&self.request.info.name, &current).of_kind(API_VERSION, KIND);
        self.check_admitted(write, &wanted).await
    }

    /// The scale after the change, its owners tracked.
    fn changed_scale(&mut self, change: &Intent, current: &Value, schema: &'static Type) -> Result<Value, Status> {
        let (manager, time) = (self.request.manager(), time::format_seconds(self.now()));
        let context = managed::WriteContext {
            manager: &manager,
            api_version: API_VERSION,
            kind: KIND,
            subresource: "scale",
            time: &time,
        };
        let view = TableView::Object(schema);
        let mut document = current.clone();
        let applied = match change {
            Intent::Replace(scale) => {
                document = scale.value.clone();
                Ok(())
            }
            Intent::Apply(config) => {
                let force = self.request.query.force.unwrap_or(false);
                document = managed::apply(current, config, view, &context, force, Reset::Nothing, None)?;
                return self.take_scale(decode::decode(document, schema), schema, String::new);
            }
            Intent::Json(operations) => json_patch::apply(&operations.document, &mut document),
            Intent::Merge(patch) => merge_patch::apply(&patch.document, &mut document),
            Intent::Strategic(patch) => {
                strategic::apply(&patch.document, current, schema).map(|value| document = value)
            }
            Intent::Scale(_) => return Err(Status::internal("a scale has no scale")),
        };
        applied.map_err(|error| Status::from(&error))?;
        let patched = document.clone();
        let shown = || match change {
            Intent::Merge(patch) => json::to_string(&sorted_along(patched.clone(), &patch.document)),
            Intent::Strategic(patch) => printed(&patch.document),
            _ => json::to_string(&patched),
        };
        if matches!(change, Intent::Merge(_) | Intent::Json(_)) && has_old_form(&patched) {
            let why = "json: cannot unmarshal string into Go struct field ScaleStatus.status.selector of type map[string]string";
            return Err(unreadable(shown(), why));
        }
        let decoded = match change {
            Intent::Strategic(_) => decode::convert(document, schema),
            Intent::Merge(_) | Intent::Json(_)
                if patched_type(&document, &SCALE, API_VERSION, &shown)? == Fit::Internal =>
            {
                Ok(nothing_of(&document))
            }
            _ => decode::decode(document, schema),
        };
        let mut wanted = self.take_scale(decoded, schema, shown)?;
        managed::track_update(current, &mut wanted, view, &context, Reset::Nothing, None);
        Ok(wanted)
    }

    /// `shown`: the text by which errors name what was patched.
    fn take_scale(
        &mut self,
        decoded: Result<Decoded, DecodeError>,
        schema: &'static Type,
        shown: impl FnOnce() -> String,
    ) -> Result<Value, Status> {
        let decoded = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return Err(unreadable(shown(), &error.to_string())),
        };
        if self.options.field_validation == FieldValidation::Strict && !decoded.strict.is_empty() {
            return Err(unreadable(shown(), &format!("strict decoding error: {}", decoded.strict.join(", "))));
        }
        let mut value = self.take_strict(decoded)?;
        value.set("kind", KIND);
        value.set("apiVersion", API_VERSION);
        decode::complete(&mut value, schema);
        Ok(value)
    }

    /// The scale must be of this object and of a version that can be read.
    fn check_scale(&self, change: &Intent, wanted: &Value, old: &Value) -> Result<(), Status> {
        let name = &self.request.info.name;
        if let Intent::Replace(_) = change {
            self.check_uid(&self.request.key(name), wanted, old)?;
        }
        let (asked, found) = (wanted.get("metadata").str("uid"), old.get("metadata").str("uid"));
        if !asked.is_empty() && asked != found {
            let resource = GroupResource::new(
                self.request.served.kind.group.clone(),
                format!("{}/scale", self.request.served.kind.resource),
            );
            let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {found}");
            return Err(Status::conflict(&resource, name, why));
        }
        let version = wanted.get("metadata").str("resourceVersion");
        if !version.is_empty() && version.parse::<u64>().is_err() {
            let message = format!("strconv.ParseUint: parsing {}: invalid syntax", quote(version));
            return Err(Status { code: 500, message, ..Status::default() });
        }
        Ok(())
    }
}

/// Whether the scale is of a version whose selector is no text, and has one.
fn has_old_form(scale: &Value) -> bool {
    matches!(scale.str("apiVersion"), "apps/v1beta1" | "apps/v1beta2" | "extensions/v1beta1")
        && scale.str("kind") == KIND
        && matches!(scale.at(&["status", "selector"]), Value::String(_))
}

/// A patch made something else of the scale.
fn unreadable(shown: String, why: &str) -> Status {
    let mut errors = Errors::new();
    errors.invalid(Path::new("patch"), shown, why);
    Status::invalid(&GroupResource::default(), "", &errors)
}

fn scale_of(object: &Value, paths: &ScalePaths, schema: &'static Type) -> Result<Value, Status> {
    let mut scale = paths.scale_of(object).map_err(|error| Status::internal(error.to_string()))?;
    decode::complete(&mut scale, schema);
    Ok(scale)
}
