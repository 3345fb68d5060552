//! JSON patch (RFC 6902): a list of operations, done one after the other.
//!
//! Where Kubernetes is laxer than the RFC, so is this: `replace` adds a field that is not there, `copy` takes an
//! absent field as null, `test` takes it as equal to null, list indexes may count from the end (`-1`), and whatever
//! stands before a path's first slash is passed over.

use super::{Decoding, PatchError, json_type};
use crate::json;
use crate::value::{Map, Text, Value};

/// How many operations a patch may have.
const OPERATIONS_MAX: usize = 10_000;
/// How many bytes of JSON a patch's `copy` operations may copy together.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Applies the patch. On an error the document is left half patched.
pub fn apply(patch: &Value, document: &mut Value) -> Result<(), PatchError> {
    apply_as(patch, document, Decoding::Checked)
}

/// Applies the patch; `decoding` decides how errors in its form are worded.
pub fn apply_as(patch: &Value, document: &mut Value, decoding: Decoding) -> Result<(), PatchError> {
    check(patch, decoding)?;
    let operations = patch.items();
    if operations.len() > OPERATIONS_MAX {
        let count = operations.len();
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
        )));
    }
    let mut copied_bytes = 0;
    for operation in operations {
        let operation = Operation(operation.as_map());
        if operation.crashes() {
            return Err(PatchError::Crash);
        }
        operation.apply(document, &mut copied_bytes).map_err(PatchError::Unprocessable)?;
    }
    Ok(())
}

/// Sorts the keys of all objects that the patch's operations go through, as Kubernetes leaves them behind.
pub fn sort_touched(patch: &Value, document: &mut Value) {
    for operation in patch.items() {
        for key in ["path", "from"] {
            if let Value::String(pointer) = operation.get(key) {
                sort_on_way(document, pointer.split('/').skip(1));
            }
        }
    }
}

fn sort_on_way<'a>(mut at: &mut Value, steps: impl Iterator<Item = &'a str>) {
    for step in steps {
        at = match at {
            Value::Object(map) => {
                map.sort();
                match map.get_mut(&step.replace("~1", "/").replace("~0", "~")) {
                    Some(next) => next,
                    None => return,
                }
            }
            Value::Array(items) => match step.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                Some(next) => next,
                None => return,
            },
            _ => return,
        };
    }
}

/// The fields that operations do not have, as strict decoding complains about them.
pub fn unknown_fields(patch: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, operation) in patch.items().iter().enumerate() {
        for key in operation.as_map().keys() {
            if !["op", "path", "from", "value"].contains(&key.as_str()) {
                complaints.push(format!("json patch unknown field \"[{index}].{key}\""));
            }
        }
    }
    complaints
}

/// The patch must be a list of objects, and what they say of strings must be strings; null passes as absent.
pub fn check(patch: &Value, decoding: Decoding) -> Result<(), PatchError> {
    let checked = decoding == Decoding::Checked;
    let prefix = if checked { "error decoding patch: " } else { "" };
    let refuse = |what: &Value, into: &str| {
        let kind = json_type(what);
        Err(PatchError::BadRequest(format!("{prefix}json: cannot unmarshal {kind} into Go {into}")))
    };
    if !matches!(patch, Value::Array(_) | Value::Null) {
        let whole = if checked { "value of type []handlers.jsonPatchOp" } else { "value of type jsonpatch.Patch" };
        return refuse(patch, whole);
    }
    for operation in patch.items() {
        let map = match operation {
            Value::Object(map) => map,
            Value::Null => continue,
            other if checked => return refuse(other, "value of type handlers.jsonPatchOp"),
            other => return refuse(other, "value of type jsonpatch.Operation"),
        };
        for (key, value) in map.iter().filter(|(key, _)| checked && ["op", "path", "from"].contains(&key.as_str())) {
            if !matches!(value, Value::String(_) | Value::Null) {
                return refuse(value, &format!("struct field jsonPatchOp.{key} of type string"));
            }
        }
    }
    Ok(())
}

struct Operation<'a>(&'a Map);

