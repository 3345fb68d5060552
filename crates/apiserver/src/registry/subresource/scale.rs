//! `scale`: the number of replicas of any workload, as one and the same kind of object.

use bytes::Bytes;
use http::StatusCode;
use rkube_kinds::kind::{Part, ScalePaths};
use rkube_kinds::scale;
use rkube_machinery::patch::{json_patch, merge_patch, strategic};
use rkube_machinery::status::Details;
use rkube_machinery::{GroupResource, Status, Type, TypeRef, Value, decode, json};

use super::super::Call;
use super::super::change::Change;
use super::super::metadata;
use crate::cache::Entry;
use crate::content::{Answer, value_answer};

const TYPE: &str = "io.k8s.api.autoscaling.v1.Scale";
const API_VERSION: &str = "autoscaling/v1";

impl Call<'_> {
    pub(in crate::registry) async fn scale(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let paths = self.served.kind.scale.ok_or_else(Status::method_not_allowed)?;
        let schema = TypeRef::find(TYPE).ok_or_else(|| Status::internal("Scale is not in the schema table"))?.get();
        self.wait_for_version().await?;
        let entry = self.find()?;
        let current = scale_of(&entry, paths, schema)?;
        let mut wanted = match self.info.verb.as_ref() {
            "get" => return Ok(value_answer(StatusCode::OK, self.accept, &current, Some(schema))),
            "update" => {
                self.options.check_write("UpdateOptions", None)?;
                self.decode_other(body, TYPE, API_VERSION, "Scale")?
            }
            "patch" => {
                self.options.check_write("PatchOptions", Some(false))?;
                self.patched_scale(body, &current, schema)?
            }
            _ => return Err(Status::method_not_allowed()),
        };
        metadata::place(wanted.object_mut("metadata"), &self.info.namespace)?;
        self.check_name(&wanted)?;
        let errors = scale::validate(&wanted);
        if !errors.is_empty() {
            let kind = GroupResource::new("autoscaling", "Scale");
            return Err(Status::invalid(&kind, &self.info.name, &errors));
        }
        // From here on this is an update of the object itself.
        let mut parent = entry.object.value(entry.revision);
        paths.write_scale(&wanted, &mut parent);
        let about = parent.object_mut("metadata");
        about.remove("resourceVersion");
        for field in ["resourceVersion", "uid"] {
            let asked = wanted.get("metadata").str(field);
            if !asked.is_empty() {
                about.set(field, asked);
            }
        }
        self.part = Part::Main;
        let written = self.modify(Change::Replace(parent)).await?;
        Ok(value_answer(StatusCode::OK, self.accept, &scale_of(&written.entry, paths, schema)?, Some(schema)))
    }

    fn patched_scale(&mut self, body: &Bytes, current: &Value, schema: &'static Type) -> Result<Value, Status> {
        let patch = json::parse(body).map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        let mut document = current.clone();
        let applied = match self.content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => json_patch::apply(&patch, &mut document),
            "application/merge-patch+json" => merge_patch::apply(&patch, &mut document),
            "application/strategic-merge-patch+json" => {
                strategic::apply(&patch, current, schema).map(|value| document = value)
            }
            _ => {
                let status = Status::unsupported_media_type("415: Unsupported Media Type");
                return Err(status.with_details(Details::default()));
            }
        };
        applied.map_err(|error| Status::from(&error))?;
        let decoded = decode::decode(document, schema).map_err(|error| Status::bad_request(error.to_string()))?;
        self.take_strict(decoded)
    }
}

fn scale_of(entry: &Entry, paths: ScalePaths, schema: &'static Type) -> Result<Value, Status> {
    let scale = paths.scale_of(&entry.object.value(entry.revision));
    let mut scale = scale.map_err(|error| Status::internal(error.to_string()))?;
    decode::complete(&mut scale, schema);
    Ok(scale)
}
