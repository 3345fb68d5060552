//! One write on its way: the request that it does, its options once they are checked, and what it gathers. What each verb
//! does with it is in the verb's file.

use rkube_kinds::kind::{Part, Requester};
use rkube_kinds::lifecycle::Lifecycle;
use rkube_machinery::{Status, Value};

use super::Registry;
use super::engine::Place;
use super::request::Request;
use super::review::user_info;
use crate::allocation::Claimant;
use crate::request::WriteOptions;

pub struct Write<'a> {
    pub registry: &'a Registry,
    pub request: &'a Request<'a>,
    pub options: WriteOptions,
    /// The part of the object that is written: the request's, but for subresources that write the object itself.
    pub part: Part,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Whether the body has lists or maps that are there and empty.
    pub kept_empties: bool,
    /// Whether the object to be made came without labels.
    pub gave_no_labels: bool,
}

impl<'a> Write<'a> {
    /// `warnings`: those that there are already.
    pub fn new(registry: &'a Registry, request: &'a Request<'a>, warnings: Vec<String>) -> Write<'a> {
        Write {
            registry,
            request,
            options: WriteOptions::default(),
            part: request.part,
            warnings,
            kept_empties: false,
            gave_no_labels: false,
        }
    }

    /// Checks the options of the query and goes by them. `kind`: what errors call them; `apply`: of a patch, whether it is
    /// an apply.
    pub fn take_options(&mut self, kind: &str, apply: Option<bool>) -> Result<(), Status> {
        self.options = WriteOptions::of(self.request.query, kind, apply)?;
        Ok(())
    }

    /// Where the object of this name is in the store.
    pub fn place(&self, name: &str) -> Place<'a> {
        let Request { served, .. } = self.request;
        Place::new(&self.registry.engine, served.stored(), self.request.key(name), self.options.dry_run)
    }

    /// Who claims addresses and ports by this write.
    pub fn claimant(&self) -> Claimant<'_> {
        let Write { registry, request, part, options, .. } = self;
        Claimant { served: request.served, part: *part, dry_run: options.dry_run, records: *registry }
    }

    pub fn now(&self) -> i64 {
        self.registry.clock.now_seconds()
    }

    /// Runs what the life cycle of an object does in this write.
    pub fn lifecycle<T>(&self, run: impl FnOnce(&Lifecycle<'_>) -> T) -> T {
        let Request { served, info, user, .. } = self.request;
        let user = || user_info(user);
        let namespace = || {
            let Some(namespaces) = self.registry.catalog.resource("", "v1", "namespaces") else { return Value::Null };
            let found = namespaces.get(&namespaces.key("", &info.namespace));
            found.map_or(Value::Null, |entry| entry.object.value(entry.revision))
        };
        run(&Lifecycle {
            kind: &served.kind,
            schema: served.stored_schema(),
            part: self.part,
            requester: Requester { user: &user, now: self.now(), gave_no_labels: self.gave_no_labels },
            namespace: &namespace,
            kept_empties: self.kept_empties,
        })
    }
}
