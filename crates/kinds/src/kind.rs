//! What a row of the table says about a kind.

use crate::strategy::Strategy;
use rkube_machinery::field::Errors;
use rkube_machinery::{GroupResource, Text, Type, TypeRef, Value};

/// A kind in one version. `..Kind::DEFAULTS` fills in what most kinds have.
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    /// Plural, lower case, as in paths.
    pub resource: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub scope: Scope,
    /// As discovery lists them.
    pub verbs: &'static [&'static str],
    /// The OpenAPI name of the type: `io.k8s.api.core.v1.Pod`.
    pub type_name: &'static str,
    /// Where objects lie in the store, below `/registry/`: `services/specs`.
    pub storage_prefix: &'static str,
    /// What clients are told in a `Warning` header whenever they ask for the resource; empty where it is not outdated.
    pub deprecation: &'static str,
    /// Served only where `--runtime-config` turns it on.
    pub off_by_default: bool,
    /// Objects vanish after so many seconds.
    pub time_to_live_seconds: Option<u64>,
    /// How this version differs from the one in which objects are stored.
    pub conversion: Option<Conversion>,
    pub subresources: &'static [Subresource],
    /// Where the `scale` subresource finds its numbers, for kinds that have one.
    pub scale: Option<ScalePaths>,
    pub columns: &'static [Column],
    /// Fields that a field selector may name beyond `metadata.name` and `metadata.namespace`. They and the columns are
    /// read from the stored form.
    pub selectable: &'static [Selectable],
    /// What is constant in how objects are written and deleted.
    pub strategy: Strategy,
    /// What is not.
    pub rules: &'static dyn Rules,
}

pub const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

impl Kind {
    pub const DEFAULTS: Kind = Kind {
        group: "",
        version: "v1",
        kind: "",
        resource: "",
        singular: "",
        short_names: &[],
        categories: &[],
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        type_name: "",
        storage_prefix: "",
        deprecation: "",
        off_by_default: false,
        time_to_live_seconds: None,
        conversion: None,
        subresources: &[],
        scale: None,
        columns: &[],
        selectable: &[],
        strategy: Strategy::DEFAULTS,
        rules: &NoRules,
    };

    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The type in the schema table. The table's own test makes sure that every row's type is there.
    pub fn schema(&self) -> Option<&'static Type> {
        TypeRef::find(self.type_name).map(TypeRef::get)
    }

    /// The kind as errors name it.
    pub fn group_kind(&self) -> GroupResource {
        let group = self.conversion.as_ref().map_or(self.group, |conversion| conversion.group);
        GroupResource::new(Text::new_static(group), Text::new_static(self.kind))
    }

    /// The resource as errors name it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(Text::new_static(self.group), Text::new_static(self.resource))
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// A subresource as discovery lists it: `status`, `scale`, …
pub struct Subresource {
    pub name: &'static str,
    pub verbs: &'static [&'static str],
    /// The kind of its body where it is not the parent's.
    pub kind: Option<&'static str>,
    /// The group and version of its body where they are not the parent's.
    pub group_version: Option<(&'static str, &'static str)>,
}

impl Subresource {
    pub const STATUS: Subresource =
        Subresource { name: "status", verbs: &["get", "patch", "update"], kind: None, group_version: None };

    /// Of kinds with [`Kind::scale`].
    pub const SCALE: Subresource = Subresource {
        name: "scale",
        verbs: &["get", "patch", "update"],
        kind: Some("Scale"),
        group_version: Some(("autoscaling", "v1")),
    };
}

/// Where in an object the fields of its `Scale` lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The number that a scale reads and writes.
    pub spec_replicas: &'static [&'static str],
    pub status_replicas: &'static [&'static str],
    /// What a scale shows as text in `status.selector`.
    pub selector: &'static [&'static str],
    pub selector_form: SelectorForm,
}

impl ScalePaths {
    /// Of workloads whose selector is a `LabelSelector`.
    pub const WORKLOAD: ScalePaths = ScalePaths {
        spec_replicas: &["spec", "replicas"],
        status_replicas: &["status", "replicas"],
        selector: &["spec", "selector"],
        selector_form: SelectorForm::LabelSelector,
    };
}

/// How a kind writes its selector down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorForm {
    /// An object with `matchLabels` and `matchExpressions`.
    LabelSelector,
    /// A map of labels and their values.
    Labels,
}

/// Objects of several versions lie in one storage, in the form of one of them.
pub struct Conversion {
    /// The stored form's group, by which errors name the kind.
    pub group: &'static str,
    /// From this version to the stored one; `apiVersion` and `kind` included.
    pub to_stored: fn(Value) -> Value,
    pub from_stored: fn(Value) -> Value,
}

