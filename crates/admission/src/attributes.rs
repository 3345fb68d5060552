//! What is to be written, by whom and how, as plugins see it.

use rkube_access::User;
use rkube_catalog::Served;
use rkube_machinery::{GroupResource, Map, Status, Text, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    /// A connection to a node, a pod or a service.
    Connect,
}

impl Operation {
    /// As rules, reviews and metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// What the object at hand is: of a subresource it can be another kind than the resource's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectKind<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
}

impl<'a> ObjectKind<'a> {
    /// The resource's own kind.
    pub fn of(served: &'a Served) -> ObjectKind<'a> {
        ObjectKind { api_version: &served.api_version, kind: &served.kind.kind }
    }
}

/// The options of the request, as far as they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperationOptions<'a> {
    /// Of a creation or an update. Patches have those of what they turn out to be.
    Write { field_manager: &'a str, field_validation: &'a str },
    Delete {
        grace_period_seconds: Option<i64>,
        propagation_policy: Option<&'a str>,
        orphan_dependents: Option<bool>,
        uid: Option<&'a str>,
        resource_version: Option<&'a str>,
    },
    /// Connections have theirs in the object.
    #[default]
    None,
}

/// What the first phase is asked to do again: once, where a webhook changed the object.
#[derive(Default)]
pub struct Rounds {
    /// A webhook changed the object: what came before it is asked again.
    pub another: bool,
    /// This is the second time.
    pub is_second: bool,
    /// What webhooks remember from one round to the next.
    pub webhooks: Option<Box<crate::webhooks::FirstRound>>,
}

/// What plugins know of a write, beside the new object.
pub struct Attributes<'a> {
    pub operation: Operation,
    /// Group, version and resource that the request names.
    pub served: &'a Served,
    pub subresource: &'a str,
    pub kind: ObjectKind<'a>,
    pub namespace: &'a str,
    /// Empty where a collection is deleted, and where the name is yet to be generated.
    pub name: &'a str,
    /// What an update changes or a deletion removes, in the form in which it is stored.
    pub old: Option<&'a Value>,
    pub options: OperationOptions<'a>,
    /// Nothing will be stored: a plugin must not act on the outside world.
    pub dry_run: bool,
    pub user: &'a User,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// What webhooks say for the audit log, which nobody keeps yet.
    pub annotations: Vec<(String, String)>,
    pub rounds: Rounds,
}

impl Attributes<'_> {
    /// Whether this is about objects of this resource themselves, not a subresource.
    #[inline]
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.is_about(group, resource)
    }

    /// Whether this is about a subresource of this resource.
    #[inline]
    pub fn is_part(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.is_about(group, resource) && self.subresource == subresource
    }

    /// Whether this is about this resource or one of its subresources.
    #[inline]
    pub fn is_about(&self, group: &str, resource: &str) -> bool {
        self.served.kind.resource == resource && self.served.kind.group == group
    }

    pub fn is_create(&self) -> bool {
        self.operation == Operation::Create
    }

    pub fn is_update(&self) -> bool {
        self.operation == Operation::Update
    }

    pub fn is_create_or_update(&self) -> bool {
        self.is_create() || self.is_update()
    }

    pub fn resource(&self) -> &GroupResource {
        &self.served.group_resource
    }

    /// The refusal of this write.
    pub fn forbidden(&self, object: &Value, why: impl AsRef<str>) -> Status {
        let metadata = object.get("metadata");
        let candidates = [self.name, metadata.str("name"), metadata.str("generateName"), "Unknown"];
        let name = candidates.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Status::forbidden(self.resource(), name, why)
    }

    /// The options as an object of `meta.k8s.io/v1`, its fields in Go's order; null where there are none.
    pub fn options_value(&self) -> Value {
        let kind = match (self.options, self.operation) {
            (OperationOptions::None, _) => return Value::Null,
            (OperationOptions::Delete { .. }, _) => "DeleteOptions",
            (OperationOptions::Write { .. }, Operation::Create) => "CreateOptions",
            (OperationOptions::Write { .. }, _) => "UpdateOptions",
        };
        let mut entries: Vec<(Text, Value)> = Vec::new();
        let mut put = |field: &'static str, given: Option<Value>| {
            entries.extend(given.map(|given| (Text::new_static(field), given)));
        };
        put("kind", Some(kind.into()));
        put("apiVersion", Some("meta.k8s.io/v1".into()));
        let dry_run = self.dry_run.then(|| vec![Value::from("All")].into());
        match self.options {
            OperationOptions::None => {}
            OperationOptions::Write { field_manager, field_validation } => {
                let text = |text: &str| (!text.is_empty()).then(|| Value::from(text));
                put("dryRun", dry_run);
                put("fieldManager", text(field_manager));
                put("fieldValidation", text(field_validation));
            }
            OperationOptions::Delete {
                grace_period_seconds,
                propagation_policy,
                orphan_dependents,
                uid,
                resource_version,
            } => {
                let mut preconditions = Value::object();
                for (field, text) in [("uid", uid), ("resourceVersion", resource_version)] {
                    text.into_iter().for_each(|text| preconditions.set(field, text));
                }
                put("gracePeriodSeconds", grace_period_seconds.map(Value::from));
                put("preconditions", (!preconditions.is_empty()).then_some(preconditions));
                put("orphanDependents", orphan_dependents.map(Value::from));
                put("propagationPolicy", propagation_policy.map(Value::from));
                put("dryRun", dry_run);
            }
        }
        Value::Object(Map::in_order(entries))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rkube_catalog::Snapshot;
    use rkube_machinery::object;

    use super::*;

    /// The creation of an object by nobody in particular.
    pub fn creation<'a>(served: &'a Served, user: &'a User) -> Attributes<'a> {
        Attributes {
            operation: Operation::Create,
            served,
            subresource: "",
            kind: ObjectKind::of(served),
            namespace: "default",
            name: "",
            old: None,
            options: OperationOptions::None,
            dry_run: false,
            user,
            warnings: Vec::new(),
            annotations: Vec::new(),
            rounds: Rounds::default(),
        }
    }

    #[test]
    fn options_are_objects() {
        let catalog = Snapshot::unfed(rkube_kinds::all());
        let (served, user) = (catalog.find("", "v1", "pods").unwrap(), User::default());
        let mut attributes = creation(served, &user);
        assert_eq!(attributes.options_value(), Value::Null);
        attributes.options = OperationOptions::Write { field_manager: "m", field_validation: "" };
        let mut want = object! { "apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "m" };
        assert_eq!(attributes.options_value(), want);
        attributes.dry_run = true;
        attributes.operation = Operation::Update;
        want.set("kind", "UpdateOptions");
        want.set("dryRun", vec![Value::from("All")]);
        assert_eq!(attributes.options_value(), want);
        attributes.options = OperationOptions::Delete {
            grace_period_seconds: Some(5),
            propagation_policy: None,
            orphan_dependents: None,
            uid: Some("u"),
            resource_version: None,
        };
        attributes.dry_run = false;
        let want = object! {
            "apiVersion": "meta.k8s.io/v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 5,
            "preconditions": object! { "uid": "u" },
        };
        assert_eq!(attributes.options_value(), want);
    }
}
