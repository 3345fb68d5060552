//! The way of every write through admission.

use rkube_admission::{Attributes, Guardian, ObjectKind, Operation, OperationOptions, Rounds};
use rkube_catalog::{Object, Served};
use rkube_machinery::{Status, Value};

use super::write::Write;
use crate::request::DeleteOptions;

/// What admission is told of a write, beside what the request says.
#[derive(Clone, Copy)]
pub(super) struct Admission<'a> {
    operation: Operation,
    /// The object's kind where it is not the resource's own.
    kind: Option<ObjectKind<'a>>,
    name: &'a str,
    old: Option<&'a Value>,
    /// Of a deletion.
    options: Option<&'a DeleteOptions>,
}

impl<'a> Admission<'a> {
    pub fn create(name: &'a str) -> Self {
        Admission { operation: Operation::Create, kind: None, name, old: None, options: None }
    }

    pub fn update(name: &'a str, old: &'a Value) -> Self {
        Admission { operation: Operation::Update, old: Some(old), ..Admission::create(name) }
    }

    /// `name` is empty where a collection is deleted.
    pub fn delete(name: &'a str, old: &'a Value, options: &'a DeleteOptions) -> Self {
        let options = Some(options);
        Admission { operation: Operation::Delete, old: Some(old), options, ..Admission::create(name) }
    }

    pub fn connect(name: &'a str) -> Self {
        Admission { operation: Operation::Connect, ..Admission::create(name) }
    }

    pub fn of_kind(self, api_version: &'a str, kind: &'a str) -> Self {
        Admission { kind: Some(ObjectKind { api_version, kind }), ..self }
    }
}

impl Write<'_> {
    /// The first phase: plugins may change the object. What comes of it must not give away what the user does not have.
    pub(super) async fn admit(&mut self, write: Admission<'_>, object: &mut Value) -> Result<(), Status> {
        let mut attributes = self.attributes(&write);
        let admitted = self.registry.admission.mutate(&mut attributes, object).await;
        let warnings = attributes.warnings;
        self.warnings.extend(warnings);
        admitted?;
        match write.operation {
            Operation::Create | Operation::Update => self.check_escalation(object, write.old),
            Operation::Delete | Operation::Connect => Ok(()),
        }
    }

    /// The second phase: plugins may refuse the object as it will be stored.
    pub(super) async fn check_admitted(&mut self, write: Admission<'_>, object: &Value) -> Result<(), Status> {
        let mut attributes = self.attributes(&write);
        let admitted = self.registry.admission.validate(&mut attributes, object).await;
        let warnings = attributes.warnings;
        self.warnings.extend(warnings);
        admitted
    }

    /// The object that the new one rests upon.
    pub(super) fn guardian(&self, write: Admission<'_>) -> Option<Guardian> {
        self.registry.admission.guardian(&self.attributes(&write))
    }

    /// Whether it may rest upon that as it is now.
    pub(super) fn check_guardian(&self, write: Admission<'_>, guardian: Option<&Object>) -> Result<(), Status> {
        self.registry.admission.check_guardian(&self.attributes(&write), guardian)
    }

    /// Both phases of a write that comes without an object, or with one that stays as it is.
    pub(super) async fn admit_as_is(&mut self, write: Admission<'_>, mut object: Value) -> Result<(), Status> {
        self.admit(write, &mut object).await?;
        self.check_admitted(write, &object).await
    }

    /// An update of another object that the server makes in its own name on the way of the request.
    pub(super) async fn admit_internal(
        &self,
        served: &Served,
        subresource: &str,
        old: &Value,
        object: &mut Value,
    ) -> Result<(), Status> {
        let metadata = old.get("metadata");
        let mut attributes = Attributes {
            operation: Operation::Update,
            served,
            subresource,
            kind: ObjectKind::of(served),
            namespace: metadata.str("namespace"),
            name: metadata.str("name"),
            old: Some(old),
            options: OperationOptions::Write { field_manager: "", field_validation: "" },
            dry_run: self.options.dry_run,
            user: &self.registry.itself,
            warnings: Vec::new(),
            annotations: Vec::new(),
            rounds: Rounds::default(),
        };
        self.registry.admission.mutate(&mut attributes, object).await?;
        self.registry.admission.validate(&mut attributes, object).await
    }

    fn attributes<'b>(&'b self, write: &Admission<'b>) -> Attributes<'b> {
        let kind = &self.request.served.kind;
        let makes_namespace =
            self.request.info.namespace.is_empty() && kind.resource == "namespaces" && kind.group.is_empty();
        Attributes {
            operation: write.operation,
            served: self.request.served,
            subresource: &self.request.info.subresource,
            kind: write.kind.unwrap_or_else(|| ObjectKind::of(self.request.served)),
            namespace: if makes_namespace { write.name } else { &self.request.info.namespace },
            name: write.name,
            old: write.old,
            options: self.operation_options(write),
            dry_run: self.options.dry_run,
            user: self.request.user,
            warnings: Vec::new(),
            annotations: Vec::new(),
            rounds: Rounds::default(),
        }
    }

    fn operation_options<'b>(&'b self, write: &Admission<'b>) -> OperationOptions<'b> {
        let query = self.request.query;
        match (write.operation, write.options) {
            (Operation::Create | Operation::Update, _) => OperationOptions::Write {
                field_manager: &query.field_manager,
                field_validation: &query.field_validation,
            },
            (Operation::Delete, Some(options)) => OperationOptions::Delete {
                grace_period_seconds: options.grace_period_seconds,
                propagation_policy: options.propagation_policy.as_deref(),
                orphan_dependents: options.orphan_dependents,
                uid: options.preconditions.uid.as_deref(),
                resource_version: options.preconditions.resource_version.as_deref(),
            },
            (Operation::Connect | Operation::Delete, _) => OperationOptions::None,
        }
    }
}

#[cfg(test)]
#[path = "admit_tests.rs"]
mod tests;
