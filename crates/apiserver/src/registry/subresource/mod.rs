//! Subresources with a road of their own: one file each and a line in [`Write::create_subresource`]. Those that are passed
//! on, logs, shells, ports and proxies, are in `connect/`. `status` and others that are updates of a part of the object go the way of updates.

mod binding;
mod connect;
mod eviction;
mod scale;
mod token;

pub use eviction::Turns;
pub use scale::get as get_scale;

use bytes::Bytes;
use http::StatusCode;
use rkube_machinery::schema::Schema;
use rkube_machinery::{Status, TypeRef, Value, decode};
use rkube_store::Expect;

use super::engine::{self, CompareAndSwap, Place, Verdict};
use super::metadata;
use super::request::Request;
use super::write::Write;
use crate::content::{Answer, Format, Input, status_answer};
use crate::request::FieldValidation;
use rkube_catalog::Entry;

impl Write<'_> {
    /// A POST to a subresource.
    pub(super) async fn create_subresource(&mut self, name: &str, body: &Bytes) -> Result<Answer, Status> {
        self.take_options("CreateOptions", None)?;
        match (self.request.served.kind.resource.as_str(), name) {
            ("pods", "binding") => self.bind(body).await,
            ("pods", "eviction") => self.evict(body).await,
            ("serviceaccounts", "token") => self.request_token(body).await,
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// The body as an object of a type that is not the resource's own.
    fn decode_other(&mut self, body: &Bytes, type_name: &str, api_version: &str, kind: &str) -> Result<Value, Status> {
        let format = Format::of(self.request.content_type)?;
        let schema = TypeRef::find(type_name).ok_or_else(|| Status::internal(format!("no type {type_name}")))?.get();
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let refuse = |why: String| {
            Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
        };
        let input = Input::parse(format, body).map_err(refuse)?;
        let (group, _) = type_name.rsplit_once('.').unwrap_or_default();
        let group = group.rsplit('.').nth(1).unwrap_or_default();
        self.check_other_kind(&input, api_version, (group, kind))?;
        let decoded = input.decode(&Schema::Table(schema)).map_err(refuse)?;
        if self.options.field_validation == FieldValidation::Strict && !decoded.strict.is_empty() {
            return Err(refuse(format!("strict decoding error: {}", decoded.strict.join(", "))));
        }
        let mut value = self.take_strict(decoded)?;
        value.set("kind", kind);
        value.set("apiVersion", api_version);
        decode::complete(&mut value, schema);
        metadata::place(value.object_mut("metadata"), &self.request.info.namespace)?;
        Ok(value)
    }

    /// Refuses a body of another kind. `expected`: the group as messages name it, and the kind.
    fn check_other_kind(&self, input: &Input, api_version: &str, expected: (&str, &str)) -> Result<(), Status> {
        let (group, kind) = expected;
        if input.kind.is_empty() || input.kind == kind {
            return Ok(());
        }
        let given = if input.api_version.is_empty() { api_version } else { &input.api_version };
        let (served_group, version) = given.rsplit_once('/').unwrap_or(("", given));
        let known = self.request.catalog.all().iter().any(|served| {
            served.kind.group == served_group && served.kind.version == version && served.kind.kind == input.kind
        });
        let why = if known {
            format!("converting ({version}.{}) to ({group}.{kind}): unknown conversion", input.kind)
        } else {
            format!(
                "no kind \"{}\" is registered for version \"{given}\" in scheme \"pkg/runtime/scheme.go:111\"",
                input.kind
            )
        };
        let message = format!("{} in version \"{version}\" cannot be handled as a {kind}: {why}", input.kind);
        Err(Status::bad_request(message))
    }

    /// Changes the stored object in place, past its kind's rules, until no other write comes in between.
    async fn edit(&self, change: impl Fn(&mut Value) -> Result<(), Status> + Send + Sync) -> Result<Entry, Status> {
        let place = self.place(&self.request.info.name);
        let seen = place.cached();
        engine::run(&mut Edit { write: self, place, change }, seen).await
    }

    /// The bare success that some subresources answer with.
    fn done(&self) -> Answer {
        status_answer(&Status { code: StatusCode::CREATED.as_u16(), ..Status::success() }, self.request.accept)
    }
}

/// A change in place.
struct Edit<'c, 'a, F> {
    write: &'c Write<'a>,
    place: Place<'a>,
    change: F,
}

impl<F: Fn(&mut Value) -> Result<(), Status> + Send + Sync> CompareAndSwap for Edit<'_, '_, F> {
    type Done = Entry;

    fn place(&self) -> &Place<'_> {
        &self.place
    }

    async fn attempt(&mut self, current: Option<&Entry>) -> Result<Verdict<Entry>, Status> {
        let Request { served, info, .. } = self.write.request;
        let entry = current.ok_or_else(|| Status::not_found(&served.group_resource, &info.name))?;
        let mut value = entry.object.value_to_change(entry.revision);
        (self.change)(&mut value)?;
        self.place.put(value, Expect::Revision(entry.revision)).await
    }

    fn exhausted(&self, _current: Option<&Entry>) -> Status {
        Status::modified(&self.write.request.served.group_resource, &self.write.request.info.name)
    }
}
