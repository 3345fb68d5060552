//! The types of values.

use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Known when it is evaluated.
    Dyn,
    /// As dynamic, but nothing to go through.
    Any,
    /// What something wrong has, so that it is reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// The type of a type; of which one, where that is known.
    Type(Option<Arc<Type>>),
    /// A type with nothing that could be selected of it.
    Opaque(Arc<str>, Arc<[Type]>),
    /// A type with fields.
    Object(Arc<str>),
    /// A parameter in a declaration.
    Parameter(Arc<str>),
    /// A type that is still to be found.
    Variable(usize),
}

const OPTIONAL: &str = "optional_type";

impl Type {
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(inner: Type) -> Type {
        Type::Opaque(OPTIONAL.into(), [inner].into())
    }

    pub fn object(name: &str) -> Type {
        Type::Object(name.into())
    }

    pub fn opaque(name: &str) -> Type {
        Type::Opaque(name.into(), [].into())
    }

    pub fn of_type(inner: Type) -> Type {
        Type::Type(Some(Arc::new(inner)))
    }

    /// What the optional holds, if it is one.
    pub fn unwrap_optional(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, parameters) if name.as_ref() == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any)
    }

    pub fn is_error(&self) -> bool {
        *self == Type::Error
    }

    /// As messages of the checker show it.
    pub fn shown(&self) -> String {
        match self {
            Type::Null => "null".to_owned(),
            Type::Any => "any".to_owned(),
            Type::Duration => "duration".to_owned(),
            Type::Timestamp => "timestamp".to_owned(),
            Type::Error => "!error!".to_owned(),
            other => other.formatted(Type::shown),
        }
    }

    fn formatted(&self, inner: impl Fn(&Type) -> String) -> String {
        match self {
            Type::List(element) => format!("list({})", inner(element)),
            Type::Map(key, value) => format!("map({}, {})", inner(key), inner(value)),
            Type::Type(Some(of)) => format!("type({})", inner(of)),
            Type::Opaque(name, parameters) if !parameters.is_empty() => {
                let parameters: Vec<String> = parameters.iter().map(inner).collect();
                format!("{name}({})", parameters.join(", "))
            }
            Type::Variable(number) => format!("_var{number}"),
            simple => simple.name().to_owned(),
        }
    }

    /// The name without parameters.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Any => "google.protobuf.Any",
            Type::Error => "error",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Type(_) => "type",
            Type::Opaque(name, _) | Type::Object(name) | Type::Parameter(name) => name,
            Type::Variable(_) => "",
        }
    }

    /// The types it is made of.
    pub fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::List(element) => vec![element],
            Type::Map(key, value) => vec![key, value],
            Type::Type(Some(of)) => vec![of],
            Type::Opaque(_, parameters) => parameters.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The same type with its parameters changed.
    pub fn with(&self, change: &mut impl FnMut(&Type) -> Type) -> Type {
        match self {
            Type::List(element) => Type::list(change(element)),
            Type::Map(key, value) => {
                let key = change(key);
                Type::map(key, change(value))
            }
            Type::Type(Some(of)) => Type::of_type(change(of)),
            Type::Opaque(name, parameters) if !parameters.is_empty() => {
                Type::Opaque(name.clone(), parameters.iter().map(change).collect())
            }
            simple => simple.clone(),
        }
    }
}

/// As messages about results show it.
impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.formatted(Type::to_string))
    }
}
