//! Values made from the schema go to the wire and back; golden bytes; bad input; pairs made by Go, where they are at
//! hand (`RKUBE_WIRE_PAIRS` names a directory of `<group>.<version>.<Kind>.json` and `.pb`).

use std::path::Path;

use super::*;
use crate::json;
use crate::object;
use crate::schema::{Field, Shape, Type, TypeRef};
use crate::value::{Map, Text, Value};

fn find(name: &str) -> &'static Type {
    TypeRef::find(name).unwrap().get()
}

/// A small seeded generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn text(&mut self) -> String {
        ["", "a", "name-1", "ü\u{1F600}", "with \"quotes\" and \\", "x".repeat(200).as_str()][self.below(6) as usize]
            .to_owned()
    }

    /// A canonical value of a struct; deep ones stay small.
    fn object(&mut self, ty: &'static Type, depth: usize) -> Value {
        let mut entries = Vec::new();
        for field in ty.json_fields().filter(|field| field.number != 0) {
            if let Some(value) = self.field(field, depth) {
                entries.push((Text::new_static(field.name), value));
            }
        }
        Value::Object(Map::in_order(entries))
    }

    fn field(&mut self, field: &'static Field, depth: usize) -> Option<Value> {
        let chance = if depth > 3 { 12 } else { 3 };
        let wanted = self.below(chance) == 0;
        let always = !field.pointer && !matches!(field.shape, Shape::List(_) | Shape::Map(_));
        let value = match field.shape {
            Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::WrappedStrings if !wanted => return None,
            _ if field.pointer && !wanted => return None,
            _ => self.value(&field.shape, depth),
        };
        let is_struct = matches!(
            field.shape,
            Shape::Struct(_) | Shape::Quantity | Shape::IntOrString | Shape::Duration | Shape::RawExtension
        );
        if field.omit_empty && always && !is_struct && value.is_empty() && !value.is_null() {
            return None;
        }
        if matches!(field.shape, Shape::List(_) | Shape::Map(_)) && value.is_empty() {
            return None;
        }
        Some(value)
    }

    fn value(&mut self, shape: &Shape, depth: usize) -> Value {
        match shape {
            Shape::String => Value::from(self.text()),
            Shape::Bool => Value::Bool(self.below(2) == 0),
            Shape::Int32 => Value::Int([0, 1, -1, i64::from(i32::MAX), i64::from(i32::MIN)][self.below(5) as usize]),
            Shape::Int64 => Value::Int([0, 1, -1, i64::MAX, i64::MIN][self.below(5) as usize]),
            Shape::Double => json::number([0.0, 1.5, -3.25][self.below(3) as usize]),
            Shape::Bytes => Value::from(["AA==", "aGVsbG8=", "/////w=="][self.below(3) as usize]),
            Shape::Time => Value::from(["1970-01-01T00:00:00Z", "2024-02-29T12:00:01Z"][self.below(2) as usize]),
            Shape::MicroTime => Value::from("2024-02-29T12:00:01.000123Z"),
            Shape::Duration => Value::from(["0s", "1m30s"][self.below(2) as usize]),
            Shape::Quantity => Value::from(["0", "100m", "1Gi"][self.below(3) as usize]),
            Shape::IntOrString => [Value::Int(0), Value::Int(-7), Value::from("50%")][self.below(3) as usize].clone(),
            Shape::FieldsV1 | Shape::Json | Shape::RawExtension => {
                object! { "f:a": Value::object(), "list": vec![Value::Int(1), Value::Null, Value::from("x")] }
            }
            Shape::WrappedStrings => Value::Array(vec![Value::from(self.text()), Value::from("b")]),
            Shape::SchemaOrBool if self.below(2) == 0 => Value::Bool(self.below(2) == 0),
            Shape::SchemaOrArray if self.below(2) == 0 => Value::Array(vec![self.schema(depth)]),
            Shape::SchemaOrStrings if self.below(2) == 0 => Value::Array(vec![Value::from("a"), Value::from("")]),
            Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings => self.schema(depth),
            Shape::Struct(ty) => self.object(ty.get(), depth + 1),
            Shape::List(item) => (0..self.below(3)).map(|_| self.value(item, depth + 1)).collect::<Vec<_>>().into(),
            Shape::Map(item) => {
                let entries =
                    (0..self.below(4)).map(|number| (Text::from(format!("k{number}")), self.value(item, depth + 1)));
                Value::Object(Map::sorted(entries.collect()))
            }
        }
    }

    fn schema(&mut self, depth: usize) -> Value {
        if depth > 6 {
            return object! { "type": "string" };
        }
        self.object(find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"), depth + 1)
    }
}

