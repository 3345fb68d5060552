//! `delete` and `deletecollection`: at once, gracefully, or when the last finalizer is gone.

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use rkube_kinds::lifecycle::{self, Fate};
use rkube_machinery::field::quote;
use rkube_machinery::schema::Schema;
use rkube_machinery::{Status, TypeRef, Value};
use rkube_store::Expect;

use super::admit::Admission;
use super::engine::{self, CompareAndSwap, Place, Verdict};
use super::list::{self, Filter};
use super::read;
use super::request::Request;
use super::write::Write;
use crate::content::{Answer, Format, Input, status_answer};
use crate::request::{DeleteOptions, ListOptions, Preconditions};
use rkube_catalog::Entry;

/// So many objects of a collection are deleted at a time.
const DELETIONS_AT_ONCE: usize = 64;

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
    write: &'c mut Write<'a>,
    place: Place<'a>,
    name: &'c str,
    options: &'c DeleteOptions,
    gate: Gate<'c>,
    /// What this deletion has marked and not removed yet: others see the mark, and may be faster.
    marked: Option<Entry>,
}

impl CompareAndSwap for Deletion<'_, '_> {
    type Done = Outcome;

    fn place(&self) -> &Place<'_> {
        &self.place
    }

    async fn attempt(&mut self, current: Option<&Entry>) -> Result<Verdict<Outcome>, Status> {
        let Deletion { write, place, name, options, gate, marked } = self;
        if let Some(marked) = marked
            && current.is_none_or(|current| current.object.uid != marked.object.uid)
        {
            return Ok(Verdict::Decided(Outcome::Gone(marked.clone())));
        }
        let entry = current.ok_or_else(|| Status::not_found(&write.request.served.group_resource, name))?;
        let mut old = entry.object.value_to_change(entry.revision);
        check_preconditions(write.request, name, &options.preconditions, &old)?;
        if let Gate::Admission(name) = gate {
            write.admit_as_is(Admission::delete(name, &old, options), Value::Null).await?;
        }
        let expect = Expect::Revision(entry.revision);
        match write.fate(options, &mut old) {
            Fate::Wait => Ok(Verdict::Decided(Outcome::Marked(entry.clone()))),
            Fate::Remove => write.remove(place, entry).await,
            Fate::Mark(value) => Ok(place.put(value, expect).await?.map(Outcome::Marked)),
            Fate::MarkAndRemove(value) => match place.put(value, expect).await? {
                Verdict::Committed(entry) => write.remove(place, marked.insert(entry)).await,
                tried => Ok(tried.map(Outcome::Gone)),
            },
        }
    }

    fn exhausted(&self, _current: Option<&Entry>) -> Status {
        Status::modified(&self.write.request.served.group_resource, self.name)
    }
}

