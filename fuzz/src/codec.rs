//! JSON, YAML and protobuf: what is written reads back the same, and a canonical form is its own canonical form.

use rkube_machinery::decode::{complete, decode, direct};
use rkube_machinery::{Type, Value, json, protobuf, yaml};

use super::documents::Choices;

/// Any text as JSON.
pub fn json(bytes: &[u8]) {
    let (kind, rest) = kind_first(bytes);
    one_step_or_two(bytes, kind);
    one_step_or_two(rest, kind);
    let Ok(value) = json::parse(bytes) else { return };
    // A whole number with an exponent is written without one and reads as an integer, and so does a negative zero.
    let once = json::parse(json::to_string(&value).as_bytes()).expect("what was written can be read");
    let text = json::to_string(&once);
    let again = json::parse(text.as_bytes()).expect("what was written can be read");
    assert_eq!(json::to_string(&again), text);
    let mut pretty = Vec::new();
    json::write_pretty(&value, &mut pretty);
    assert_eq!(json::parse(&pretty), Ok(once));
    canonical(value, kind);
}

/// A document of roughly a type's form, decoded into that type.
pub fn decoding(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.kind();
    let document = choices.fitting(kind, 0);
    one_step_or_two(json::to_string(&document).as_bytes(), kind);
    canonical(document, kind);
}

/// Any text as YAML.
pub fn yaml(bytes: &[u8]) {
    let Ok(value) = yaml::parse(bytes) else { return };
    let plain = json::to_string(&value);
    // Written plain, although it reads as a merge key.
    if plain.contains("\"<<\"") {
        return;
    }
    let text = yaml::write(&value);
    let again = yaml::parse(text.as_bytes()).expect("what was written can be read");
    assert_eq!(json::to_string(&again), plain, "{text:?}");
}

/// Any bytes as an envelope, and as a message of some type.
pub fn protobuf(bytes: &[u8]) {
    let (kind, rest) = kind_first(bytes);
    if let Ok(envelope) = protobuf::decode(rest) {
        let _ = protobuf::decode_message(envelope.raw, kind);
        let _ = protobuf::decode_object(rest);
    }
    let Ok(value) = protobuf::decode_message(rest, kind) else { return };
    let mut written = Vec::new();
    protobuf::encode_message(&value, kind, &mut written);
    let again = protobuf::decode_message(&written, kind).expect("what was written can be read");
    let mut rewritten = Vec::new();
    protobuf::encode_message(&again, kind, &mut rewritten);
    assert_eq!(written, rewritten, "{}", kind.name);
    canonical(value, kind);
}

/// A canonical value survives protobuf.
pub fn transcoding(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.kind();
    let Ok(decoded) = decode(choices.fitting(kind, 0), kind) else { return };
    let mut message = Vec::new();
    protobuf::encode_message(&decoded.value, kind, &mut message);
    let value = protobuf::decode_message(&message, kind).expect("what was written can be read");
    let mut again = Vec::new();
    protobuf::encode_message(&value, kind, &mut again);
    assert_eq!(message, again, "{} {}", kind.name, json::to_string(&decoded.value));
    canonical(value, kind);
}

/// What decodes has a canonical form that stays.
fn canonical(raw: Value, kind: &'static Type) {
    let Ok(once) = decode(raw, kind) else { return };
    let mut once = once.value;
    complete(&mut once, kind);
    let text = json::to_string(&once);
    let read = json::parse(text.as_bytes()).expect("what was written can be read");
    let again = decode(read, kind).expect("a canonical form decodes");
    assert!(again.strict.is_empty(), "{}: {:?}", kind.name, again.strict);
    assert_eq!(json::to_string(&again.value), text, "{}", kind.name);
    let mut completed = once;
    complete(&mut completed, kind);
    assert_eq!(json::to_string(&completed), text, "{}", kind.name);
}

/// What is read in one step is what is read in two.
fn one_step_or_two(bytes: &[u8], kind: &'static Type) {
    let Some(once) = direct(bytes, kind) else { return };
    let twice = decode(json::parse(bytes).expect("is JSON"), kind).expect("is of this type");
    assert!(twice.strict.is_empty(), "{}: {:?}", kind.name, twice.strict);
    assert_eq!(format!("{once:?}"), format!("{twice:?}"), "{}", kind.name);
}

fn kind_first(bytes: &[u8]) -> (&'static Type, &[u8]) {
    let (first, rest) = bytes.split_at(bytes.len().min(2));
    (Choices::new(first).kind(), rest)
}
