//! The schema of a kind, whoever made it: a type of the table, or what a custom resource's definition says.

use std::sync::Arc;

use super::Type;
use super::structural::{Invalid, Structural, StructuralView, read_numbers, repeated_keys, sort};
use crate::decode::{self, DecodeError, Decoded};
use crate::managed::{self, ApplyError, Reset, TableView, WriteContext};
use crate::value::Value;

/// What a kind's objects are made of. Objects of the table's types are written in their type's order, without what is
/// empty; custom ones with their keys sorted, and whole.
#[derive(Clone)]
pub enum Schema {
    /// A built-in kind.
    Table(&'static Type),
    /// A custom resource.
    Structural(Arc<Structural>),
}

/// Turns an object into another version of its kind; none where the version is not served.
pub type ToVersion<'a> = &'a dyn Fn(&Value, &str) -> Option<(Value, &'a Schema)>;

impl Schema {
    /// The table's type; none of custom resources.
    pub fn table(&self) -> Option<&'static Type> {
        match self {
            Schema::Table(table) => Some(table),
            Schema::Structural(_) => None,
        }
    }

    /// The document as an object: known fields only, of their types.
    pub fn decode(&self, mut raw: Value) -> Result<Decoded, DecodeError> {
        match self {
            Schema::Table(table) => decode::decode(raw, table),
            Schema::Structural(schema) => {
                read_numbers(&mut raw).map_err(|error| DecodeError::Text(error.to_string()))?;
                let mut strict: Vec<String> =
                    repeated_keys(&raw).into_iter().map(|path| format!("duplicate field \"{path}\"")).collect();
                sort(&mut raw);
                let unknown = schema.coerce(&mut raw, Invalid::Refuse);
                strict.extend(unknown.map_err(|error| DecodeError::Text(error.to_string()))?);
                strict.truncate(decode::STRICT_ERRORS_MAX);
                Ok(Decoded { value: raw, strict, kept_empties: false })
            }
        }
    }

    /// The same from JSON's text, where nothing unusual stands in it.
    pub fn decode_direct(&self, text: &[u8]) -> Option<Decoded> {
        match self {
            Schema::Table(table) => decode::direct(text, table),
            Schema::Structural(_) => None,
        }
    }

    /// The same of a tree that a patch or an apply left.
    pub fn convert(&self, mut tree: Value) -> Result<Decoded, DecodeError> {
        match self {
            Schema::Table(table) => decode::convert(tree, table),
            Schema::Structural(_) => {
                sort(&mut tree);
                Ok(Decoded { value: tree, strict: Vec::new(), kept_empties: false })
            }
        }
    }

    /// The same of an object in canonical form that this patch was applied to.
    pub fn convert_patched(&self, tree: Value, patch: &Value) -> Result<Decoded, DecodeError> {
        match self {
            Schema::Table(table) => decode::convert_patched(tree, patch, table),
            Schema::Structural(_) => self.convert(tree),
        }
    }

    /// Gives a stored object the form that it would have had if it was written today.
    pub fn modernize(&self, value: &mut Value) {
        if let Schema::Structural(schema) = self {
            sort(value);
            // What cannot be read stays as it is: an object that was stored is shown.
            let _ = schema.coerce(value, Invalid::Drop);
            schema.set_defaults(value);
        }
    }

    /// Brings an object that was edited back into canonical form.
    pub fn complete(&self, value: &mut Value) {
        match self {
            Schema::Table(table) => decode::complete(value, table),
            Schema::Structural(_) => sort(value),
        }
    }

    /// The same for a change of an object that has that form. `carried` is a field that is known to be as it was there.
    pub fn complete_beside(&self, value: &mut Value, old: &Value, carried: Option<&str>) {
        match self {
            Schema::Table(table) => decode::complete_beside(value, old, table, carried),
            Schema::Structural(_) => sort(value),
        }
    }

    /// The object as storage gives it back, where it may have lists or maps that are there and empty.
    pub fn settle(&self, value: &mut Value) {
        match self {
            Schema::Table(table) => decode::settle(value, table),
            Schema::Structural(_) => sort(value),
        }
    }

    /// Records in a new object that all of it is the maker's, and says whether it did.
    pub fn track_new(&self, new: &mut Value, context: &WriteContext<'_>, reset: Reset<'_>) -> bool {
        match self {
            Schema::Table(table) => managed::track_new(new, TableView::Object(table), context, reset),
            Schema::Structural(schema) => managed::track_new(new, StructuralView::of(Some(schema)), context, reset),
        }
    }

    /// Records in `new` who owns what after a create or update. `live` is null on create.
    pub fn track_update(
        &self,
        live: &Value,
        new: &mut Value,
        context: &WriteContext<'_>,
        reset: Reset<'_>,
        to_version: Option<ToVersion<'_>>,
    ) {
        match self {
            Schema::Table(table) => {
                let convert = |object: &Value, version: &str| in_table(to_version?(object, version)?);
                let view = TableView::Object(table);
                managed::track_update(live, new, view, context, reset, to_version.is_some().then_some(&convert));
            }
            Schema::Structural(schema) => {
                let convert = |object: &Value, version: &str| in_structural(to_version?(object, version)?);
                let view = StructuralView::of(Some(schema));
                managed::track_update(live, new, view, context, reset, to_version.is_some().then_some(&convert));
            }
        }
    }

    /// The live object with the configuration applied to it.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        context: &WriteContext<'_>,
        force: bool,
        reset: Reset<'_>,
        to_version: ToVersion<'_>,
    ) -> Result<Value, ApplyError> {
        match self {
            Schema::Table(table) => {
                let convert = |object: &Value, version: &str| in_table(to_version(object, version)?);
                managed::apply(live, config, TableView::Object(table), context, force, reset, Some(&convert))
            }
            Schema::Structural(schema) => {
                let convert = |object: &Value, version: &str| in_structural(to_version(object, version)?);
                let view = StructuralView::of(Some(schema));
                managed::apply(live, config, view, context, force, reset, Some(&convert))
            }
        }
    }
}

fn in_table((value, schema): (Value, &Schema)) -> Option<(Value, TableView)> {
    Some((value, TableView::Object(schema.table()?)))
}

fn in_structural<'a>((value, schema): (Value, &'a Schema)) -> Option<(Value, StructuralView<'a>)> {
    match schema {
        Schema::Structural(schema) => Some((value, StructuralView::of(Some(schema)))),
        Schema::Table(_) => None,
    }
}
