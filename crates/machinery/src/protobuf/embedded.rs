//! JSON and whole objects inside messages: `FieldsV1`, `RawExtension`, `JSON`.

use super::decode::object_at_depth;
use super::{Error, MAGIC};
use crate::json;
use crate::value::Value;

/// What the bytes of a raw extension hold: JSON text, or an object in its own envelope.
pub(super) fn decode_raw(bytes: &[u8], depth: usize, field: impl Fn() -> String) -> Result<Value, Error> {
    if bytes.starts_with(MAGIC) {
        return object_at_depth(bytes, depth + 1);
    }
    decode_json(bytes, field)
}

pub(super) fn decode_json(bytes: &[u8], field: impl Fn() -> String) -> Result<Value, Error> {
    json::parse(bytes).map_err(|_| Error::InvalidJson { field: field() })
}
