//! Data of objects as expressions see it through a structural schema.
//!
//! Texts and numbers become values when they are read; a list, a map or an object becomes a [`View`], which is two
//! references and is looked into only as far as the expression looks. So evaluating a rule costs what the rule reads,
//! not what the object holds.

mod formats;
pub mod names;
pub mod resource;

use rkube_machinery::Value as Data;
use rkube_machinery::schema::ListType;
use rkube_machinery::schema::structural::{JsonType, Structural};

use crate::equality::{equal, try_equal};
use crate::functions::{EvalError, Outcome, failed, no_overload};
use crate::types::Type;
use crate::value::{List, ListKind, Map, Value};

/// A list, a map or an object with its schema.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    data: &'a Data,
    schema: &'a Structural,
    is_resource: bool,
}

impl<'a> Value<'a> {
    /// What the data is by its schema. `is_resource` says that it is a resource of its own; those that the schema says
    /// to be embedded are known.
    pub fn typed(data: &'a Data, schema: &'a Structural, is_resource: bool) -> Outcome<'a> {
        if data.is_null() {
            return match schema.nullable {
                true => Ok(Value::Null),
                false => failed("invalid data, got null for schema with nullable=false"),
            };
        }
        if schema.extensions.int_or_string {
            return match data {
                Data::String(text) => Ok(Value::String(text.clone().into())),
                Data::Int(number) => Ok(Value::Int(*number)),
                _ => failed("invalid data, expected XIntOrString value to be either a string or integer"),
            };
        }
        let view =
            || Value::View(View { data, schema, is_resource: is_resource || schema.extensions.embedded_resource });
        let unexpected = |wanted: &str| failed(format!("invalid data, expected {wanted}, got {}", go_type(data)));
        match (schema.json_type, data) {
            (JsonType::Object, Data::Object(_)) => Ok(view()),
            (JsonType::Object, _) => failed("invalid data, expected a map for the provided schema with type=object"),
            (JsonType::Array, Data::Array(_)) if schema.items.is_none() => {
                failed("invalid array type, expected Items with a non-empty Schema")
            }
            (JsonType::Array, Data::Array(_)) => Ok(view()),
            (JsonType::Array, _) => failed("invalid data, expected an array for the provided schema with type=array"),
            (JsonType::String, Data::String(text)) => match &schema.validation {
                Some(validation) => formats::value(&validation.format, text),
                None => Ok(Value::String(text.clone().into())),
            },
            (JsonType::String, _) => unexpected("string"),
            (JsonType::Number, Data::Int(number)) => Ok(Value::Double(*number as f64)),
            (JsonType::Number, Data::Float(number)) => Ok(Value::Double(*number)),
            (JsonType::Number, _) => unexpected("float"),
            (JsonType::Integer, Data::Int(number)) => Ok(Value::Int(*number)),
            (JsonType::Integer, _) => unexpected("int"),
            (JsonType::Boolean, Data::Bool(value)) => Ok(Value::Bool(*value)),
            (JsonType::Boolean, _) => unexpected("bool"),
            (JsonType::Any, _) if schema.extensions.preserve_unknown_fields => Ok(view()),
            (JsonType::Any, _) => failed(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with \
                 x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got ",
            ),
        }
    }
}

