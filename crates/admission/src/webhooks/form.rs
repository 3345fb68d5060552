//! The objects of a request in the version that a webhook asked for, and the way back.

use std::sync::Arc;

use rkube_catalog::Served;
use rkube_kinds::admission_review::patch::{self, Expected};
use rkube_machinery::schema::Schema;
use rkube_machinery::{Status, TypeRef, Value, json};

use super::request::Subject;
use crate::{Attributes, ObjectKind};

/// In which version a webhook wants to see the objects of a request.
#[derive(Clone)]
pub enum Target {
    /// That of the request.
    Own,
    Other(Arc<Served>),
}

impl Target {
    pub fn subject<'a>(&'a self, attributes: &Attributes<'a>) -> Subject<'a> {
        let served = match self {
            Target::Own => attributes.served,
            Target::Other(served) => served,
        };
        let kind = if is_own_kind(attributes) { ObjectKind::of(served) } else { attributes.kind };
        Subject { served, kind }
    }
}

/// Whether the object at hand is one of the resource itself, and no scale, binding or the like.
fn is_own_kind(attributes: &Attributes<'_>) -> bool {
    attributes.kind == ObjectKind::of(attributes.served)
}

/// The objects in one version.
pub struct Form {
    pub object: Value,
    pub old: Value,
    /// Both as JSON; `null` where there is none.
    pub object_text: String,
    pub old_text: String,
    /// Whether a webhook changed the object since it was converted.
    is_changed: bool,
}

impl Form {
    pub async fn of(object: &Value, attributes: &Attributes<'_>, target: &Target) -> Result<Form, Status> {
        let subject = target.subject(attributes);
        let is_own = is_own_kind(attributes);
        let object = formed(object, subject, is_own).await?;
        let old = match attributes.old {
            Some(old) => formed(old, subject, is_own).await?,
            None => Value::Null,
        };
        let (object_text, old_text) = (json::to_string(&object), json::to_string(&old));
        Ok(Form { object, old, object_text, old_text, is_changed: false })
    }

    /// Does the operations of a patch to the object, and says whether they changed it.
    pub fn patch(&mut self, operations: &Value, attributes: &Attributes<'_>, target: &Target) -> Result<bool, Status> {
        let (subject, is_own) = (target.subject(attributes), is_own_kind(attributes));
        let table = table_of(subject.kind);
        let expected = Expected {
            api_version: subject.kind.api_version,
            name: subject.kind.kind,
            kind: is_own.then_some(&*subject.served.kind),
            table: table.as_ref(),
        };
        let mut object = patch::apply(&self.object_text, operations, &expected)?;
        let is_changed = json::to_string(&object) != self.object_text;
        if is_own {
            subject.served.kind.rules.default(&mut object);
            subject.served.kind.schema.complete(&mut object);
        }
        self.object_text = json::to_string(&object);
        self.object = object;
        self.is_changed = true;
        Ok(is_changed)
    }

    /// The object in the form in which admission has it, if a webhook changed it.
    pub async fn back(self, attributes: &Attributes<'_>, target: &Target) -> Result<Option<Value>, Status> {
        if !self.is_changed {
            return Ok(None);
        }
        let subject = target.subject(attributes);
        Ok(Some(match subject.served.is_custom() {
            _ if !is_own_kind(attributes) => self.object,
            true => attributes.served.in_this_version(self.object).await.map_err(unconverted)?,
            false => subject.served.to_stored(self.object),
        }))
    }
}

/// One object in the version of the subject, whole as upstream writes it.
async fn formed(value: &Value, subject: Subject<'_>, is_own: bool) -> Result<Value, Status> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    if !is_own {
        let mut value = value.clone();
        if let Some(table) = table_of(subject.kind) {
            table.complete(&mut value);
        }
        return Ok(value);
    }
    let mut value = match subject.served.is_custom() {
        true => subject.served.in_this_version(value.clone()).await.map_err(unconverted)?,
        false => subject.served.to_served(value.clone()),
    };
    subject.served.kind.schema.complete(&mut value);
    Ok(value)
}

/// The type of an object that is none of a resource's own: a scale, a binding, what is asked of a connection.
fn table_of(kind: ObjectKind<'_>) -> Option<Schema> {
    let (group, version) = kind.api_version.rsplit_once('/').unwrap_or(("core", kind.api_version));
    let group = group.split('.').next().unwrap_or_default();
    TypeRef::find(&format!("io.k8s.api.{group}.{version}.{}", kind.kind)).map(|found| Schema::Table(found.get()))
}

fn unconverted(status: Status) -> Status {
    Status::internal(status.message)
}
