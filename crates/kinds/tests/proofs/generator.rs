//! Makes objects of any kind from a seed: of the right shape from the schema table alone; near valid ones by changing an
//! example; and broken ones.

use rkube_kinds::Kind;
use rkube_machinery::schema::{Field, Shape, Type, TypeRef};
use rkube_machinery::{Map, Text, Value, object};

use crate::{examples, words};

/// Structs deeper than this stay empty.
const DEPTH_MAX: usize = 7;

/// A small seeded generator of numbers (xorshift).
pub struct Random(u64);

impl Random {
    /// Of the same names and seed always the same.
    pub fn new(names: &[&str], seed: u64) -> Self {
        let bytes = names.iter().flat_map(|name| name.bytes()).chain(seed.to_le_bytes());
        let hash =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Random(hash | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound.max(1)
    }

    pub fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// An object of the right shape: known fields, right types, texts that make sense. Few are valid.
pub fn shaped(random: &mut Random, kind: &'static Kind) -> Value {
    let mut value = structure(random, kind.schema.table().unwrap(), 0);
    value.set("apiVersion", kind.api_version());
    value.set("kind", kind.kind.clone());
    value
}

/// An example with a few places changed: often still valid.
pub fn changed(random: &mut Random, kind: &'static Kind) -> Value {
    let examples = examples::of(kind);
    let example = random.pick(&examples).document.clone();
    let mut value = changed_again(random, kind, example);
    value.set("apiVersion", kind.api_version());
    value.set("kind", kind.kind.clone());
    value
}

/// The object with a few more places changed.
pub fn changed_again(random: &mut Random, kind: &'static Kind, mut value: Value) -> Value {
    for _ in 0..=random.below(4) {
        change(random, &mut value, kind.schema.table().unwrap());
    }
    value
}

/// One or the other.
pub fn any(random: &mut Random, kind: &'static Kind) -> Value {
    if random.one_in(3) { shaped(random, kind) } else { changed(random, kind) }
}

/// A changed example with a wrong type, an unknown field or a bad text in it.
pub fn broken(random: &mut Random, kind: &'static Kind) -> Value {
    let mut value = changed(random, kind);
    for _ in 0..=random.below(3) {
        damage(random, &mut value);
    }
    value
}

fn structure(random: &mut Random, schema: &'static Type, depth: usize) -> Value {
    let mut entries = Vec::new();
    let chance = if depth == 0 { 1 } else { 2 + depth };
    for field in schema.json_fields().filter(|field| is_wanted(field)) {
        if field.required || random.one_in(chance) {
            entries.push((Text::new_static(field.name), of_field(random, field, depth)));
        }
    }
    Value::Object(Map::in_order(entries))
}

/// What is only in one of the codecs, and what the server writes, is left out.
fn is_wanted(field: &Field) -> bool {
    field.number != 0
        && !matches!(field.name, "managedFields" | "resourceVersion" | "generation" | "selfLink" | "deletionTimestamp")
}

fn of_field(random: &mut Random, field: &'static Field, depth: usize) -> Value {
    let value = of_shape(random, &field.shape, field.name, depth);
    match value {
        Value::Array(items) if field.is_associative() => Value::Array(distinct(items, field.list_keys)),
        value => value,
    }
}

fn of_shape(random: &mut Random, shape: &Shape, name: &str, depth: usize) -> Value {
    match shape {
        Shape::String => {
            let words = words::for_field(name);
            Value::from(*random.pick(&words))
        }
        Shape::Bool => Value::Bool(random.one_in(2)),
        Shape::Int32 => {
            Value::Int(*random.pick(&[0, 1, 2, 80, 443, 3600, -1, i64::from(i32::MAX), i64::from(i32::MIN)]))
        }
        Shape::Int64 => Value::Int(*random.pick(&[0, 1, 2, 30, 1000, -1, i64::MAX, i64::MIN])),
        Shape::Double => Value::Float(*random.pick(&[0.5, 1.25, -3.0])),
        Shape::Bytes => Value::from(*random.pick(&["AA==", "aGVsbG8=", "/////w=="])),
        Shape::Time => {
            Value::from(*random.pick(&["1970-01-01T00:00:01Z", "2024-02-29T12:00:01Z", "2024-02-29T13:00:01+01:00"]))
        }
        Shape::MicroTime => Value::from(*random.pick(&["2024-02-29T12:00:01.000123Z", "1970-01-01T00:00:01.000000Z"])),
        Shape::Duration => Value::from(*random.pick(&["0s", "1m30s", "90s"])),
        Shape::Quantity => Value::from(*random.pick(&["1", "100m", "1Gi", "0.5", "2k", "1024Ki", "0"])),
        Shape::IntOrString => {
            random.pick(&[Value::Int(0), Value::Int(80), Value::from("50%"), Value::from("http")]).clone()
        }
        Shape::FieldsV1 | Shape::Json | Shape::RawExtension => {
            object! { "a": 1, "list": vec![Value::Int(1), Value::from("x")], "nested": object! { "b": true } }
        }
        Shape::WrappedStrings => Value::Array(vec![Value::from("a"), Value::from("b")]),
        Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings => Value::Null,
        Shape::Struct(_) if depth >= DEPTH_MAX => Value::object(),
        Shape::Struct(schema) => structure(random, schema.get(), depth + 1),
        Shape::List(item) => {
            Value::Array((0..1 + random.below(2)).map(|_| of_shape(random, item, name, depth + 1)).collect())
        }
        Shape::Map(item) => {
            let keys = words::keys_for(name);
            let entries = (0..1 + random.below(2))
                .map(|_| (Text::new(*random.pick(keys)), of_shape(random, item, name, depth + 1)));
            Value::Object(Map::sorted(entries.collect::<Vec<_>>()))
        }
    }
}

/// Items with an identity of their own.
fn distinct(items: Vec<Value>, keys: &[&str]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        let same = |other: &Value| match keys.is_empty() {
            true => *other == item,
            false => keys.iter().all(|key| other.get(key) == item.get(key)),
        };
        if !kept.iter().any(same) {
            kept.push(item);
        }
    }
    kept
}

/// Changes one place of a struct: sets a field, takes one away, or goes deeper.
fn change(random: &mut Random, value: &mut Value, schema: &'static Type) {
    let fields: Vec<&'static Field> = schema.json_fields().filter(|field| is_wanted(field)).collect();
    if fields.is_empty() || !matches!(value, Value::Object(_)) {
        return;
    }
    let present: Vec<&'static Field> = fields.iter().copied().filter(|field| value.has(field.name)).collect();
    if present.is_empty() || random.one_in(5) {
        let field = *random.pick(&fields);
        if field.name != "metadata" {
            value.set(field.name, of_field(random, field, 3));
        }
        return;
    }
    let field = *random.pick(&present);
    if random.one_in(12) && field.name != "metadata" && field.name != "name" {
        value.remove(field.name);
        return;
    }
    change_field(random, value, field);
}

fn change_field(random: &mut Random, parent: &mut Value, field: &'static Field) {
    match (&field.shape, parent.get_mut(field.name)) {
        (Shape::Struct(schema), child) => change(random, child, schema.get()),
        (Shape::List(Shape::Struct(schema)), Value::Array(items)) if !items.is_empty() => {
            change_items(random, items, schema, field);
        }
        (Shape::Map(item), Value::Object(map)) => {
            let key = *random.pick(words::keys_for(field.name));
            match random.one_in(4) {
                true => drop(map.remove(key)),
                false => map.insert(key, of_shape(random, item, field.name, 3)),
            }
        }
        // The name says which object it is.
        (Shape::String, _) if field.name == "name" || field.name == "namespace" => {}
        (_, child) => *child = of_field(random, field, 3),
    }
}

fn change_items(random: &mut Random, items: &mut Vec<Value>, schema: &TypeRef, field: &'static Field) {
    let index = random.below(items.len());
    match random.below(6) {
        0 => items.push(structure(random, schema.get(), 3)),
        1 if items.len() > 1 => drop(items.remove(index)),
        2 => items.rotate_left(index),
        _ => change(random, &mut items[index], schema.get()),
    }
    if field.is_associative() {
        *items = distinct(std::mem::take(items), field.list_keys);
    }
}

const BAD: &[&str] =
    &["", "Bad_Value!", "-1", "UPPER", "a/b/c", " ", "..", "1e3", "0.5m", "99999999999999999999", "$(x"];

/// Breaks one place, whatever the schema says.
fn damage(random: &mut Random, value: &mut Value) {
    match value {
        Value::Object(map) if !map.is_empty() && !random.one_in(8) => {
            let index = random.below(map.len());
            if let Some((key, child)) = map.iter_mut().nth(index)
                && !matches!(key.as_str(), "apiVersion" | "kind")
            {
                damage(random, child);
            }
        }
        Value::Object(map) if random.one_in(2) => map.insert("unknownField", 1),
        Value::Array(items) if !items.is_empty() && !random.one_in(6) => {
            let index = random.below(items.len());
            match random.below(6) {
                0 => items.push(items[index].clone()),
                _ => damage(random, &mut items[index]),
            }
        }
        Value::String(_) if !random.one_in(5) => {
            *value = match random.one_in(10) {
                true => Value::from("x".repeat(300)),
                false => Value::from(*random.pick(BAD)),
            }
        }
        Value::Int(_) if !random.one_in(5) => {
            *value = Value::Int(*random.pick(&[0, -1, 70_000, 99_999_999_999, i64::MIN]))
        }
        other => {
            let wrong = [
                Value::Null,
                Value::from("x"),
                Value::Int(7),
                Value::Bool(true),
                Value::Array(vec![]),
                Value::object(),
            ];
            *other = random.pick(&wrong).clone();
        }
    }
}