impl Write<'_> {
    pub(super) async fn delete(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let options = self.delete_options(body)?;
        let name = self.request.info.name.clone();
        let outcome = self.delete_one(&name, &options, Gate::Admission(&name)).await?;
        let returns_object = self.request.served.kind.strategy.returns_deleted_object;
        match outcome {
            Outcome::Gone(entry) if !returns_object => {
                let status = Status::deleted(&self.request.served.group_resource, &name, &entry.object.uid);
                Ok(status_answer(&status, self.request.accept))
            }
            Outcome::Gone(entry) | Outcome::Marked(entry) => {
                // A deletion that is not done yet, of an object whose deletion waits for others.
                self.request.object_answer(StatusCode::OK, &entry, self.now()).await
            }
        }
    }

    pub(super) async fn delete_collection(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let options = self.delete_options(body)?;
        let Write { registry, request, .. } = *self;
        ListOptions::of(request.query, request.query.watch, registry.watch_list)?;
        let filter = Filter::new(request)?;
        list::check_token(request)?;
        read::wait_for_version(registry, request).await?;
        let (items, revision) = request.served.readable().await?.snapshot();
        let chosen: Vec<Entry> = filter.range(request, &items, "").map(|(_, entry)| entry.clone()).collect();
        self.delete_all(&chosen, &options).await?;
        Ok(list::whole_answer(request, chosen, revision, self.now()))
    }

    /// Deletes these, several at a time: their writes share what the store does for durability. After the first that
    /// cannot be deleted no further ones are begun.
    async fn delete_all(&mut self, chosen: &[Entry], options: &DeleteOptions) -> Result<(), Status> {
        let mut waiting = chosen.iter();
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < DELETIONS_AT_ONCE
                && let Some(entry) = waiting.next()
            {
                under_way.push(self.another().delete_listed(entry, options));
            }
            match under_way.next().await {
                Some(warnings) => self.warnings.extend(warnings?),
                None => return Ok(()),
            }
        }
    }

    /// A write of the same request on its own way.
    fn another(&self) -> Self {
        let mut write = Write::new(self.registry, self.request, Vec::new());
        (write.options, write.part) = (self.options, self.part);
        write
    }

    /// Deletes one object of a collection; returns the warnings. That it is gone by now is no failure.
    async fn delete_listed(mut self, entry: &Entry, options: &DeleteOptions) -> Result<Vec<String>, Status> {
        match self.delete_one(&entry.object.name, options, Gate::Admission("")).await {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(self.warnings),
        }
    }

    /// The options, from the body if there is one, checked.
    fn delete_options(&mut self, body: &Bytes) -> Result<DeleteOptions, Status> {
        let options = if body.is_empty() {
            DeleteOptions::of_query(self.request.query)?
        } else {
            let format = Format::of(self.request.content_type)?;
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
            DeleteOptions::of_body(&decoded.map_err(Status::bad_request)?.value)?
        };
        self.options.dry_run = options.dry_run;
        if options.propagation_policy.is_none() && options.orphan_dependents.is_none() {
            let warning = self.request.served.kind.strategy.deletion_warning;
            self.warnings.extend((!warning.is_empty()).then(|| warning.to_owned()));
        }
        Ok(options)
    }

    /// Deletes the object of this name.
    pub(super) async fn delete_named(&mut self, name: &str, options: &DeleteOptions) -> Result<(), Status> {
        self.delete_one(name, options, Gate::Admission(name)).await.map(|_| ())
    }

    /// Deletes the pod of this name, whose eviction has been admitted.
    pub(super) async fn delete_evicted(&mut self, name: &str, options: &DeleteOptions) -> Result<(), Status> {
        self.delete_one(name, options, Gate::Passed).await.map(|_| ())
    }

    async fn delete_one(&mut self, name: &str, options: &DeleteOptions, gate: Gate<'_>) -> Result<Outcome, Status> {
        let place = self.place(name);
        let seen = place.cached();
        engine::run(&mut Deletion { write: self, place, name, options, gate, marked: None }, seen).await
    }

    async fn remove(&self, place: &Place<'_>, entry: &Entry) -> Result<Verdict<Outcome>, Status> {
        let removed = place.remove(entry.revision).await?;
        if let Verdict::Committed(_) = removed {
            self.registry.allocation.release(&self.claimant(), &entry.object.value(entry.revision)).await;
        }
        Ok(removed.map(|revision| Outcome::Gone(Entry::new(entry.object.clone(), revision))))
    }

    /// What to do about the object. Works on it in place where it is to be marked.
    fn fate(&self, options: &DeleteOptions, object: &mut Value) -> Fate {
        let deletion = lifecycle::Deletion {
            kind: &self.request.served.kind,
            schema: self.request.served.stored_schema(),
            grace_period_seconds: options.grace_period_seconds,
            propagation_policy: options.propagation_policy.as_deref(),
            orphan_dependents: options.orphan_dependents,
            now: self.now(),
        };
        deletion.decide(object)
    }
}

/// Whether the object is the one that is to be deleted.
pub fn check_preconditions(
    request: &Request<'_>,
    name: &str,
    wanted: &Preconditions,
    old: &Value,
) -> Result<(), Status> {
    let metadata = old.get("metadata");
    let kind = &request.served.kind;
    let checks = [
        ("UID", wanted.uid.as_deref(), metadata.str("uid"), "deleted and then recreated"),
        ("ResourceVersion", wanted.resource_version.as_deref(), metadata.str("resourceVersion"), "modified"),
    ];
    for (field, wanted, found, fear) in checks {
        match wanted {
            None => {}
            Some(wanted) if wanted == found => {}
            Some(wanted) if kind.strategy.marks_before_deletion => {
                let why =
                    format!("Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}");
                return Err(Status::conflict(&request.served.group_resource, name, why));
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
