//! A request on a resource: what is asked, of which row of the catalog, by whom. Nothing on the road changes it.

use std::sync::Arc;

use rkube_access::UserRef;
use rkube_catalog::{Entry, Served, Snapshot};
use rkube_kinds::kind::Part;
use rkube_machinery::{Status, Value};

use crate::content::Accept;
use crate::request::{Query, RequestInfo};

#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What is served as long as the request lasts.
    pub catalog: &'a Snapshot,
    pub served: &'a Arc<Served>,
    pub info: &'a RequestInfo,
    pub query: &'a Query,
    /// The form in which the answer is wanted.
    pub accept: Accept,
    pub user: &'a UserRef,
    /// The client's name for itself.
    pub agent: &'a str,
    pub content_type: &'a str,
    pub part: Part,
}

impl Request<'_> {
    /// Whether the kind has this verb, at this place.
    pub fn check_verb(&self) -> Result<(), Status> {
        let kind = &self.served.kind;
        let verb = self.info.verb.as_ref();
        if verb == "watch" && self.part == Part::Main && kind.allows("list") && !kind.allows("watch") {
            return Err(Status::method_not_supported(&self.served.group_resource, "watch"));
        }
        let allowed = match self.part {
            Part::Main => kind.allows(verb),
            Part::Status => {
                kind.subresources.iter().any(|part| part.name == "status") && matches!(verb, "get" | "update" | "patch")
            }
            Part::Other(name) => kind.subresources.iter().any(|part| part.name == name && part.verbs.contains(&verb)),
        };
        let placed = match verb {
            // A collection of a namespaced kind is made in a namespace.
            "create" => {
                self.info.name.is_empty() == (self.part == Part::Main)
                    && kind.is_namespaced() != self.namespace().is_empty()
            }
            "update" | "patch" if self.info.name.is_empty() => false,
            "get" | "update" | "patch" | "delete" => kind.is_namespaced() != self.namespace().is_empty(),
            "deletecollection" => kind.is_namespaced() != self.namespace().is_empty(),
            _ => true,
        };
        if allowed && placed { Ok(()) } else { Err(Status::method_not_allowed()) }
    }

    /// Whether the request is passed on: to a node, a pod or a service. `upgrades`: the client wants another protocol.
    pub fn connects(&self, upgrades: bool) -> bool {
        match self.part {
            Part::Other("exec" | "attach" | "portforward" | "proxy") => true,
            Part::Other("log") => upgrades,
            _ => false,
        }
    }

    /// The namespace that the request is in; empty for kinds that have none.
    fn namespace(&self) -> &str {
        if self.served.kind.is_namespaced() || self.served.kind.resource != "namespaces" {
            &self.info.namespace
        } else {
            ""
        }
    }

    /// The namespace of the objects that the request is about; empty for kinds that have none, and for all namespaces.
    pub fn object_namespace(&self) -> &str {
        if self.served.kind.is_namespaced() { &self.info.namespace } else { "" }
    }

    /// Where the object of this name is stored.
    pub fn key(&self, name: &str) -> String {
        self.served.stored().key(self.object_namespace(), name)
    }

    /// The object as the cache has it, in the form in which it is stored.
    pub fn find(&self) -> Result<Entry, Status> {
        let found = self.served.stored().get(&self.key(&self.info.name));
        found.ok_or_else(|| Status::not_found(&self.served.group_resource, &self.info.name))
    }

    /// A stored object in the form in which it is changed and checked: custom resources in the version of the request,
    /// others as they are stored, and what their owners have as text.
    pub async fn working_form(&self, stored: &Entry) -> Result<Value, Status> {
        match self.served.is_custom() {
            true => self.served.converted(stored).await,
            false => Ok(stored.object.value_to_change(stored.revision)),
        }
    }

    /// An object that was changed and checked, in the form in which it is stored.
    pub async fn storage_form(&self, value: Value) -> Result<Value, Status> {
        if self.served.is_custom() { self.served.to_storage(value).await } else { Ok(value) }
    }

    /// Who owns the fields that this request writes.
    pub fn manager(&self) -> String {
        if !self.query.field_manager.is_empty() {
            return self.query.field_manager.clone();
        }
        // The user agent's first part, as far as it can be printed.
        let agent = self.agent.split('/').next().unwrap_or_default();
        agent.chars().filter(|letter| !letter.is_control()).take(128).collect()
    }
}