#[test]
fn every_type_goes_there_and_back() {
    for (seed, ty) in TypeRef::all().enumerate() {
        for round in 0..4 {
            let value = Random((seed as u64 + 1) * 1_000_003 + round).object(ty.get(), 0);
            let mut bytes = Vec::new();
            encode_message(&value, ty.get(), &mut bytes);
            let back = decode_message(&bytes, ty.get()).unwrap();
            let mut again = Vec::new();
            encode_message(&back, ty.get(), &mut again);
            assert_eq!(bytes, again, "{}", ty.name);
            assert_eq!(json::to_string(&value), json::to_string(&without_zero_structs(&back, &value)), "{}", ty.name);
        }
    }
}

/// A required struct comes back from the wire even where the value did not have it; those are taken out again.
fn without_zero_structs(back: &Value, value: &Value) -> Value {
    match (back, value) {
        (Value::Object(back), Value::Object(value)) => Value::Object(Map::in_order(
            back.iter()
                .filter_map(|(key, item)| Some((key.clone(), without_zero_structs(item, value.get(key)?))))
                .collect(),
        )),
        (Value::Array(back), Value::Array(value)) => {
            back.iter().zip(value).map(|(back, value)| without_zero_structs(back, value)).collect::<Vec<_>>().into()
        }
        _ => back.clone(),
    }
}

#[test]
fn damaged_bytes_are_errors_and_never_panics() {
    let mut random = Random(42);
    let types: Vec<_> = TypeRef::all().collect();
    for round in 0..3_000 {
        let ty = types[random.below(types.len() as u64) as usize].get();
        let value = Random(round + 7).object(ty, 0);
        let mut bytes = encode(&value, ty, "v1", ty.short_name());
        for _ in 0..=random.below(4) {
            let index = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[index] = random.below(256) as u8,
                1 => bytes.truncate(index.max(1)),
                _ => bytes.insert(index, random.below(256) as u8),
            }
        }
        if let Ok(envelope) = decode(&bytes) {
            let _ = decode_message(envelope.raw, ty);
        }
    }
}

#[test]
fn golden_bytes_of_a_config_map() {
    let value = object! {
        "metadata": object! { "name": "a", "creationTimestamp": "1970-01-01T00:00:01Z" },
        "data": object! { "k": "v" },
    };
    let bytes = encode(&value, find("io.k8s.api.core.v1.ConfigMap"), "v1", "ConfigMap");
    let expected: &[&[u8]] = &[
        b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x1f",
        // name, generateName, namespace, selfLink, uid, resourceVersion, generation, creationTimestamp
        b"\x0a\x15\x0a\x01a\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x04\x08\x01\x10\x00",
        b"\x12\x06\x0a\x01k\x12\x01v",
        b"\x1a\x00\x22\x00",
    ];
    assert_eq!(bytes, expected.concat());
    let back = decode_object(&bytes).unwrap();
    assert_eq!(back.str("kind"), "ConfigMap");
    assert_eq!(back.at(&["metadata", "name"]).as_str(), "a");
    assert_eq!(back.get("data"), value.get("data"));
}

#[test]
fn errors_are_worded_as_in_go() {
    let pod = find("io.k8s.api.core.v1.Pod");
    for (bytes, text) in [
        (&b"\x00\x00"[..], "proto: Pod: illegal tag 0 (wire type 0)"),
        (b"\x0a\x05a", "unexpected EOF"),
        (b"\x0a\x02\x08\x01", "proto: wrong wireType = 0 for field Name"),
        (b"\x08\x01", "proto: wrong wireType = 0 for field ObjectMeta"),
        (b"\x0c", "proto: Pod: wiretype end group for non-group"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: negative length found during unmarshaling"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: integer overflow"),
        (b"\xfe\x7f\x01", "proto: illegal wireType 6"),
        (b"\x0a\x03\x0a\x01\xff", "proto: field Name contains invalid UTF-8"),
    ] {
        assert_eq!(decode_message(bytes, pod).unwrap_err().to_string(), text);
    }
    assert_eq!(decode(b""), Err(Error::EmptyData));
    assert_eq!(decode(b"k8s\0"), Err(Error::EmptyBody));
    assert_eq!(decode(b"{}"), Err(Error::NoMagic));
}

