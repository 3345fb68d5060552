//! Properties that hold for all documents: what is written reads back the same, and canonical forms stay.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rkube_machinery::decode::{complete, decode};
use rkube_machinery::schema::{Shape, Type, TypeRef};
use rkube_machinery::{Map, Text, Value, json, yaml};

fn text() -> impl Strategy<Value = Text> {
    prop_oneof!["[a-z]{0,6}", "\\PC{0,30}", "[ -~\\n\\t]{0,40}", "(yes|no|null|1|01|1e3|0x1|2020-01-01|- a|a: b|~)"]
        .prop_filter("written plain, although it reads as a merge key", |text| text != "<<")
        .prop_map(Text::from)
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e9..1e9f64)
            .prop_map(|number| Value::Float(number + 0.5))
            .prop_filter("not whole", |value| { matches!(value, Value::Float(number) if number.fract() != 0.0) }),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((text(), inner), 0..6).prop_map(|entries| Value::Object(Map::sorted(entries))),
        ]
    })
}

/// A document of roughly the right shape, with a wrong part here and there.
fn fitting(kind: &'static Type, choices: &mut dyn Iterator<Item = u8>, depth: usize) -> Value {
    let mut entries = Vec::new();
    for field in kind.json_fields() {
        let choice = choices.next().unwrap_or(0);
        if choice.is_multiple_of(3) || depth > 4 {
            continue;
        }
        entries.push((Text::new(field.name), of_shape(&field.shape, choices, depth)));
    }
    let middle = usize::from(choices.next().unwrap_or(0)) % entries.len().max(1);
    entries.rotate_left(middle);
    Value::Object(Map::in_order(entries))
}

fn of_shape(shape: &Shape, choices: &mut dyn Iterator<Item = u8>, depth: usize) -> Value {
    let choice = choices.next().unwrap_or(0);
    if choice.is_multiple_of(11) {
        return Value::Null;
    }
    match shape {
        Shape::String => Value::from(if choice.is_multiple_of(2) { "" } else { "x" }),
        Shape::Bool | Shape::SchemaOrBool => Value::Bool(choice.is_multiple_of(2)),
        Shape::Int32 | Shape::Int64 => Value::Int(i64::from(choice % 3)),
        Shape::Double => Value::Float(0.5),
        Shape::Bytes => Value::from("aGk="),
        Shape::Time => Value::from("2020-01-01T01:00:00+01:00"),
        Shape::MicroTime => Value::from("2020-01-01T00:00:00.000001Z"),
        Shape::Duration => Value::from("90s"),
        Shape::Quantity => Value::from(["1024Ki", "0.5", "1500m", "0"][usize::from(choice % 4)]),
        Shape::IntOrString => [Value::Int(1), Value::from("50%")][usize::from(choice % 2)].clone(),
        Shape::FieldsV1 | Shape::RawExtension | Shape::Json => json::parse(br#"{"b":1,"a":[]}"#).unwrap(),
        Shape::SchemaOrArray | Shape::SchemaOrStrings => Value::Array(Vec::new()),
        Shape::WrappedStrings => Value::Array(vec![Value::Null, Value::from("x")]),
        Shape::Struct(kind) => fitting(kind.get(), choices, depth + 1),
        Shape::List(item) => Value::Array((0..choice % 3).map(|_| of_shape(item, choices, depth + 1)).collect()),
        Shape::Map(item) => {
            let entries = (0..choice % 3).map(|index| (format!("k{}", 9 - index), of_shape(item, choices, depth + 1)));
            Value::Object(entries.collect())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_reads_back(value in document()) {
        prop_assert_eq!(json::parse(json::to_string(&value).as_bytes()), Ok(value.clone()));
        let mut pretty = Vec::new();
        json::write_pretty(&value, &mut pretty);
        prop_assert_eq!(json::parse(&pretty), Ok(value));
    }

    #[test]
    fn yaml_reads_back(value in document()) {
        let text = yaml::write(&value);
        prop_assert_eq!(yaml::parse(text.as_bytes()), Ok(value), "{}", text);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60), text in "[\\[\\]{}\":,0-9a-f&*|> \\n-]{0,40}") {
        let _ = json::parse(&bytes);
        let _ = json::parse(text.as_bytes());
        let _ = yaml::parse(&bytes);
        let _ = yaml::parse(text.as_bytes());
    }

    #[test]
    fn canonical_forms_stay(pick in any::<prop::sample::Index>(), choices in prop::collection::vec(any::<u8>(), 0..300)) {
        let kinds: Vec<TypeRef> = TypeRef::all().collect();
        let kind = pick.get(&kinds).get();
        let raw = fitting(kind, &mut choices.into_iter(), 0);
        if let Ok(once) = decode(raw, kind) {
            prop_assert!(once.strict.is_empty());
            let mut once = once.value;
            complete(&mut once, kind);
            let again = decode(once.clone(), kind).unwrap().value;
            prop_assert_eq!(json::to_string(&again), json::to_string(&once));
            let mut completed = once.clone();
            complete(&mut completed, kind);
            prop_assert_eq!(json::to_string(&completed), json::to_string(&once));
            // Whatever the order in which fields were set.
            let mut mixed = reversed(once.clone());
            complete(&mut mixed, kind);
            prop_assert_eq!(mixed, once);
        }
    }
}

/// The same value with its top-level fields in reverse.
fn reversed(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(Map::in_order(map.into_entries().into_iter().rev().collect())),
        other => other,
    }
}
