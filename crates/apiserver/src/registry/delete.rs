//! `delete` and `deletecollection`: at once, gracefully, or when the last finalizer is gone.

use bytes::Bytes;
use http::StatusCode;
use rkube_kinds::lifecycle::{self, Fate};
use rkube_machinery::field::quote;
use rkube_machinery::schema::Schema;
use rkube_machinery::{Status, TypeRef, Value};
use rkube_store::Expect;

use super::Call;
use super::admit::Admission;
use super::engine::{self, Place, Verdict, Write};
use super::list::Filter;
use crate::content::{Answer, Format, Input, status_answer};
use rkube_catalog::Entry;

/// What a deletion must find.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl Preconditions {
    /// Those of a `DeleteOptions`.
    pub fn of(options: &Value) -> Preconditions {
        let wanted = options.get("preconditions");
        let text = |key: &str| wanted.has(key).then(|| wanted.str(key).to_owned());
        Preconditions { uid: text("uid"), resource_version: text("resourceVersion") }
    }

    /// The object of this uid, no other of its name.
    pub fn of_uid(uid: &str) -> Preconditions {
        Preconditions { uid: Some(uid.to_owned()), resource_version: None }
    }

    /// The object may not have changed since it had this version, unless the client named one itself.
    pub fn require_version(&mut self, version: &str) {
        self.resource_version.get_or_insert_with(|| version.to_owned());
    }

    /// We changed the object ourselves.
    pub fn moved_to(&mut self, revision: u64) {
        if let Some(version) = &mut self.resource_version {
            *version = revision.to_string();
        }
    }

    pub fn check(&self, call: &Call<'_>, name: &str, object: &Value) -> Result<(), Status> {
        call.check_preconditions(name, self, object)
    }
}

/// Whether a deletion is still to be admitted.
#[derive(Clone, Copy)]
enum Gate<'a> {
    /// Under this name.
    Admission(&'a str),
    Passed,
}

/// What became of the object.
enum Outcome {
    /// It is gone; this is what it was.
    Gone(Entry),
    /// It is marked and will go.
    Marked(Entry),
}

/// The deletion of one object.
struct Deletion<'c, 'a> {
    call: &'c mut Call<'a>,
    place: Place<'a>,
    name: &'c str,
    preconditions: &'c Preconditions,
    gate: Gate<'c>,
}

impl Write for Deletion<'_, '_> {
    type Done = Outcome;

    fn place(&self) -> &Place<'_> {
        &self.place
    }

    async fn attempt(&mut self, current: Option<&Entry>) -> Result<Verdict<Outcome>, Status> {
        let Deletion { call, place, name, preconditions, gate } = self;
        let entry = current.ok_or_else(|| Status::not_found(&call.served.group_resource, name))?;
        let mut old = entry.object.value(entry.revision);
        call.check_preconditions(name, preconditions, &old)?;
        if let Gate::Admission(name) = gate {
            call.admit_as_is(Admission::delete(name, &old, preconditions), Value::Null).await?;
        }
        let expect = Expect::Revision(entry.revision);
        match call.fate(&mut old) {
            Fate::Wait => Ok(Verdict::Decided(Outcome::Marked(entry.clone()))),
            Fate::Remove => call.remove(place, entry).await,
            Fate::Mark(value) => Ok(place.put(value, expect).await?.map(Outcome::Marked)),
            Fate::MarkAndRemove(value) => match place.put(value, expect).await? {
                Verdict::Committed(marked) => call.remove(place, &marked).await,
                tried => Ok(tried.map(Outcome::Gone)),
            },
        }
    }

    fn exhausted(&self, _current: Option<&Entry>) -> Status {
        Status::modified(&self.call.served.group_resource, self.name)
    }
}