/// The [`Conversion`] of a version whose objects differ from the stored ones in nothing but their version.
macro_rules! renamed {
    ($group:literal, $version:literal, stored as $stored:literal) => {
        $crate::kind::Conversion {
            group: $group,
            to_stored: |mut object| {
                object.set("apiVersion", concat!($group, "/", $stored));
                object
            },
            from_stored: |mut object| {
                object.set("apiVersion", concat!($group, "/", $version));
                object
            },
        }
    };
}
pub(crate) use renamed;

/// A field that a field selector may name.
pub struct Selectable {
    pub label: &'static str,
    pub value: fn(&Value) -> String,
}

/// A column of the table that `kubectl get` prints.
pub struct Column {
    /// Empty: rows have the cell, the table does not say what it is.
    pub name: &'static str,
    /// `string`, `integer`, `boolean`, `date`, `number`.
    pub kind: &'static str,
    /// `name` for the name column, else empty.
    pub format: &'static str,
    /// In words; `doc:TYPE FIELD` stands for what the API's documentation says of that field.
    pub description: &'static str,
    /// 0: always shown; 1: with `-o wide`.
    pub priority: i64,
    /// The cell for an object; `now` in seconds since 1970 for ages.
    pub cell: fn(object: &Value, now: i64) -> Value,
}

/// What a table says about a row beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCondition {
    pub reason: &'static str,
    pub message: &'static str,
}

/// Which write the rules are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object itself.
    Main,
    Status,
    /// Any other subresource that writes the object, by name: `ephemeralcontainers`, `resize`, `finalize`.
    Other(&'static str),
}

/// Who makes a request, and when.
pub struct Requester<'a> {
    /// Makes a `UserInfo` object: `username`, `uid`, `groups`, `extra`.
    pub user: &'a dyn Fn() -> Value,
    /// In seconds since 1970.
    pub now: i64,
    /// Whether a new object came without labels.
    pub gave_no_labels: bool,
}

/// How a kind's objects are made, changed and checked. Called in this order: `default`, (admission), `prepare_*`,
/// `validate_*`. Objects are decoded: known fields only, right types, schema order. Metadata common to all kinds is
/// validated by [`Kind::validate_create`] and [`Kind::validate_update`], by which callers reach `validate_*`.
/// Where the kind has a [`Conversion`], `default` sees this version's form and everything else the stored one.
pub trait Rules: Sync + 'static {
    /// Fills in what a client may leave out. Also run on objects read in another version. Must be idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Drops what clients may not set on create: status, fields behind feature gates.
    fn prepare_create(&self, _object: &mut Value) {}

    fn validate_create(&self, _object: &Value, _errors: &mut Errors) {}

    /// What is wrong with an object because of the namespace that it is in, which `namespace` gives; its errors come
    /// before those of `validate_*`. `old` on update.
    fn validate_in_namespace(
        &self,
        _part: Part,
        _object: &Value,
        _old: Option<&Value>,
        _namespace: &dyn Fn() -> Value,
        _errors: &mut Errors,
    ) {
    }

    /// Carries over from `old` what this write may not change.
    fn prepare_update(&self, _part: Part, _object: &mut Value, _old: &Value) {}

    /// Writes down who asked and when, where the kind keeps that; called after `prepare_*`. `part` and `old` on update.
    fn stamp(&self, _object: &mut Value, _change: Option<(Part, &Value)>, _requester: &Requester<'_>) {}

    fn validate_update(&self, _part: Part, _object: &Value, _old: &Value, _errors: &mut Errors) {}

    /// Last touch before storing, after validation (upstream's canonicalisation).
    fn canonicalize(&self, _object: &mut Value) {}

    /// Texts for `Warning` headers when the object itself is written; `old` on update.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Texts for `Warning` headers when the object's status is written.
    fn status_warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The seconds for a graceful deletion of this object, `None` where deletion is immediate.
    fn grace_period_seconds(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Touches an object that is marked for deletion but has to wait for its finalizers.
    fn prepare_deletion(&self, _object: &mut Value) {}

    /// Finalizers for a new object beyond those of the client (`kubernetes` in a namespace's spec is `prepare_create`'s).
    fn keep_until_finalized(&self, _object: &Value) -> bool {
        false
    }

    /// Why such annotations cannot be read, if so.
    fn unreadable(&self, _object: &Value) -> Option<String> {
        None
    }

    /// That this object has come to its end, as tables mark it.
    fn row_completed(&self, _object: &Value) -> Option<RowCondition> {
        None
    }
}

struct NoRules;
impl Rules for NoRules {}
