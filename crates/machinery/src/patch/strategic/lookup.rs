//! What the schema says about the fields that a patch touches.

use super::super::PatchError;
use crate::field::quote;
use crate::schema::{Field, Shape, Type};

/// The type of a place in the document.
#[derive(Clone, Copy)]
pub(super) struct Place {
    shape: PlaceShape,
    pointer: bool,
}

#[derive(Clone, Copy)]
enum PlaceShape {
    Struct(&'static Type),
    Other(Shape),
}

/// How a field is merged.
#[derive(Clone, Copy, Default)]
pub(super) struct Strategy {
    /// Lists are merged item by item.
    pub merge: bool,
    /// Objects are replaced as a whole.
    pub replace: bool,
    /// The field that identifies a list's items; empty for lists of scalars.
    pub key: &'static str,
}

impl Place {
    pub(super) fn of(kind: &'static Type) -> Self {
        Place { shape: PlaceShape::Struct(kind), pointer: false }
    }

    /// The object field of this name.
    pub(super) fn field(self, name: &str) -> Result<(Place, Strategy), PatchError> {
        let unknown = |owner: &str| {
            let name = quote(name);
            PatchError::Unexplained(format!("unable to find api field in struct {owner} for the json field {name}"))
        };
        match self.shape {
            PlaceShape::Struct(owner) => {
                if owner.type_meta && matches!(name, "apiVersion" | "kind") {
                    return Ok((Place::plain(Shape::String), Strategy::default()));
                }
                let field = find_field(owner, name).ok_or_else(|| unknown(owner.short_name()))?;
                Ok((Place::new(field.shape, field.pointer), Strategy::of(field)))
            }
            PlaceShape::Other(shape) => Err(match opaque_struct(shape) {
                Some(owner) => unknown(owner),
                None => PatchError::Unexplained(format!(
                    "merging an object in json but data type is not struct, instead is: {}",
                    go_kind(shape)
                )),
            }),
        }
    }

    /// The items of the list field of this name.
    pub(super) fn items(self, name: &str) -> Result<(Place, Strategy), PatchError> {
        let (list, strategy) = self.field(name)?;
        let item = match list.shape {
            PlaceShape::Other(Shape::List(item)) => {
                if !list.pointer && go_kind(*item) == "slice" {
                    return Err(PatchError::Unexplained("unexpected slice of slice".to_owned()));
                }
                Place::new(*item, false)
            }
            PlaceShape::Other(Shape::WrappedStrings | Shape::Bytes) => Place::plain(Shape::String),
            _ if list.pointer => Place { pointer: false, ..list },
            _ => {
                return Err(PatchError::Unexplained(format!(
                    "expected slice or array type, but got: {}",
                    self.kind_name()
                )));
            }
        };
        Ok((item, strategy))
    }

    /// Go's name for the kind of type.
    pub(super) fn kind_name(self) -> &'static str {
        match self.shape {
            _ if self.pointer => "ptr",
            PlaceShape::Struct(_) => "struct",
            PlaceShape::Other(shape) => go_kind(shape),
        }
    }

    fn new(shape: Shape, pointer: bool) -> Self {
        let shape = match shape {
            Shape::Struct(kind) => PlaceShape::Struct(kind.get()),
            other => PlaceShape::Other(other),
        };
        Place { shape, pointer }
    }

    fn plain(shape: Shape) -> Self {
        Place { shape: PlaceShape::Other(shape), pointer: false }
    }
}

impl Strategy {
    fn of(field: &Field) -> Self {
        Strategy { merge: field.patch_merge, replace: field.patch_replace, key: field.merge_key }
    }
}

/// The field of this name, else one that differs in case only.
fn find_field(owner: &'static Type, name: &str) -> Option<&'static Field> {
    let folded = || owner.json_fields().find(|field| field.name.eq_ignore_ascii_case(name));
    owner.field(name).or_else(folded)
}

/// The name of the Go struct behind a shape that has no fields of its own in JSON.
fn opaque_struct(shape: Shape) -> Option<&'static str> {
    Some(match shape {
        Shape::Time => "Time",
        Shape::MicroTime => "MicroTime",
        Shape::Duration => "Duration",
        Shape::Quantity => "Quantity",
        Shape::IntOrString => "IntOrString",
        Shape::FieldsV1 => "FieldsV1",
        Shape::RawExtension => "RawExtension",
        Shape::Json => "JSON",
        Shape::SchemaOrBool => "JSONSchemaPropsOrBool",
        Shape::SchemaOrArray => "JSONSchemaPropsOrArray",
        Shape::SchemaOrStrings => "JSONSchemaPropsOrStringArray",
        _ => return None,
    })
}

fn go_kind(shape: Shape) -> &'static str {
    match shape {
        Shape::String => "string",
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Double => "float64",
        Shape::Map(_) => "map",
        Shape::List(_) | Shape::Bytes | Shape::WrappedStrings => "slice",
        _ => "struct",
    }
}
