//! A structural schema as the types of expressions, and how large values of it can be.
//!
//! Nothing is built: the types of a schema are read off it as the checker asks for them. A type with fields has the
//! path to it as its name.

use rkube_cel::{Range, Sizes, Type, Types, escape, is_reserved, resource, unescape};
use rkube_machinery::schema::structural::{AdditionalProperties, JsonType, Structural};

/// The largest request, in bytes: what no schema bounds can be as large as this.
pub const REQUEST_MAX_BYTES: i64 = 3 * 1024 * 1024;
/// The name under which the type of `self` is known. It is no promise; upstream numbers it anew each time.
pub const SELF_TYPE: &str = "selfType0";

/// The longest text of a duration, and of a time.
const TIME_MAX_BYTES: i64 = 32;
const TIME_MIN_BYTES: i64 = 21;
const DATE_BYTES: i64 = 12;
const DURATION_MIN_BYTES: i64 = 3;

/// A position of a schema as expressions know it.
#[derive(Clone, Copy, Debug)]
pub struct Declared<'a> {
    pub schema: &'a Structural,
    /// Whether it is a resource of its own, with a name and a kind.
    pub is_resource: bool,
}

impl<'a> Declared<'a> {
    pub fn new(schema: &'a Structural, is_resource: bool) -> Self {
        Declared { schema, is_resource }
    }

    fn inner(schema: &'a Structural) -> Self {
        Declared { schema, is_resource: schema.extensions.embedded_resource }
    }

    /// The type, with this name where it has fields; none where expressions cannot speak of it.
    pub fn type_named(self, name: &str) -> Option<Type> {
        if self.schema.extensions.int_or_string {
            return Some(Type::Dyn);
        }
        Some(match self.schema.json_type {
            JsonType::Any => return None,
            JsonType::Array => Type::list(self.items()?.type_named(&format!("{name}.@idx"))?),
            JsonType::Object => match &self.schema.additional_properties {
                AdditionalProperties::Schema(values) => {
                    Type::map(Type::String, Declared::inner(values).type_named(&format!("{name}.@elem"))?)
                }
                _ => Type::object(name),
            },
            JsonType::String => match self.format() {
                "byte" => Type::Bytes,
                "duration" => Type::Duration,
                "date" | "date-time" => Type::Timestamp,
                _ => Type::String,
            },
            JsonType::Boolean => Type::Bool,
            JsonType::Number => Type::Double,
            JsonType::Integer => Type::Int,
        })
    }

    pub fn is_exposed(self) -> bool {
        if self.schema.extensions.int_or_string {
            return true;
        }
        match self.schema.json_type {
            JsonType::Any => false,
            JsonType::Array => self.items().is_some_and(Declared::is_exposed),
            JsonType::Object => self.schema.map_values().is_none_or(|values| Declared::inner(values).is_exposed()),
            _ => true,
        }
    }

