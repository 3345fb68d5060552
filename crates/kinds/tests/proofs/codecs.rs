//! What is written reads back the same, in every format.

use rkube_kinds::Kind;
use rkube_machinery::{Map, Value, decode, json, protobuf, yaml};

use crate::property::{Verdict, for_every_kind, same};
use crate::{generator, road};

#[test]
fn json_and_yaml_read_back() {
    for_every_kind(
        "reading back",
        4,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| {
            let value = canonical(kind, &objects[0])?;
            let text = json::to_string(&value);
            let again = json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
            let again = canonical(kind, &again)?;
            same("JSON", &value, &again)?;
            if json::to_string(&again) != text {
                return Err(format!("fields change places: {text}"));
            }
            let written = yaml::write(&value);
            let again = yaml::parse(written.as_bytes()).map_err(|error| error.to_string())?;
            same("YAML", &value, &again)
        },
    );
}

#[test]
fn edited_objects_are_written_in_canonical_form() {
    for_every_kind(
        "writing without completing",
        5,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| {
            let schema = kind.schema.table().unwrap();
            let mut edited = road::decoded(kind, objects[0].clone())?;
            kind.rules.default(&mut edited);
            edited.object_mut("metadata").set("name", "set last");
            edited.set("unheardOf", 1);
            let mut written = Vec::new();
            decode::write_struct(&edited, schema, &mut written);
            decode::complete(&mut edited, schema);
            let (expected, found) = (json::to_string(&edited), String::from_utf8_lossy(&written));
            if expected == found { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
        },
    );
}

#[test]
fn changes_are_completed_as_all_else_is() {
    for_every_kind(
        "completing what differs",
        5,
        |random, kind| {
            let old = generator::any(random, kind);
            let new = generator::changed_again(random, kind, old.clone());
            vec![old, new]
        },
        |kind, objects| {
            let schema = kind.schema.table().unwrap();
            let old = canonical(kind, &objects[0])?;
            let Ok(mut edited) = road::decoded(kind, objects[1].clone()) else { return Ok(()) };
            kind.rules.default(&mut edited);
            edited.set("unheardOf", 1);
            let mut expected = edited.clone();
            decode::complete(&mut expected, schema);
            decode::complete_beside(&mut edited, &old, schema, None);
            let (expected, found) = (json::to_string(&expected), json::to_string(&edited));
            if expected == found { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
        },
    );
}

#[test]
fn json_to_protobuf_and_back_is_the_same() {
    for_every_kind(
        "JSON to protobuf to JSON",
        5,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| {
            let mut value = canonical(kind, &objects[0])?;
            decode::settle(&mut value, kind.schema.table().unwrap());
            let back = transcoded(kind, &encoded(kind, &value))?;
            same("from protobuf", &without_nulls(&value), &without_nulls(&back))
        },
    );
}

#[test]
fn protobuf_to_json_and_back_is_the_same() {
    for_every_kind(
        "protobuf to JSON to protobuf",
        5,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| {
            let bytes = encoded(kind, &canonical(kind, &objects[0])?);
            let text = json::to_string(&transcoded(kind, &bytes)?);
            let parsed = json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
            match encoded(kind, &canonical(kind, &parsed)?) == bytes {
                true => Ok(()),
                false => Err(format!("other bytes for {text}")),
            }
        },
    );
}

/// The object in its canonical form.
pub fn canonical(kind: &Kind, document: &Value) -> Result<Value, String> {
    let mut value = road::decoded(kind, document.clone())?;
    decode::complete(&mut value, kind.schema.table().unwrap());
    Ok(value)
}

fn encoded(kind: &Kind, value: &Value) -> Vec<u8> {
    protobuf::encode(value, kind.schema.table().unwrap(), &kind.api_version(), &kind.kind)
}

fn transcoded(kind: &Kind, bytes: &[u8]) -> Result<Value, String> {
    let raw = protobuf::decode_object(bytes).map_err(|error| error.to_string())?;
    canonical(kind, &raw)
}

/// Go writes nil lists and zero times that it does not leave out as null; on the wire they are nothing.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, item)| !item.is_null());
            Value::Object(Map::in_order(kept.map(|(key, item)| (key.clone(), without_nulls(item))).collect()))
        }
        other => other.clone(),
    }
}

#[test]
fn verdicts_see_differences() -> Verdict {
    let left = json::parse(br#"{"a":[1]}"#).unwrap();
    let right = json::parse(br#"{"a":[2]}"#).unwrap();
    assert_eq!(same("x", &left, &right), Err("x: at .a[0]: expected 1, found 2".to_owned()));
    same("x", &left, &left.clone())
}