#[test]
fn nesting_and_pieces_are_bounded() {
    let schema = find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let not = schema.field("not").unwrap().number;
    let mut bytes = Vec::new();
    for _ in 0..DEPTH_MAX + 2 {
        let inner = std::mem::take(&mut bytes);
        wire::write_nested(not, &mut bytes, |out| out.extend_from_slice(&inner));
    }
    assert!(matches!(decode_message(&bytes, schema), Err(Error::TooDeep { .. })));

    let pod = find("io.k8s.api.core.v1.Pod");
    let merged = decode_message(b"\x0a\x03\x0a\x01a\x0a\x03\x1a\x01b", pod).unwrap();
    assert_eq!(merged.get("metadata").str("name"), "a");
    assert_eq!(merged.get("metadata").str("namespace"), "b");
    assert!(matches!(decode_message(&b"\x0a\x00".repeat(1_000), pod), Err(Error::TooManyPieces { .. })));
}

#[test]
fn objects_inside_objects_are_opened() {
    let inner =
        encode(&object! { "data": object! { "k": "v" } }, find("io.k8s.api.core.v1.ConfigMap"), "v1", "ConfigMap");
    let mut revision = Vec::new();
    wire::write_nested(2, &mut revision, |out| {
        wire::write_tag(1, WireType::Bytes, out);
        write_bytes(&inner, out);
    });
    let value = decode_message(&revision, find("io.k8s.api.apps.v1.ControllerRevision")).unwrap();
    assert_eq!(value.get("data").str("kind"), "ConfigMap");
    assert_eq!(value.at(&["data", "data", "k"]).as_str(), "v");
}

#[test]
fn lists_are_the_same_item_by_item() {
    let items: Vec<_> =
        (0..200).map(|number| object! { "metadata": object! { "name": format!("cm-{number}") } }).collect();
    let metadata = object! { "resourceVersion": "17", "remainingItemCount": 3 };
    let list = object! { "metadata": metadata.clone(), "items": items.clone() };
    for name in [
        "io.k8s.api.core.v1.PodList",
        "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList",
        "io.k8s.apimachinery.pkg.apis.meta.v1beta1.PartialObjectMetadataList",
    ] {
        let ty = find(name);
        let whole = encode(&list, ty, "v1", "SomeList");
        let Shape::List(Shape::Struct(item_type)) = ty.field("items").unwrap().shape else { panic!("{name}") };
        let encode_item = |item| {
            let mut out = Vec::new();
            encode_message(item, item_type.get(), &mut out);
            out
        };
        let encoded: Vec<Vec<u8>> = items.iter().map(encode_item).collect();
        let mut streamed = Vec::new();
        encode_list(ty, "v1", "SomeList", &metadata, &encoded, &mut streamed);
        assert_eq!(whole, streamed, "{name}");
    }
}

#[test]
fn watch_events_are_framed() {
    let envelope = encode(&Value::object(), find("io.k8s.api.core.v1.Pod"), "v1", "Pod");
    let frame = encode_watch_event("ADDED", &envelope);
    assert_eq!(u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
    let event = decode_message(&frame[4..], find("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent")).unwrap();
    assert_eq!(event.str("type"), "ADDED");
    assert_eq!(event.get("object").str("kind"), "Pod");
}

#[test]
fn pairs_made_by_go() {
    let Some(directory) = std::env::var_os("RKUBE_WIRE_PAIRS") else { return };
    let (mut checked, mut unknown, mut failed) = (0, Vec::new(), Vec::new());
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let document = json::parse(&std::fs::read(path).unwrap()).unwrap();
        let (api_version, kind) = (document.str("apiVersion"), document.str("kind"));
        let file_kind = stem(path).rsplit('.').next().unwrap_or_default().to_owned();
        // A watch event is no object: neither form names its kind.
        let ty = if kind.is_empty() { type_of("v1", &file_kind) } else { type_of(api_version, kind) };
        let Some(ty) = ty else {
            unknown.push(stem(path));
            continue;
        };
        checked += 1;
        let bytes = std::fs::read(path.with_extension("pb")).unwrap();
        if encode(&document, ty, api_version, kind) != bytes {
            failed.push(format!("{} to protobuf", stem(path)));
        }
        let back = if kind.is_empty() {
            decode_message(decode(&bytes).unwrap().raw, ty).unwrap()
        } else {
            decode_object(&bytes).unwrap()
        };
        if json::to_string(&without_nulls(&back)) != json::to_string(&without_nulls(&document)) {
            failed.push(format!("{} to JSON", stem(path)));
        }
    }
    println!("{checked} pairs checked, {} of unknown types: {unknown:?}", unknown.len());
    assert!(failed.is_empty(), "{failed:#?}");
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

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
