//! ConversionReview: what a webhook is asked, and what its answer is worth. Pure.
//!
//! An answer is right if it is for this question, says that it succeeded and has all objects in the same order, each of
//! the version that was asked for and with the name, namespace and UID that it had. Of the metadata only labels and
//! annotations are taken from it. Every text is upstream's.

// tidy: types ConversionReview

use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::review::ReviewType;
pub use rkube_machinery::review::ReviewVersion;
use rkube_machinery::schema::structural::sort;
use rkube_machinery::{Map, Text, Value, json};

use crate::meta;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";
/// At most so much of an object is shown in an error.
const SHOWN_BYTES_MAX: usize = 4 << 10;

/// One question.
pub struct Review<'a> {
    pub version: ReviewVersion,
    pub uid: &'a str,
    pub desired_api_version: &'a str,
    /// At least one.
    pub objects: &'a [Value],
}

/// Why an answer is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureType,
    pub message: String,
}

/// As metrics tell failures apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureType {
    /// Not counted: nobody was asked.
    None,
    Call,
    MalformedResponse,
    PartialResponse,
    InvalidConvertedObject,
}

impl Failure {
    pub fn new(kind: FailureType, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }
}

impl Review<'_> {
    /// The question as it goes out.
    pub fn request(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let text = |text: &str, out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
        text(
            &format!(r#"{{"kind":"{KIND}","apiVersion":"{GROUP}/{}","request":{{"uid":"#, self.version.name()),
            &mut out,
        );
        json::write_string(self.uid, &mut out);
        text(r#","desiredAPIVersion":"#, &mut out);
        json::write_string(self.desired_api_version, &mut out);
        text(r#","objects":["#, &mut out);
        for (index, object) in self.objects.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            json::write(object, &mut out);
        }
        text("]},\"response\":{\"uid\":\"\",\"convertedObjects\":null,\"result\":{\"metadata\":{}}}}\n", &mut out);
        out
    }

    /// The objects that the answer has, if it is right.
    pub fn read(&self, answer: &[u8]) -> Result<Vec<Value>, Failure> {
        let answer = self.decode(answer).map_err(|why| self.failed(FailureType::Call, &why))?;
        let converted = self.converted(answer).map_err(|why| self.failed(FailureType::MalformedResponse, &why))?;
        let (count, expected) = (converted.len(), self.objects.len());
        if count != expected {
            let message =
                format!("conversion webhook for {} returned {count} objects, expected {expected}", self.subject());
            return Err(Failure::new(FailureType::PartialResponse, message));
        }
        let checked = converted.into_iter().enumerate().map(|(index, object)| self.check(index, object));
        checked.collect::<Result<_, _>>().map_err(|why| Failure::new(FailureType::InvalidConvertedObject, why))
    }

    /// Nothing came of it.
    pub fn failed(&self, kind: FailureType, why: &str) -> Failure {
        Failure::new(kind, format!("conversion webhook for {} failed: {why}", self.subject()))
    }

    /// What the question is about, as messages name it.
    fn subject(&self) -> String {
        self.objects.first().map(gvk).unwrap_or_default()
    }

    /// The answer as a ConversionReview.
    fn decode(&self, answer: &[u8]) -> Result<Value, String> {
        let expected = ReviewType {
            group: GROUP,
            version: self.version.name(),
            kind: KIND,
            versions: &["v1", "v1beta1"],
            type_name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ConversionReview",
        };
        expected.read(answer).map_err(|error| match self.version {
            ReviewVersion::V1 => error,
            ReviewVersion::V1Beta1 => error.replace(" v1.Conversion", " v1beta1.Conversion"),
        })
    }

    /// What the answer has, if it is for this question and says that it succeeded.
    fn converted(&self, mut review: Value) -> Result<Vec<Value>, String> {
        if self.version == ReviewVersion::V1 {
            let expected = format!("{GROUP}/v1, Kind={KIND}");
            let given = gvk(&review);
            if given != expected {
                return Err(format!("expected webhook response of {expected}, got {given}"));
            }
        }
        let Some(mut response) = review.remove("response").filter(|response| !response.is_null()) else {
            return Err("no response provided".to_owned());
        };
        if self.version == ReviewVersion::V1 && response.str("uid") != self.uid {
            return Err(format!("expected response.uid={}, got {}", quote(self.uid), quote(response.str("uid"))));
        }
        let result = response.get("result");
        if result.str("status") != "Success" {
            return Err(match result.str("message") {
                "" => format!("response.result.status was '{}', not 'Success'", result.str("status")),
                message => shortened(message.to_owned()),
            });
        }
        match response.remove("convertedObjects") {
            Some(Value::Array(objects)) => Ok(objects),
            _ => Ok(Vec::new()),
        }
    }

    /// One converted object with the metadata that it had before.
    fn check(&self, index: usize, converted: Value) -> Result<Value, String> {
        let original = &self.objects[index];
        // A question of one object has words of its own.
        let is_alone = self.objects.len() == 1;
        let subject = self.subject();
        let object = if is_alone { "object" } else { "converted object" };
        let invalid =
            |why: String| format!("conversion webhook for {subject} returned invalid {object} at index {index}: {why}");
        let mut converted = readable(converted).map_err(|why| if is_alone { why } else { invalid(why) })?;
        let received = group_version(&converted);
        if received != self.desired_api_version {
            let expected = self.desired_api_version;
            return Err(invalid(format!("invalid groupVersion (expected {expected}, received {received})")));
        }
        let (expected, received) = (original.str("kind"), converted.str("kind"));
        if expected != received {
            return Err(invalid(format!("invalid kind (expected {expected}, received {received})")));
        }
        check_identity(original, &converted).map_err(|why| match is_alone {
            true => format!("conversion webhook for {subject} returned invalid object: {why}"),
            false => invalid(why),
        })?;
        restore_metadata(original, &mut converted).map_err(|why| match is_alone {
            true => format!("conversion webhook for {subject} returned invalid metadata: {why}"),
            false => {
                format!("conversion webhook for {subject} returned invalid metadata in object at index {index}: {why}")
            }
        })?;
        Ok(converted)
    }
}

/// What came as an object, if it is one.
fn readable(mut raw: Value) -> Result<Value, String> {
    match &raw {
        Value::Object(_) => {}
        Value::Null => return Err("unexpected end of JSON input".to_owned()),
        other => {
            let found = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            return Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"));
        }
    }
    if raw.str("kind").is_empty() {
        return Err(format!("Object 'Kind' is missing in '{}'", shortened(json::to_string(&raw))));
    }
    sort(&mut raw);
    Ok(raw)
}

/// Whether it is still the same object.
fn check_identity(original: &Value, converted: &Value) -> Result<(), String> {
    let (before, after) = (original.get("metadata"), converted.get("metadata"));
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (before.str(field), after.str(field));
        if before != after {
            return Err(format!("must have the same {shown}: {before} != {after}"));
        }
    }
    Ok(())
}