impl Operation<'_> {
    /// Kubernetes falls over operations on the whole document that lack their value.
    fn crashes(&self) -> bool {
        matches!(self.text("op"), Some("replace" | "test"))
            && self.text("path") == Some("")
            && !self.0.contains("value")
    }

    fn apply(&self, document: &mut Value, copied_bytes: &mut usize) -> Result<(), String> {
        match self.text("op").unwrap_or("unknown") {
            "add" => self.add(document),
            "remove" => self.remove(document),
            "replace" => self.replace(document),
            "move" => self.r#move(document),
            "copy" => self.copy(document, copied_bytes),
            "test" => self.test(document),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    fn path(&self, operation: &str) -> Result<&str, String> {
        self.text("path").ok_or_else(|| {
            let missing = match operation {
                "add" | "remove" | "copy" => "",
                _ => "operation missing path field: ",
            };
            format!("{operation} operation failed to decode path: {missing}missing value")
        })
    }

    fn from(&self, operation: &str) -> Result<&str, String> {
        let missing = "operation, missing from field: missing value";
        self.text("from").ok_or_else(|| format!("{operation} operation failed to decode from: {missing}"))
    }

    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or_default()
    }

    fn add(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path("add")?;
        let (container, key) = find(document, path)
            .ok_or_else(|| format!("add operation does not apply: doc is missing path: \"{path}\": missing value"))?;
        insert(container, &key, self.value()).map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path("remove")?;
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        match take(container, &key) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("error in remove for path: '{path}': {error}")),
        }
    }

    fn replace(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path("replace")?;
        if path.is_empty() {
            let value = self.value();
            if !matches!(value, Value::Array(_) | Value::Object(_)) {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            *document = value;
            return Ok(());
        }
        let (container, key) = find(document, path)
            .ok_or_else(|| format!("replace operation does not apply: doc is missing path: {path}: missing value"))?;
        match container {
            Value::Array(items) => {
                let index = existing_index(items.len(), &key).map_err(|_| {
                    format!("replace operation does not apply: doc is missing key: {path}: missing value")
                })?;
                items[index] = self.value();
            }
            other => other.set(&key, self.value()),
        }
        Ok(())
    }

    fn r#move(&self, document: &mut Value) -> Result<(), String> {
        let from = self.from("move")?;
        let (container, key) = find(document, from)
            .ok_or_else(|| format!("move operation does not apply: doc is missing from path: {from}: missing value"))?;
        let value = take(container, &key).map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self.path("move")?;
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        insert(container, &key, value).map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn copy(&self, document: &mut Value, copied_bytes: &mut usize) -> Result<(), String> {
        let from = self.from("copy")?;
        let (container, key) = find(document, from)
            .ok_or_else(|| format!("copy operation does not apply: doc is missing from path: {from}: missing value"))?;
        let found = look(container, &key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let value = found.cloned().unwrap_or_default();
        let path = self.path("copy")?;
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        if !value.is_null() {
            *copied_bytes += json::to_string(&value).len();
        }
        if *copied_bytes > COPIED_BYTES_MAX {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding the \
                 limit {COPIED_BYTES_MAX}"
            ));
        }
        insert(container, &key, value).map_err(|error| format!("error while adding value during copy: {error}"))
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path("test")?;
        let failed = || format!("testing value {path} failed: test failed");
        if path.is_empty() {
            return if *document == self.value() { Ok(()) } else { Err(failed()) };
        }
        let (container, key) = find(document, path)
            .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: missing value"))?;
        let found = look(container, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
        if *found.unwrap_or(&Value::Null) == self.value() { Ok(()) } else { Err(failed()) }
    }
}

/// The object or list that the path's last step is in, and that step.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, Text)> {
    let mut steps: Vec<Text> = path.split('/').skip(1).map(unescape).collect();
    let last = steps.pop()?;
    let mut place = document;
    for step in steps {
        place = match place {
            Value::Object(map) => map.get_mut(&step)?,
            Value::Array(items) => {
                let index = existing_index(items.len(), &step).ok()?;
                &mut items[index]
            }
            _ => return None,
        };
    }
    matches!(place, Value::Object(_) | Value::Array(_)).then_some((place, last))
}

fn unescape(step: &str) -> Text {
    if step.contains('~') { Text::from(step.replace("~1", "/").replace("~0", "~")) } else { Text::new(step) }
}

/// What is at the key; an absent field is none, an absent item an error.
fn look<'a>(container: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match container {
        Value::Array(items) => existing_index(items.len(), key).map(|index| items.get(index)),
        other => Ok(other.as_map().get(key)),
    }
}

fn insert(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    let Value::Array(items) = container else {
        container.set(key, value);
        return Ok(());
    };
    if key == "-" {
        items.push(value);
        return Ok(());
    }
    let number = parse_index(key).map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
    let index = resolve_index(number, items.len() + 1)?;
    items.insert(index, value);
    Ok(())
}

fn take(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Array(items) => existing_index(items.len(), key).map(|index| items.remove(index)),
        other => other.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value")),
    }
}

fn existing_index(length: usize, key: &str) -> Result<usize, String> {
    resolve_index(parse_index(key)?, length)
}

fn parse_index(key: &str) -> Result<i64, String> {
    key.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let what = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {what}", crate::field::quote(key))
    })
}

/// An index below `length`, negative ones counted from the end.
fn resolve_index(number: i64, length: usize) -> Result<usize, String> {
    let length = length as i64;
    let index = if number < 0 { number.saturating_add(length) } else { number };
    if (0..length).contains(&index) {
        Ok(index as usize)
    } else {
        Err(format!("Unable to access invalid index: {number}: invalid index referenced"))
    }
}

#[cfg(test)]
#[path = "json_patch_tests.rs"]
mod tests;
