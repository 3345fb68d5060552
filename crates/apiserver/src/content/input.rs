//! Reading what a client sends: JSON, YAML or protobuf, into a raw tree or straight into a kind's form.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rkube_machinery::decode::{self, Decoded};
use rkube_machinery::schema::Schema;
use rkube_machinery::{Status, Type, Value, json, protobuf, yaml};

use super::{JSON, PROTOBUF, YAML};
use crate::limits::BODY_MAX;

/// A client that does not finish its body in this time is sent away.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of a refused request's body is read, and for how long.
const DRAINED_MAX: usize = 256 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    /// The format of a `Content-Type`; JSON where there is none.
    pub fn of(content_type: &str) -> Result<Format, Status> {
        match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "" | JSON => Ok(Format::Json),
            YAML => Ok(Format::Yaml),
            PROTOBUF => Ok(Format::Protobuf),
            _ => Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {JSON}, {YAML}, {PROTOBUF}"
            ))),
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => JSON,
            Format::Yaml => YAML,
            Format::Protobuf => PROTOBUF,
        }
    }
}

/// Reads what is left of the body of a request that was refused: with bytes of it still to come, the connection could
/// not be used again. Clients with a lot more to say lose theirs, once they have their answer. Says whether all came.
pub async fn drain<B>(body: B) -> bool
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return true;
    }
    let reading = Limited::new(body, DRAINED_MAX).collect();
    matches!(tokio::time::timeout(DRAIN_TIMEOUT, reading).await, Ok(Ok(_)))
}

/// What is said of bodies larger than any may be.
fn too_large() -> Status {
    Status::request_too_large(format!("limit is {BODY_MAX}"))
}

/// Reads a body of at most [`BODY_MAX`] bytes. Of one that says it has more nothing is kept: it is read so far only because
/// clients look for an answer when they have sent theirs.
pub async fn read_body<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // What a client announces need not be read to be refused.
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    let reading = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX).collect()).await;
    let Ok(read) = reading else {
        return Err(Status::timeout("request did not complete within the allotted timeout", 0));
    };
    match read {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Err(error) => Err(Status::bad_request(format!("the body of the request could not be read: {error}"))),
    }
}

/// Custom resources have no form in protobuf.
const NO_MESSAGE: &str = "object *unstructured.Unstructured does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message";

/// A body with its type named, before it is decoded into that type.
pub struct Input {
    pub api_version: String,
    pub kind: String,
    payload: Payload,
    /// What strict reading objects to in the text itself.
    strict: Option<String>,
}

enum Payload {
    Tree(Value),
    Message(Bytes),
}

impl Input {
    /// The body as an object of exactly this type, in one step: for JSON that leaves nothing to say about it.
    pub fn read(format: Format, body: &Bytes, schema: &Schema, api_version: &str, kind: &str) -> Option<Decoded> {
        let decoded = if format == Format::Json { schema.decode_direct(body) } else { None };
        decoded.filter(|it| it.value.str("apiVersion") == api_version && it.value.str("kind") == kind)
    }

    pub fn parse(format: Format, body: &Bytes) -> Result<Input, String> {
        let mut strict = None;
        let tree = match format {
            Format::Json => json::parse_exact(body).map_err(|error| error.to_string())?,
            Format::Yaml => {
                let document = yaml::parse_document(body).map_err(|error| error.to_string())?;
                if weight(&document.value) > BODY_MAX {
                    return Err("yaml: document contains excessive aliasing".to_owned());
                }
                strict = document.strict;
                document.value
            }
            Format::Protobuf => {
                let envelope = protobuf::decode(body).map_err(|error| error.to_string())?;
                return Ok(Input {
                    api_version: envelope.api_version.to_string(),
                    kind: envelope.kind.to_string(),
                    payload: Payload::Message(body.slice_ref(envelope.raw)),
                    strict: None,
                });
            }
        };
        let (api_version, kind) = decode::type_meta(&tree).map_err(|error| match format {
            // Errors in JSON all get these words where they are shown.
            Format::Json => error.to_string(),
            _ => format!("couldn't get version/kind; json parse error: {error}"),
        })?;
        Ok(Input { api_version: api_version.to_string(), kind: kind.to_string(), payload: Payload::Tree(tree), strict })
    }

    /// Whether the body can be read as this type.
    pub fn try_decode(&self, schema: &'static Type) -> Result<(), String> {
        match &self.payload {
            Payload::Tree(tree) => decode::decode(tree.clone(), schema).map(|_| ()).map_err(|error| error.to_string()),
            Payload::Message(bytes) => {
                protobuf::decode_message(bytes, schema).map(|_| ()).map_err(|error| error.to_string())
            }
        }
    }

    /// The body as an object of this type: canonical, with what strict reading would object to.
    pub fn decode(self, schema: &Schema) -> Result<Decoded, String> {
        let mut tree = match self.payload {
            Payload::Tree(tree) => tree,
            Payload::Message(bytes) => {
                let table = schema.table().ok_or(NO_MESSAGE)?;
                protobuf::decode_message(&bytes, table).map_err(|error| error.to_string())?
            }
        };
        if schema.table().is_none_or(|table| table.type_meta) {
            if !self.kind.is_empty() {
                tree.set("kind", self.kind);
            }
            if !self.api_version.is_empty() {
                tree.set("apiVersion", self.api_version);
            }
        }
        let mut decoded = schema.decode(tree).map_err(|error| error.to_string())?;
        if let Some(complaint) = self.strict {
            decoded.strict.insert(0, complaint);
        }
        Ok(decoded)
    }
}

/// About how many bytes a tree takes when it is written: aliases in YAML make small texts large.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + weight(value) + 4).sum(),
        _ => 4,
    }
}
