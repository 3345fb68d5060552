//! The schema of a kind, whoever made it: a type of the table, or what a custom resource's definition says.

use super::Type;

/// What a kind's objects are made of.
#[derive(Clone)]
pub enum Schema {
    /// A built-in kind.
    Table(&'static Type),
}

impl Schema {
    /// The table's type; none of custom resources.
    pub fn table(&self) -> Option<&'static Type> {
        match self {
            Schema::Table(table) => Some(table),
        }
    }
}