impl<'a> View<'a> {
    pub fn len(&self) -> usize {
        match self.data {
            Data::Array(items) => items.len(),
            Data::Object(map) => map.len(),
            _ => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn type_of(&self) -> Type {
        match self.schema.json_type {
            JsonType::Object => Type::map(Type::Dyn, Type::Dyn),
            JsonType::Array => Type::list(Type::Dyn),
            _ => Type::opaque("unknown"),
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        self.schema.json_type == JsonType::Array
    }

    pub(crate) fn is_map(&self) -> bool {
        self.schema.json_type == JsonType::Object
    }

    /// The item of a list.
    pub(crate) fn item(&self, index: usize) -> Option<Outcome<'a>> {
        let (Data::Array(items), Some(schema)) = (self.data, &self.schema.items) else { return None };
        items.get(index).map(|item| Value::typed(item, schema, false))
    }

    /// What is at this key of a map, or in the field of this name, as an expression writes it.
    pub(crate) fn find(&self, key: &str) -> Result<Option<Value<'a>>, EvalError> {
        let Data::Object(map) = self.data else { return Ok(None) };
        if !self.has_fields() {
            return self.entry(key, map.get(key));
        }
        match names::unescape(key) {
            // A field that is null is the same as one that is absent.
            Some(name) => self.entry(&name, map.get(&name).filter(|data| !data.is_null())),
            None => Ok(None),
        }
    }

    fn entry(&self, name: &str, data: Option<&'a Data>) -> Result<Option<Value<'a>>, EvalError> {
        let Some((data, schema)) = data.and_then(|data| Some((data, self.schema_of(name)?))) else { return Ok(None) };
        Value::typed(data, schema, false).map(Some)
    }

    /// Keys as expressions write them, with their values. What the schema does not know is not there.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Value<'static>, Outcome<'a>)> + use<'a> {
        let view = *self;
        let entries = match self.data {
            Data::Object(map) => Some(map.iter()),
            _ => None,
        };
        entries.into_iter().flatten().filter_map(move |(name, data)| {
            let schema = view.schema_of(name)?;
            let key = if view.has_fields() { names::escape(name) } else { None };
            let key = key.map_or_else(|| Value::String(name.clone().into()), |key| Value::string(&key));
            Some((key, Value::typed(data, schema, false)))
        })
    }

    /// The list with its items, the map with its entries, one level deep.
    pub(crate) fn opened(&self) -> Outcome<'a> {
        match self.schema.json_type {
            JsonType::Array => self.list().map(Value::List),
            JsonType::Object => {
                let mut entries = Map::default();
                for (key, value) in self.entries() {
                    entries.insert(key, value?);
                }
                Ok(Value::map(entries))
            }
            _ => Ok(Value::View(*self)),
        }
    }

    pub(crate) fn list(&self) -> Result<List<'a>, EvalError> {
        let mut items = Vec::with_capacity(self.len());
        for index in 0..self.len() {
            items.extend(self.item(index).transpose()?);
        }
        let kind = match self.schema.extensions.list_type {
            Some(ListType::Set) => ListKind::Set,
            Some(ListType::Map) => ListKind::Map(&self.schema.extensions.list_map_keys),
            _ => ListKind::Plain,
        };
        Ok(List { items: items.into(), kind })
    }

    /// Whether an item of the list, or a key of the map, equals this.
    pub(crate) fn contains(&self, item: &Value<'_>) -> Outcome<'a> {
        if self.is_map() {
            return match item {
                Value::String(key) => self.find(key).map(|found| Value::Bool(found.is_some())),
                _ => no_overload(),
            };
        }
        let mut error = None;
        for index in 0..self.len() {
            match self.item(index).map(|known| known.and_then(|known| try_equal(&known, item))) {
                Some(Ok(true)) => return Ok(Value::Bool(true)),
                Some(Err(wrong)) => error = error.or(Some(wrong)),
                _ => {}
            }
        }
        error.map_or(Ok(Value::Bool(false)), Err)
    }

    /// Whether the other map or object has equal entries. Of what the schema does not know it need only have none that
    /// differ.
    pub(crate) fn equals_map(&self, other: &Value<'_>) -> bool {
        let Data::Object(map) = self.data else { return false };
        if other.size() != Some(map.len()) {
            return false;
        }
        map.iter().all(|(name, data)| {
            if self.schema_of(name).is_none() {
                let Value::View(View { data: Data::Object(unknown), .. }) = other else { return false };
                return unknown.get(name).is_none_or(|other| other == data);
            }
            let theirs = match other {
                Value::View(view) => view.find(name),
                Value::Map(map) => Ok(map.get(&Value::String(name.clone().into())).cloned()),
                _ => return false,
            };
            match (self.find(name), theirs) {
                (Ok(Some(one)), Ok(Some(other))) => equal(&one, &other),
                (Ok(None), Ok(None)) => true,
                _ => false,
            }
        })
    }

    /// Whether two values of which no type is known are the same data.
    pub(crate) fn equals_data(&self, other: &View<'_>) -> bool {
        self.data == other.data
    }

    fn has_fields(&self) -> bool {
        self.is_resource || !self.schema.properties.is_empty()
    }

    fn schema_of(&self, name: &str) -> Option<&'a Structural> {
        if self.has_fields() {
            return resource::property(self.schema, self.is_resource, name);
        }
        self.schema.map_values()
    }
}

/// The type as Go prints it.
fn go_type(data: &Data) -> &'static str {
    match data {
        Data::Null => "<nil>",
        Data::Bool(_) => "bool",
        Data::Int(_) => "int64",
        Data::Float(_) => "float64",
        Data::String(_) => "string",
        Data::Array(_) => "[]interface {}",
        Data::Object(_) | Data::Written(_) => "map[string]interface {}",
    }
}
