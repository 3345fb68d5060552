//! What apply has to know of a schema, position by position.
//!
//! The built-in kinds answer from the schema table; an object without a schema is worked on by the form that its
//! values have. A custom resource's schema can stand in their place by implementing [`SchemaView`].

use super::text;
use crate::decode::zero_struct;
use crate::schema::{Field, ListType, Shape, Type, TypeRef};
use crate::value::Value;

/// A position in a schema.
pub trait SchemaView: Copy {
    /// The names of a list's key fields.
    type Key: AsRef<str>;

    /// What may stand here. A position that takes any form says so by what `value` is; null counts as a map.
    fn form(self, value: &Value) -> Form;

    /// What lies under this name in a struct or a map.
    fn child(self, name: &str) -> Child<Self>;

    /// What a list's items are.
    fn item(self) -> Self;

    /// The key fields of a list of structs.
    fn keys(&self) -> &[Self::Key];

    /// What an item, this position, counts as where it leaves out a key field.
    fn key_default(self, key: &str) -> Option<Value>;

    /// Where the field stands when the struct is written; none: by name.
    fn place(self, name: &str) -> Option<usize>;

    /// Whether a null here reads as an absent field.
    fn drops_null(self) -> bool;

    /// The struct as it is before anybody wrote to it.
    fn zero(self) -> Value;

    /// The field at this position as `managedFields` write it where it has nothing below it; none: it is not known.
    fn owned(self) -> Option<&'static str> {
        None
    }

    /// Whether the position takes any map, so that nothing is known of it.
    fn is_deduced(self) -> bool;

    /// The type of which this is a whole object, where it is one of the table: that is never another.
    fn table_type(self) -> Option<&'static Type> {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Scalar(Scalar),
    List(List),
    Map { atomic: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Number,
    Text,
    Flag,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Taken or left as a whole.
    Atomic,
    /// Items are told apart by what they are.
    Set,
    /// Items are told apart by their key fields.
    Keyed,
}

pub enum Child<View> {
    /// A field of the struct.
    Declared(View),
    /// An entry of a map.
    Entry(View),
    /// The struct has no such field.
    Unknown,
}

/// A position in the built-in schema table, or in no schema at all.
#[derive(Clone, Copy)]
pub enum TableView {
    /// An object of this type.
    Object(&'static Type),
    Field(&'static Field),
    /// An item of a list or a map.
    Item(&'static Shape),
    /// `apiVersion` and `kind`.
    TypeMeta,
    /// Anything: maps entry by entry, lists as a whole.
    Deduced,
    /// Anything, as a whole.
    Opaque,
}

impl TableView {
    pub fn of(kind: TypeRef) -> Self {
        TableView::Object(kind.get())
    }

    fn shape(self) -> Option<&'static Shape> {
        match self {
            TableView::Field(field) => Some(&field.shape),
            TableView::Item(shape) => Some(shape),
            _ => None,
        }
    }

    fn struct_type(self) -> Option<&'static Type> {
        match (self, self.shape()) {
            (TableView::Object(kind), _) => Some(kind),
            (_, Some(Shape::Struct(kind))) => Some(kind.get()),
            _ => None,
        }
    }

    fn field(self) -> Option<&'static Field> {
        match self {
            TableView::Field(field) => Some(field),
            _ => None,
        }
    }
}

impl SchemaView for TableView {
    type Key = &'static str;

