//! The tokens by which a list is continued, as Kubernetes writes and refuses them.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use rkube_machinery::field::quote;
use rkube_machinery::{Status, Value, json, object};

/// A token for what comes after a key (below the scope's prefix); with revision -1 it starts at the key.
pub fn encode_token(last: &str, revision: i64, left: Option<i64>) -> String {
    let start = if revision < 0 { last.to_owned() } else { format!("{last}\0") };
    let mut token = object! { "v": "meta.k8s.io/v1", "rv": revision, "start": start };
    if let Some(left) = left {
        token.set("left", left);
    }
    URL_SAFE_NO_PAD.encode(json::to_string(&token))
}

/// The key to start at (below the scope's prefix) and the revision; -1: the newest.
pub fn decode_token(token: &str) -> Result<(String, i64, Option<i64>), Status> {
    let invalid = |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid{why}"));
    let bytes =
        decode_base64(token).map_err(|place| invalid(&format!(": illegal base64 data at input byte {place}")))?;
    let value = parse_token(&bytes).map_err(|why| invalid(&format!(": {why}")))?;
    if value.str("v") != "meta.k8s.io/v1" {
        return Err(invalid(&format!(": server does not recognize this encoded version {}", value.str("v"))));
    }
    let revision = value.int("rv");
    if revision == 0 {
        return Err(invalid(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
    }
    let start = value.str("start");
    if start.is_empty() {
        return Err(invalid(": encoded start key empty (version meta.k8s.io/v1)"));
    }
    let climbs = start.split('/').any(|part| matches!(part, "." | "..")) || start.contains("//");
    if climbs || revision < -1 {
        return Err(invalid(&format!(": {start}")));
    }
    let left = value.get("left").as_int().filter(|left| *left >= 0);
    Ok((start.trim_start_matches('/').to_owned(), revision, left))
}

/// The JSON of a token, its fields of the right types.
fn parse_token(bytes: &[u8]) -> Result<Value, String> {
    if let Some(byte) = bytes.first().filter(|byte| !byte.is_ascii()) {
        // Go takes the byte for a letter of its own.
        let quoted = quote(char::from(*byte).encode_utf8(&mut [0; 4]));
        return Err(format!("invalid character '{}' looking for beginning of value", quoted.trim_matches('"')));
    }
    let value = json::parse(bytes).map_err(|error| error.to_string())?;
    if !matches!(value, Value::Object(_) | Value::Null) {
        return Err(format!("json: cannot unmarshal {} into Go value of type storage.continueToken", go_name(&value)));
    }
    for (key, field) in value.as_map().iter() {
        let wanted = match (key.as_str(), field) {
            (_, Value::Null) | ("v" | "start", Value::String(_)) | ("rv", Value::Int(_)) => continue,
            ("v" | "start", _) => "string",
            ("rv", _) => "int64",
            _ => continue,
        };
        let given = match (go_name(field), wanted) {
            ("number", "int64") => format!("number {}", json::to_string(field)),
            (name, _) => name.to_owned(),
        };
        return Err(format!(
            "json: cannot unmarshal {given} into Go struct field continueToken.{key} of type {wanted}"
        ));
    }
    Ok(value)
}

fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        _ => "object",
    }
}

/// The bytes of a token, or where it goes wrong.
fn decode_base64(token: &str) -> Result<Vec<u8>, usize> {
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if let Some(place) = token.bytes().position(|byte| !is_known(&byte)) {
        return Err(place);
    }
    LENIENT.decode(token).map_err(|_| token.len() - token.len() % 4)
}

/// Bits that stand for nothing are passed over.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_round_and_bad_ones_are_refused() {
        let (start, revision, left) = decode_token(&encode_token("default/a", 42, Some(7))).unwrap();
        assert_eq!((start.as_str(), revision, left), ("default/a\0", 42, Some(7)));
        for bad in ["", "%%%", "e30", &URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#)] {
            assert_eq!(decode_token(bad).unwrap_err().code, 400, "{bad}");
        }
        let key = "invalid continue token: continue key is not valid: ";
        for (token, want) in [
            (r#"{"v":1}"#, "json: cannot unmarshal number into Go struct field continueToken.v of type string"),
            (r#"{"rv":"1"}"#, "json: cannot unmarshal string into Go struct field continueToken.rv of type int64"),
            (r#"{"rv":1.5}"#, "json: cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64"),
            ("[]", "json: cannot unmarshal array into Go value of type storage.continueToken"),
            ("null", "server does not recognize this encoded version "),
            ("{", "unexpected end of JSON input"),
        ] {
            let got = decode_token(&URL_SAFE_NO_PAD.encode(token)).unwrap_err().message;
            assert_eq!(got, format!("{key}{want}"));
        }
        let got = decode_token("null").unwrap_err().message;
        assert_eq!(got, format!("{key}invalid character '\\u009e' looking for beginning of value"));
    }
}
