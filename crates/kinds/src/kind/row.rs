//! A row of the table of built-in kinds: all that is said about a kind as constants and plain functions.

use rkube_machinery::Value;

use super::rules::{NoRules, Rules};
use super::scale::SelectorForm;
use super::{Scope, Subresource};
use crate::strategy::Strategy;

/// A built-in kind in one version, as the table has it. `..Row::DEFAULTS` fills in what most kinds have. What is served
/// is a [`Kind`], made of a row or of a custom resource's definition.
pub struct Row {
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
    pub conversion: Option<RowConversion>,
    pub subresources: &'static [Subresource],
    /// Where the `scale` subresource finds its numbers, for kinds that have one.
    pub scale: Option<RowScale>,
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

impl Row {
    pub const DEFAULTS: Row = Row {
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
}

/// Where in an object the fields of its `Scale` lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowScale {
    /// The number that a scale reads and writes.
    pub spec_replicas: &'static [&'static str],
    pub status_replicas: &'static [&'static str],
    /// What a scale shows as text in `status.selector`.
    pub selector: &'static [&'static str],
    pub selector_form: SelectorForm,
}

impl RowScale {
    /// Of workloads whose selector is a `LabelSelector`.
    pub const WORKLOAD: RowScale = RowScale {
        spec_replicas: &["spec", "replicas"],
        status_replicas: &["status", "replicas"],
        selector: &["spec", "selector"],
        selector_form: SelectorForm::LabelSelector,
    };
}

/// Objects of several versions lie in one storage, in the form of one of them.
pub struct RowConversion {
    /// The stored form's group, by which errors name the kind.
    pub group: &'static str,
    /// From this version to the stored one; `apiVersion` and `kind` included.
    pub to_stored: fn(Value) -> Value,
    pub from_stored: fn(Value) -> Value,
}

/// The [`RowConversion`] of a version whose objects differ from the stored ones in nothing but their version.
macro_rules! renamed {
    ($group:literal, $version:literal, stored as $stored:literal) => {
        $crate::kind::RowConversion {
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
