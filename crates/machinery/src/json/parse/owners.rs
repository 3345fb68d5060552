//! A stored object of which it is not read who owns which fields: that is about half of its text, and hardly a write looks
//! into it.

use super::{Open, Parser, SyntaxError, decode_utf8};
use crate::json::Scan;
use crate::value::Value;

/// [`parse`](super::parse) of an object that was written by us: `fieldsV1` of its managed fields stay text
/// ([`Value::Written`]), for [`crate::managed`] to look into.
pub fn parse_stored(bytes: &[u8]) -> Result<Value, SyntaxError> {
    let text = decode_utf8(bytes);
    let mut parser = Parser::new(&text, false);
    parser.keeps_owned = true;
    let value = parser.value()?;
    parser.end()?;
    Ok(value)
}

/// How many lists and objects are open at `metadata.managedFields[].fieldsV1`.
const DEPTH: usize = 4;

impl Parser<'_> {
    /// The fields that an owner has, as they are written, where they stand here.
    pub(super) fn owned(&mut self) -> Option<Value> {
        let [Open::Object { .. }, Open::Object { start: metadata }, Open::List { .. }, Open::Object { start: entry }] =
            *self.open.first_chunk::<DEPTH>()?
        else {
            return None;
        };
        // An object's last entry waits for its value, and has what is inside it right behind it.
        let key_before = |start: usize| Some(self.entries.get(start.checked_sub(1)?)?.0.as_str());
        let is_here = self.open.len() == DEPTH
            && self.entries.last()?.0 == "fieldsV1"
            && key_before(entry) == Some("managedFields")
            && key_before(metadata) == Some("metadata")
            && self.peek() == Some(b'{');
        if !is_here {
            return None;
        }
        let written = Scan::new(&self.bytes[self.at..]).value()?;
        let text = self.text.get(self.at..self.at + written.len())?;
        self.at += text.len();
        Some(Value::Written(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{parse, to_string};

    #[test]
    fn owned_fields_stay_text_and_nothing_else_does() {
        let fields = r#"{"f:metadata":{"f:labels":{".":{},"f:a}":{}}},"k:{\"a\":\"]\"}":{}}"#;
        let entry = format!(r#"{{"manager":"m","fieldsV1":{fields},"subresource":"status"}}"#);
        let text = format!(
            r#"{{"kind":"K","metadata":{{"name":"n","x":[{entry}],"managedFields":[{entry},{{"fieldsV1":null}},{{"a":{entry}}}]}},"spec":{{"managedFields":[{entry}]}},"managedFields":[{entry}],"fieldsV1":{fields}}}"#
        );
        let stored = parse_stored(text.as_bytes()).unwrap();
        let whole = parse(text.as_bytes()).unwrap();
        assert_eq!(to_string(&stored), text);
        let mut owners = whole.get("metadata").get("managedFields").clone();
        if let Value::Array(list) = &mut owners {
            list[0].set("fieldsV1", Value::Written(fields.into()));
        }
        let mut expected = whole;
        expected.object_mut("metadata").set("managedFields", owners);
        assert_eq!(stored, expected);
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let text = r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}}]}}"#;
        assert!(parse_stored(text.as_bytes()).is_ok());
        for end in 0..text.len() {
            assert!(parse_stored(&text.as_bytes()[..end]).is_err(), "{end}");
        }
    }
}