    /// The field that expressions call by this identifier.
    pub fn field(self, identifier: &str) -> Option<Declared<'a>> {
        if self.schema.json_type != JsonType::Object || self.schema.map_values().is_some() {
            return None;
        }
        let name = unescape(identifier)?;
        let schema = resource::property(self.schema, self.is_resource, &name)?;
        let is_written_so = escape(&name).is_some_and(|escaped| escaped == identifier);
        Some(Declared::inner(schema)).filter(|field| is_written_so && field.is_exposed())
    }

    pub fn items(self) -> Option<Declared<'a>> {
        let items = self.schema.items.as_deref().filter(|_| self.schema.json_type == JsonType::Array);
        items.map(Declared::inner)
    }

    pub fn values(self) -> Option<Declared<'a>> {
        let values = self.schema.map_values().filter(|_| self.schema.json_type == JsonType::Object);
        values.map(Declared::inner)
    }

    /// How often data of this kind fits into a request.
    pub fn cardinality_max(self) -> u64 {
        (REQUEST_MAX_BYTES / (self.size_min() + 1)) as u64
    }

    /// How many bytes the shortest JSON of it has.
    fn size_min(self) -> i64 {
        if self.schema.extensions.int_or_string {
            return 1;
        }
        match self.schema.json_type {
            JsonType::Object if self.schema.map_values().is_none() => 2 + self.required_size(),
            JsonType::Any | JsonType::Object | JsonType::Array => 2,
            JsonType::String => match self.format() {
                "duration" => DURATION_MIN_BYTES,
                "date" => DATE_BYTES,
                "date-time" => TIME_MIN_BYTES,
                _ => 2,
            },
            JsonType::Boolean => 4,
            JsonType::Number | JsonType::Integer => 1,
        }
    }

    /// What the fields that must be given take at least. Those with a default are filled in by the server.
    fn required_size(self) -> i64 {
        let Some(validation) = &self.schema.validation else { return 0 };
        let mut names: Vec<&str> = validation.required.iter().map(|name| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let fields = names.into_iter().filter_map(|name| {
            let schema = resource::property(self.schema, self.is_resource, name)?;
            let field = Some(Declared::inner(schema)).filter(|field| schema.default.is_none() && field.is_exposed())?;
            Some(name.len() as i64 + field.size_min() + 4)
        });
        fields.sum()
    }

    /// How many letters, items or entries it can have.
    fn elements_max(self) -> i64 {
        let validation = self.schema.validation.as_deref();
        let length = validation.and_then(|validation| validation.max_length).map(|length| length.max(0));
        // A letter takes up to four bytes.
        let bytes = |length: i64| length.wrapping_mul(4);
        if self.schema.extensions.int_or_string {
            return length.map_or(REQUEST_MAX_BYTES - 2, bytes);
        }
        match self.schema.json_type {
            JsonType::Array => {
                let said = validation.and_then(|validation| validation.max_items).map(|items| items.max(0));
                let item = self.items().map_or(0, Declared::size_min);
                said.unwrap_or((REQUEST_MAX_BYTES - 2) / (item + 1))
            }
            JsonType::Object => match self.values() {
                Some(values) => {
                    let said = validation.and_then(|validation| validation.max_properties).map(|most| most.max(0));
                    said.unwrap_or_else(|| (REQUEST_MAX_BYTES - 2) / (values.size_min() + 6))
                }
                None => 0,
            },
            JsonType::String => match (self.format(), length) {
                ("byte", Some(length)) => length,
                ("duration" | "date-time", _) => TIME_MAX_BYTES,
                ("date", _) => DATE_BYTES,
                (format, Some(length)) if format != "byte" => bytes(length),
                (format, _) => match self.longest_of_enum() {
                    Some(longest) if format != "byte" => longest,
                    _ => REQUEST_MAX_BYTES - 2,
                },
            },
            _ => 0,
        }
    }

    fn longest_of_enum(self) -> Option<i64> {
        let values = &self.schema.validation.as_deref()?.one_of_values;
        values.iter().map(|value| value.as_str().len() as i64).max()
    }

    fn format(self) -> &'a str {
        self.schema.validation.as_deref().map_or("", |validation| validation.format.as_str())
    }

    /// The position that has the type of this name.
    fn at(self, name: &str) -> Option<Declared<'a>> {
        let path = name.strip_prefix(SELF_TYPE)?;
        path.split('.').skip(1).try_fold(self, |declared, step| match step {
            "@idx" => declared.items(),
            "@elem" => declared.values(),
            field => declared.field(field),
        })
    }
}

impl Types for Declared<'_> {
    fn contains(&self, name: &str) -> bool {
        self.at(name).is_some_and(|found| matches!(found.type_named(name), Some(Type::Object(_))))
    }

    fn named(&self, name: &str) -> Option<Type> {
        match name {
            "duration" => Some(Type::Duration),
            "timestamp" => Some(Type::Timestamp),
            _ => self.contains(name).then(|| Type::object(name)),
        }
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        let object = self.at(name)?;
        if let Some(found) = object.field(field) {
            return found.type_named(&format!("{name}.{field}"));
        }
        // Words of the language may stand for themselves behind a dot.
        let escaped = Some(format!("__{field}__")).filter(|_| is_reserved(field))?;
        object.field(&escaped)?.type_named(&format!("{name}.{escaped}"))
    }
}

impl Sizes for Declared<'_> {
    /// `oldSelf` is as large as `self`: the name of the variable does not count.
    fn size(&self, path: &[String]) -> Option<Range> {
        let mut declared = *self;
        let mut steps = path.iter().skip(1).map(String::as_str);
        for step in steps.by_ref() {
            declared = match step {
                "@items" | "@values" => declared.items().or_else(|| declared.values())?,
                // Upstream takes keys for empty.
                "@keys" if declared.values().is_some() => {
                    return steps.next().is_none().then_some(Range { min: 0, max: 0 });
                }
                "@keys" => return None,
                field => declared.field(field)?,
            };
        }
        Some(Range { min: 0, max: declared.elements_max() as u64 })
    }
}