impl Call<'_> {
    pub(super) async fn delete(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let preconditions = self.delete_options(body)?;
        let name = self.info.name.clone();
        let outcome = self.delete_one(&name, &preconditions, Gate::Admission(&name)).await?;
        let returns_object = self.served.kind.strategy.returns_deleted_object;
        match outcome {
            Outcome::Gone(entry) if !returns_object => {
                let status = Status::deleted(&self.served.group_resource, &name, &entry.object.uid);
                Ok(status_answer(&status, self.accept))
            }
            Outcome::Gone(entry) | Outcome::Marked(entry) => {
                // A deletion that is not done yet, of an object whose deletion waits for others.
                self.answer_object(StatusCode::OK, &entry).await
            }
        }
    }

    pub(super) async fn delete_collection(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let preconditions = self.delete_options(body)?;
        self.options.check_list(self.server.features.watch_list)?;
        let filter = Filter::new(self)?;
        self.check_token()?;
        self.wait_for_version().await?;
        let (items, revision) = self.served.readable().await?.snapshot();
        let chosen: Vec<Entry> = filter.range(self, &items, "").map(|(_, entry)| entry.clone()).collect();
        for entry in &chosen {
            let name = entry.object.name.clone();
            match self.delete_one(&name, &preconditions, Gate::Admission("")).await {
                Ok(_) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        self.list_answer(chosen, revision, String::new(), None)
    }

    /// The options, from the body if there is one, checked.
    fn delete_options(&mut self, body: &Bytes) -> Result<Preconditions, Status> {
        let mut preconditions = Preconditions::default();
        if !body.is_empty() {
            let format = Format::of(self.content_type)?;
            let schema = TypeRef::find("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions").map(TypeRef::get);
            let schema = schema.ok_or_else(|| Status::internal("DeleteOptions is not in the schema table"))?;
            let parsed = Input::parse(format, body).map_err(|error| match format {
                Format::Json => format!("couldn't get version/kind; json parse error: {error}"),
                Format::Yaml | Format::Protobuf => error,
            });
            let decoded = parsed.and_then(|input| {
                if !matches!(input.kind.as_str(), "" | "DeleteOptions") {
                    return Err(format!(
                        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                        quote(&input.kind),
                        quote(&input.api_version)
                    ));
                }
                input.decode(&Schema::Table(schema))
            });
            let options = decoded.map_err(Status::bad_request)?.value;
            preconditions = Preconditions::of(&options);
            self.options.take_delete_body(&options);
        }
        self.options.check_delete()?;
        if self.options.propagation_policy.is_none() && self.options.orphan_dependents.is_none() {
            let warning = self.served.kind.strategy.deletion_warning;
            self.warnings.extend((!warning.is_empty()).then(|| warning.to_owned()));
        }
        Ok(preconditions)
    }

    /// Deletes the object of this name.
    pub(super) async fn delete_named(&mut self, name: &str, preconditions: &Preconditions) -> Result<(), Status> {
        self.delete_one(name, preconditions, Gate::Admission(name)).await.map(|_| ())
    }

    /// Deletes the pod of this name, whose eviction has been admitted.
    pub(super) async fn delete_evicted(&mut self, name: &str, preconditions: &Preconditions) -> Result<(), Status> {
        self.delete_one(name, preconditions, Gate::Passed).await.map(|_| ())
    }

    async fn delete_one(
        &mut self,
        name: &str,
        preconditions: &Preconditions,
        gate: Gate<'_>,
    ) -> Result<Outcome, Status> {
        let place = self.place(name);
        let seen = place.cached();
        engine::run(&mut Deletion { call: self, place, name, preconditions, gate }, seen).await
    }

    async fn remove(&self, place: &Place<'_>, entry: &Entry) -> Result<Verdict<Outcome>, Status> {
        let removed = place.remove(entry.revision).await?;
        if let Verdict::Committed(_) = removed {
            self.server.allocation.release(self, &entry.object.value(entry.revision)).await;
        }
        Ok(removed.map(|revision| Outcome::Gone(Entry { object: entry.object.clone(), revision })))
    }

    fn check_preconditions(&self, name: &str, wanted: &Preconditions, old: &Value) -> Result<(), Status> {
        let metadata = old.get("metadata");
        let kind = &self.served.kind;
        let checks = [
            ("UID", wanted.uid.as_deref(), metadata.str("uid"), "deleted and then recreated"),
            ("ResourceVersion", wanted.resource_version.as_deref(), metadata.str("resourceVersion"), "modified"),
        ];
        for (field, wanted, found, fear) in checks {
            match wanted {
                None => {}
                Some(wanted) if wanted == found => {}
                Some(wanted) if kind.strategy.marks_before_deletion => {
                    let why = format!(
                        "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
                    );
                    return Err(Status::conflict(&self.served.group_resource, name, why));
                }
                Some(wanted) => {
                    let why = format!(
                        "the {field} in the precondition ({wanted}) does not match the {field} in record ({found}). The object might have been {fear}"
                    );
                    return Err(Status::conflict(&kind.group_kind(), name, why));
                }
            }
        }
        Ok(())
    }

    /// What to do about the object. Works on it in place where it is to be marked.
    fn fate(&self, object: &mut Value) -> Fate {
        let deletion = lifecycle::Deletion {
            kind: &self.served.kind,
            schema: self.served.stored_schema(),
            grace_period_seconds: self.options.grace_period_seconds,
            propagation_policy: self.options.propagation_policy.as_deref(),
            orphan_dependents: self.options.orphan_dependents,
            now: self.now(),
        };
        deletion.decide(object)
    }
}