    fn table_type(self) -> Option<&'static Type> {
        match self {
            TableView::Object(kind) => Some(kind),
            _ => None,
        }
    }

    fn form(self, value: &Value) -> Form {
        let Some(shape) = self.shape() else {
            return match self {
                TableView::TypeMeta => Form::Scalar(Scalar::Text),
                TableView::Opaque => any_form(value, true),
                TableView::Deduced => any_form(value, false),
                _ => Form::Map { atomic: self.struct_type().is_some_and(|kind| kind.atomic) },
            };
        };
        match shape {
            Shape::String | Shape::Bytes | Shape::Duration => Form::Scalar(Scalar::Text),
            Shape::Bool => Form::Scalar(Scalar::Flag),
            Shape::Int32 | Shape::Int64 | Shape::Double => Form::Scalar(Scalar::Number),
            Shape::Time | Shape::MicroTime | Shape::Quantity => Form::Scalar(Scalar::Any),
            Shape::RawExtension => any_form(value, true),
            Shape::IntOrString | Shape::Json | Shape::SchemaOrBool => any_form(value, false),
            Shape::SchemaOrArray | Shape::SchemaOrStrings => any_form(value, false),
            Shape::FieldsV1 => Form::Map { atomic: false },
            Shape::WrappedStrings => Form::List(List::Atomic),
            Shape::List(_) => Form::List(match self.field().map(|field| field.list) {
                Some(ListType::Set) => List::Set,
                Some(ListType::Map) => List::Keyed,
                _ => List::Atomic,
            }),
            Shape::Map(_) => Form::Map { atomic: self.field().is_some_and(|field| field.map_atomic) },
            Shape::Struct(kind) => {
                let by_field = self.field().is_some_and(|field| field.map_atomic);
                Form::Map { atomic: by_field || kind.atomic && !self.field().is_some_and(is_granular) }
            }
        }
    }

    fn child(self, name: &str) -> Child<Self> {
        if let Some(kind) = self.struct_type() {
            return match kind.field(name) {
                Some(field) => Child::Declared(TableView::Field(field)),
                None if kind.type_meta && matches!(name, "apiVersion" | "kind") => Child::Declared(TableView::TypeMeta),
                // A type without fields says nothing of what may be in it.
                None if kind.json_fields().next().is_none() => Child::Entry(TableView::Deduced),
                None => Child::Unknown,
            };
        }
        match (self, self.shape()) {
            (_, Some(Shape::Map(item))) => Child::Entry(TableView::Item(item)),
            (TableView::Opaque, _) | (_, Some(Shape::RawExtension)) => Child::Entry(TableView::Opaque),
            _ => Child::Entry(TableView::Deduced),
        }
    }

    fn item(self) -> Self {
        match self.shape() {
            Some(Shape::List(item)) => TableView::Item(item),
            Some(Shape::WrappedStrings) => TableView::TypeMeta,
            _ => TableView::Opaque,
        }
    }

    fn keys(&self) -> &[&'static str] {
        self.field().map_or(&[], |field| field.list_keys)
    }

    fn key_default(self, key: &str) -> Option<Value> {
        let written = self.struct_type()?.field(key)?.default?;
        match written {
            "\"\"" => Some(Value::from("")),
            _ => text::parse(written),
        }
    }

    fn place(self, name: &str) -> Option<usize> {
        let kind = self.struct_type()?;
        let before = if kind.type_meta { 2 } else { 0 };
        match name {
            "kind" if kind.type_meta => Some(0),
            "apiVersion" if kind.type_meta => Some(1),
            _ => kind.position(name).map(|position| position + before),
        }
    }

    fn drops_null(self) -> bool {
        self.field().is_some_and(|field| field.pointer || field.omit_empty || field.omit_zero)
    }

    fn zero(self) -> Value {
        self.struct_type().map_or_else(Value::object, zero_struct)
    }

    fn owned(self) -> Option<&'static str> {
        self.field().map(|field| field.owned)
    }

    fn is_deduced(self) -> bool {
        match self.shape() {
            Some(Shape::Json | Shape::FieldsV1 | Shape::IntOrString) => true,
            Some(Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings) => true,
            _ => matches!(self, TableView::Deduced),
        }
    }
}

/// The one field that says of an atomic type that it is taken field by field.
fn is_granular(field: &Field) -> bool {
    field.name == "claimRef"
}

fn any_form(value: &Value, atomic: bool) -> Form {
    match value {
        Value::Null | Value::Object(_) => Form::Map { atomic },
        Value::Array(_) => Form::List(List::Atomic),
        _ => Form::Scalar(Scalar::Any),
    }
}
