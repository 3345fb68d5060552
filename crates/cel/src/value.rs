//! The values that expressions work on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use rkube_machinery::quantity::Quantity;
use rkube_machinery::value::Text;
use rkube_machinery::{Value as Data, json};

use crate::functions::authorization::Authorization;
use crate::functions::network::Cidr;
use crate::functions::semver::Semver;
use crate::functions::url::Url;
use crate::time::Timestamp;
use crate::types::Type;
use crate::view::View;

#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    List(List<'a>),
    Map(Arc<Map<'a>>),
    /// A value with fields.
    Object(Arc<Object<'a>>),
    /// A list, map or object in the data of an object with a schema. Nothing of it is copied.
    View(View<'a>),
    Timestamp(Timestamp),
    /// In nanoseconds.
    Duration(i64),
    Type(Arc<Type>),
    Optional(Option<Arc<Value<'a>>>),
    Quantity(Arc<Quantity>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Arc<Semver>),
    /// A format that texts can be checked against, by its name.
    Format(&'static str),
    Authorization(Arc<Authorization>),
}

/// A list. What makes two of them equal depends on its kind.
#[derive(Clone, Debug)]
pub struct List<'a> {
    pub items: Arc<Vec<Value<'a>>>,
    pub kind: ListKind<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind<'a> {
    Plain,
    /// Without duplicates; the order does not count.
    Set,
    /// Objects by the values of these fields; the order does not count.
    Map(&'a [Text]),
}

/// A map. Keys that are equal numbers are the same key.
#[derive(Clone, Debug, Default)]
pub struct Map<'a> {
    entries: BTreeMap<Key, (Value<'a>, Value<'a>)>,
}

/// A key as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Number(i128),
    String(Arc<str>),
}

/// A value with fields; those that are not set are absent.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    pub name: Arc<str>,
    pub fields: BTreeMap<Arc<str>, Value<'a>>,
}

impl<'a> Value<'a> {
    pub fn string(text: &str) -> Value<'static> {
        Value::String(text.into())
    }

    pub fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List { items: Arc::new(items), kind: ListKind::Plain })
    }

    pub fn map(entries: Map<'a>) -> Value<'a> {
        Value::Map(Arc::new(entries))
    }

    pub fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// A part of an object without a schema.
    pub fn from_data(data: &Data) -> Value<'static> {
        match data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Int(value) => Value::Int(*value),
            Data::Float(value) => Value::Double(*value),
            Data::String(text) => Value::string(text),
            Data::Array(items) => Value::<'static>::list(items.iter().map(Value::from_data).collect()),
            Data::Object(map) => {
                let entries = map.iter().map(|(key, value)| (Value::string(key), Value::from_data(value)));
                Value::map(entries.collect())
            }
            Data::Written(text) => json::parse(text.as_bytes()).map_or(Value::Null, |data| Value::from_data(&data)),
        }
    }

    /// The list that it is, with its items.
    pub(crate) fn as_list(&self) -> Option<Cow<'_, List<'a>>> {
        match self {
            Value::List(list) => Some(Cow::Borrowed(list)),
            Value::View(view) if view.is_list() => view.list().ok().map(Cow::Owned),
            _ => None,
        }
    }

    /// The type that the value has when it is evaluated.
    pub fn type_of(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Object(object) => Type::Object(object.name.clone()),
            Value::View(view) => view.type_of(),
            Value::Timestamp(_) => Type::Timestamp,
            Value::Duration(_) => Type::Duration,
            Value::Type(_) => Type::Type(None),
            Value::Optional(_) => Type::opaque("optional_type"),
            Value::Quantity(_) => Type::object("kubernetes.Quantity"),
            Value::Url(_) => Type::object("kubernetes.URL"),
            Value::Ip(_) => Type::opaque("net.IP"),
            Value::Cidr(_) => Type::opaque("net.CIDR"),
            Value::Semver(_) => Type::object("kubernetes.Semver"),
            Value::Format(_) => Type::object("kubernetes.NamedFormat"),
            Value::Authorization(value) => Type::object(value.type_name()),
        }
    }

    /// How many parts it has, for those that have any: letters, bytes, elements, entries.
    pub fn size(&self) -> Option<usize> {
        match self {
            Value::String(text) => Some(text.chars().count()),
            Value::Bytes(bytes) => Some(bytes.len()),
            Value::List(list) => Some(list.items.len()),
            Value::Map(map) => Some(map.len()),
            Value::View(view) => Some(view.len()),
            _ => None,
        }
    }

    /// Whether it is the zero value of its type.
    pub fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Int(value) => *value == 0,
            Value::Uint(value) => *value == 0,
            Value::Double(value) => *value == 0.0,
            Value::Duration(nanos) => *nanos == 0,
            Value::Optional(inner) => inner.as_ref().is_none_or(|inner| inner.is_zero()),
            Value::Object(object) => object.fields.is_empty(),
            // Upstream's views have no zero value.
            Value::View(_) => false,
            other => other.size() == Some(0),
        }
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        self.entries.get(&Key::of(key)?).map(|(_, value)| value)
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Value<'a>, &Value<'a>)> {
        self.entries.values().map(|(key, value)| (key, value))
    }

    /// Sets the value of the key; false where the value can be no key.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> bool {
        match Key::of(&key) {
            Some(compared) => {
                self.entries.insert(compared, (key, value));
                true
            }
            None => false,
        }
    }
}

impl<'a> FromIterator<(Value<'a>, Value<'a>)> for Map<'a> {
    fn from_iter<I: IntoIterator<Item = (Value<'a>, Value<'a>)>>(entries: I) -> Self {
        let mut map = Map::default();
        entries.into_iter().for_each(|(key, value)| {
            map.insert(key, value);
        });
        map
    }
}

impl Key {
    fn of(value: &Value<'_>) -> Option<Key> {
        match value {
            Value::Bool(value) => Some(Key::Bool(*value)),
            Value::Int(value) => Some(Key::Number(i128::from(*value))),
            Value::Uint(value) => Some(Key::Number(i128::from(*value))),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 1e20 => Some(Key::Number(*value as i128)),
            Value::String(text) => Some(Key::String(text.clone())),
            _ => None,
        }
    }
}