/// Gives the converted object its old metadata, with the labels and annotations that it has now.
fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let Some(answered) = converted.remove("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    let Value::Object(mut answered) = answered else {
        return Err(format!("invalid metadata of type {} in converted object", go_type(&answered)));
    };
    let mut metadata = match original.as_map().get("metadata") {
        None => Map::new(),
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(other) => return Err(format!("invalid metadata of type {} in input object", go_type(other))),
    };
    for field in ["labels", "annotations"] {
        let new = match answered.remove(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
                continue;
            }
            Some(Value::Object(new)) => new,
            Some(other) => {
                return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(&other)));
            }
        };
        let empty = Map::new();
        let old = match metadata.get(field) {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(old)) => old,
            Some(other) => {
                return Err(format!("invalid metadata.{field} of type {} in original object", go_type(other)));
            }
        };
        check_texts(field, old, &new)?;
        metadata.insert(field, Value::Object(new));
    }
    converted.set("metadata", Value::Object(Map::sorted(metadata.into_entries())));
    Ok(())
}

/// Labels or annotations: what has changed is valid.
fn check_texts(field: &str, old: &Map, new: &Map) -> Result<(), String> {
    for (key, value) in new.iter() {
        if !matches!(value, Value::String(_)) {
            let found = go_type(value);
            return Err(format!("metadata.{field}[{key}] must be a string, but is {found} in converted object"));
        }
    }
    let is_kept = |entry: (&Text, &Value)| old.get(entry.0) == Some(entry.1);
    if old.len() == new.len() && new.iter().all(is_kept) {
        return Ok(());
    }
    let mut errors = Errors::new();
    let metadata = Path::new("metadata");
    match field {
        "labels" => meta::validate_labels(metadata.child(field), new, &mut errors),
        // Upstream says it without the last letter.
        _ => meta::validate_annotations(metadata.child("annotation"), new, &mut errors),
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.summary()) }
}

/// `example.com/v1, Kind=App`.
fn gvk(object: &Value) -> String {
    let api_version = group_version(object);
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={}", object.str("kind"))
}

/// Nothing where it is no group and version.
fn group_version(object: &Value) -> &str {
    let api_version = object.str("apiVersion");
    if api_version.matches('/').count() > 1 { "" } else { api_version }
}

/// The Go type of a value in a tree without types.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        _ => "float64",
    }
}

/// A text that an error shows, no longer than [`SHOWN_BYTES_MAX`].
fn shortened(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        let fits = (0..=SHOWN_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(fits);
        text.push_str(" ...");
    }
    text
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
