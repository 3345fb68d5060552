//! A kind: all that the server has to know to serve its objects. Built-in kinds are made of a [`Row`] of the table, custom
//! ones of their definition while the server runs; nothing but the making tells them apart.

mod columns;
mod row;
mod rules;
mod scale;

use std::sync::Arc;

use rkube_machinery::schema::Schema;
use rkube_machinery::{GroupResource, Text, TypeRef, Value};

pub use columns::{ColumnView, Columns, CustomColumn, CustomField, SelectableFields};
pub(crate) use row::renamed;
pub use row::{ALL_VERBS, Column, Row, RowConversion, RowScale, Selectable};
pub use rules::{Part, Requester, RowCondition, Rules};
pub use scale::{ScalePaths, SelectorForm};

use crate::strategy::Strategy;

/// A kind in one version, as it is served: made of a [`Row`], or of a definition while the server runs.
pub struct Kind {
    pub group: Text,
    pub version: Text,
    pub kind: Text,
    pub list_kind: Text,
    pub resource: Text,
    pub singular: Text,
    pub short_names: Box<[Text]>,
    pub categories: Box<[Text]>,
    pub scope: Scope,
    pub verbs: &'static [&'static str],
    /// The OpenAPI name of the type.
    pub type_name: Text,
    pub storage_prefix: Text,
    pub deprecation: Text,
    pub off_by_default: bool,
    pub time_to_live_seconds: Option<u64>,
    pub conversion: Option<Conversion>,
    pub subresources: &'static [Subresource],
    pub scale: Option<ScalePaths>,
    pub columns: Columns,
    pub selectable: SelectableFields,
    pub strategy: Strategy,
    pub rules: RulesRef,
    pub schema: Schema,
}

impl Kind {
    /// The kind of a row of the table.
    pub fn of(row: &'static Row) -> Kind {
        let texts = |list: &[&'static str]| list.iter().copied().map(Text::new_static).collect();
        let table =
            TypeRef::find(row.type_name).expect("the table's own test makes sure that every row's type is there");
        Kind {
            group: Text::new_static(row.group),
            version: Text::new_static(row.version),
            kind: Text::new_static(row.kind),
            list_kind: Text::from(format!("{}List", row.kind)),
            resource: Text::new_static(row.resource),
            singular: Text::new_static(row.singular),
            short_names: texts(row.short_names),
            categories: texts(row.categories),
            scope: row.scope,
            verbs: row.verbs,
            type_name: Text::new_static(row.type_name),
            storage_prefix: Text::new_static(row.storage_prefix),
            deprecation: Text::new_static(row.deprecation),
            off_by_default: row.off_by_default,
            time_to_live_seconds: row.time_to_live_seconds,
            conversion: row.conversion.as_ref().map(Conversion::of),
            subresources: row.subresources,
            scale: row.scale.map(ScalePaths::of),
            columns: Columns::Table(row.columns),
            selectable: SelectableFields::Table(row.selectable),
            strategy: row.strategy,
            rules: RulesRef::Table(row.rules),
            schema: Schema::Table(table.get()),
        }
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether this is how `apiVersion` names the kind's group and version.
    pub fn has_api_version(&self, api_version: &str) -> bool {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.version == version && self.group == group
    }

    /// The kind as errors name it.
    pub fn group_kind(&self) -> GroupResource {
        let group = self.conversion.as_ref().map_or(&self.group, |conversion| &conversion.group);
        GroupResource::new(group.clone(), self.kind.clone())
    }

    /// The resource as errors name it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.resource.clone())
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether this is the built-in kind of this group and resource.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.resource == resource && self.group == group
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}

/// A kind's rules: of the table, or of a definition.
#[derive(Clone)]
pub enum RulesRef {
    Table(&'static dyn Rules),
    Shared(Arc<dyn Rules>),
}

impl std::ops::Deref for RulesRef {
    type Target = dyn Rules;

    fn deref(&self) -> &(dyn Rules + 'static) {
        match self {
            RulesRef::Table(rules) => *rules,
            RulesRef::Shared(rules) => rules.as_ref(),
        }
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

/// How a served version of a built-in kind differs from the stored one.
pub struct Conversion {
    /// The stored form's group, by which errors name the kind.
    pub group: Text,
    to_stored: fn(Value) -> Value,
    from_stored: fn(Value) -> Value,
}

impl Conversion {
    fn of(row: &RowConversion) -> Conversion {
        let RowConversion { group, to_stored, from_stored } = *row;
        Conversion { group: Text::new_static(group), to_stored, from_stored }
    }

    /// From this version to the stored one; `apiVersion` and `kind` included.
    pub fn to_stored(&self, object: Value) -> Value {
        (self.to_stored)(object)
    }

    pub fn from_stored(&self, object: Value) -> Value {
        (self.from_stored)(object)
    }
}
