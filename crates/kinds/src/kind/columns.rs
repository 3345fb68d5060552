//! The columns and the selectable fields of a kind: constants of the table, or made of a definition.

use rkube_machinery::{Text, Value};

use super::row::{Column, Selectable};

/// The columns of the table that `kubectl get` prints.
pub enum Columns {
    Table(&'static [Column]),
    Custom(Box<[CustomColumn]>),
}

/// A column of a custom resource.
pub struct CustomColumn {
    pub name: Text,
    /// `string`, `integer`, `boolean`, `date`, `number`.
    pub kind: Text,
    pub format: Text,
    pub description: Text,
    pub priority: i64,
    /// The cell for an object; `now` in seconds since 1970 for ages.
    pub cell: Box<CellFunction>,
}

type CellFunction = dyn Fn(&Value, i64) -> Value + Send + Sync;

/// A column, whoever made it.
#[derive(Clone, Copy)]
pub struct ColumnView<'a> {
    /// Empty: rows have the cell, the table does not say what it is.
    pub name: &'a str,
    pub kind: &'a str,
    /// `name` for the name column, else mostly empty.
    pub format: &'a str,
    /// In words; `doc:TYPE FIELD` stands for what the API's documentation says of that field.
    pub description: &'a str,
    /// 0: always shown; 1: with `-o wide`.
    pub priority: i64,
    cell: Cell<'a>,
}

#[derive(Clone, Copy)]
enum Cell<'a> {
    Table(fn(&Value, i64) -> Value),
    Custom(&'a CellFunction),
}

impl Columns {
    pub fn iter(&self) -> impl Iterator<Item = ColumnView<'_>> {
        let (table, custom): (&[Column], &[CustomColumn]) = match self {
            Columns::Table(columns) => (columns, &[]),
            Columns::Custom(columns) => (&[], columns),
        };
        table.iter().map(ColumnView::from).chain(custom.iter().map(ColumnView::from))
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Columns::Table(columns) => columns.is_empty(),
            Columns::Custom(columns) => columns.is_empty(),
        }
    }
}

impl ColumnView<'_> {
    /// The cell for an object; `now` in seconds since 1970 for ages.
    pub fn cell(&self, object: &Value, now: i64) -> Value {
        match self.cell {
            Cell::Table(cell) => cell(object, now),
            Cell::Custom(cell) => cell(object, now),
        }
    }
}

impl<'a> From<&'a Column> for ColumnView<'a> {
    fn from(column: &'a Column) -> Self {
        let Column { name, kind, format, description, priority, cell } = column;
        ColumnView { name, kind, format, description, priority: *priority, cell: Cell::Table(*cell) }
    }
}

impl<'a> From<&'a CustomColumn> for ColumnView<'a> {
    fn from(column: &'a CustomColumn) -> Self {
        let CustomColumn { name, kind, format, description, priority, cell } = column;
        ColumnView { name, kind, format, description, priority: *priority, cell: Cell::Custom(cell.as_ref()) }
    }
}

/// Fields that a field selector may name.
pub enum SelectableFields {
    Table(&'static [Selectable]),
    Custom(Box<[CustomField]>),
}

/// A selectable field of a custom resource.
pub struct CustomField {
    /// As selectors name it: `spec.color`.
    pub label: Text,
    pub path: Box<[Text]>,
}

impl SelectableFields {
    pub fn is_empty(&self) -> bool {
        match self {
            SelectableFields::Table(fields) => fields.is_empty(),
            SelectableFields::Custom(fields) => fields.is_empty(),
        }
    }

    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let (table, custom): (&[Selectable], &[CustomField]) = match self {
            SelectableFields::Table(fields) => (fields, &[]),
            SelectableFields::Custom(fields) => (&[], fields),
        };
        table.iter().map(|field| field.label).chain(custom.iter().map(|field| field.label.as_str()))
    }

    /// What an object has in these fields, in their order.
    pub fn values(&self, object: &Value) -> Box<[Text]> {
        match self {
            SelectableFields::Table(fields) => fields.iter().map(|field| Text::from((field.value)(object))).collect(),
            SelectableFields::Custom(fields) => fields.iter().map(|field| text_at(object, &field.path)).collect(),
        }
    }
}

/// A scalar as selectors compare it; empty where there is none.
fn text_at(object: &Value, path: &[Text]) -> Text {
    match object.at(path) {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => {
            if *flag {
                Text::new_static("true")
            } else {
                Text::new_static("false")
            }
        }
        Value::Int(number) => Text::from(number.to_string()),
        _ => Text::default(),
    }
}
