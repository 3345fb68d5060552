//! Pieces of documents, and documents made of them.
//!
//! A document is a frame around two maps, of paths and of definitions. A [`Part`] has entries of both, written out in
//! the document's form, so that who keeps parts need not write anything twice: a kind that comes or goes is one part
//! more or less.

use std::sync::Arc;

use bytes::Bytes;
use rkube_machinery::{Map, Value, json, object};

use crate::definitions::Dialect;
use crate::hash::Fnv;
use crate::{gnostic, parameters};

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// OpenAPI 3.0 in JSON.
    V3,
    /// Swagger 2.0 in JSON.
    V2Json,
    /// Swagger 2.0 in protobuf.
    V2Protobuf,
}

impl Form {
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Form::V3 => Dialect::V3,
            Form::V2Json | Form::V2Protobuf => Dialect::V2,
        }
    }
}

/// What goes around the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A group version with built-in kinds, or discovery above them.
    V3BuiltIn,
    /// A group version of custom resources alone.
    V3Custom,
    V2Json,
    V2Protobuf,
}

/// Entries of a document's maps, in one of the forms.
#[derive(Debug, Default)]
pub struct Part {
    paths: Bytes,
    definitions: Bytes,
    hash: u128,
}

impl Part {
    pub(crate) fn new(form: Form, paths: &Map, definitions: &Map) -> Part {
        let mut written = [Vec::new(), Vec::new()];
        match form {
            Form::V3 | Form::V2Json => {
                write_entries(paths, &mut written[0]);
                write_entries(definitions, &mut written[1]);
            }
            Form::V2Protobuf => {
                gnostic::write_paths(paths, &mut written[0]);
                gnostic::write_definitions(definitions, &mut written[1]);
            }
        }
        // Parts are kept for long: what the buffers have left over is given back.
        let [paths, definitions] = written.map(|bytes| Bytes::from(bytes.into_boxed_slice()));
        let mut hash = Fnv::new();
        hash.add(&paths);
        hash.add(&definitions);
        Part { paths, definitions, hash: hash.value() }
    }

    /// How many bytes it takes.
    pub fn size(&self) -> usize {
        self.paths.len() + self.definitions.len()
    }
}

/// A document's bytes, in order; they are shared with the parts.
pub fn document(frame: Frame, parts: &[Arc<Part>]) -> Vec<Bytes> {
    match frame {
        Frame::V2Protobuf => protobuf_document(&swagger(), parts),
        Frame::V2Json => json_document(&swagger(), r#""definitions":{"#, "}", parts),
        Frame::V3BuiltIn => {
            let schemes = json::to_string(&security_schemes());
            let open = format!(r#""components":{{"securitySchemes":{schemes},"schemas":{{"#);
            json_document(&openapi("Kubernetes", "unversioned"), &open, "}}", parts)
        }
        Frame::V3Custom => {
            let skeleton = openapi("Kubernetes CRD Swagger", "v0.1.0");
            json_document(&skeleton, r#""components":{"schemas":{"#, "}}", parts)
        }
    }
}

/// A mark that changes with the document's content.
pub fn mark(frame: Frame, parts: &[Arc<Part>]) -> String {
    let mut hash = Fnv::new();
    hash.add(&[frame as u8]);
    parts.iter().for_each(|part| hash.add(&part.hash.to_le_bytes()));
    hash.text()
}

fn openapi(title: &str, version: &str) -> Value {
    object! { "info": object! { "title": title, "version": version }, "openapi": "3.0.0" }
}

/// Swagger without paths and definitions.
fn swagger() -> Value {
    object! {
        "info": object! { "title": "Kubernetes", "version": "unversioned" },
        "parameters": parameters::shared(),
        "security": vec![object! { "BearerToken": Vec::<Value>::new() }],
        "securityDefinitions": security_schemes(),
        "swagger": "2.0",
    }
}

fn security_schemes() -> Value {
    object! {
        "BearerToken": object! {
            "description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey",
        },
    }
}

/// `open` and `close`: what stands around the definitions.
fn json_document(skeleton: &Value, open: &str, close: &str, parts: &[Arc<Part>]) -> Vec<Bytes> {
    let mut head = b"{".to_vec();
    write_entries(skeleton.as_map(), &mut head);
    head.push(b',');
    head.extend_from_slice(open.as_bytes());
    let mut out = vec![Bytes::from(head)];
    push_entries(parts.iter().map(|part| &part.definitions), &mut out);
    out.push(Bytes::from(format!(r#"{close},"paths":{{"#)));
    push_entries(parts.iter().map(|part| &part.paths), &mut out);
    out.push(Bytes::from_static(b"}}"));
    out
}

fn push_entries<'a>(entries: impl Iterator<Item = &'a Bytes>, out: &mut Vec<Bytes>) {
    for (place, entries) in entries.filter(|entries| !entries.is_empty()).enumerate() {
        if place > 0 {
            out.push(Bytes::from_static(b","));
        }
        out.push(entries.clone());
    }
}

/// The entries of an object without its brackets.
fn write_entries(map: &Map, out: &mut Vec<u8>) {
    for (place, (name, value)) in map.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        json::write_string(name, out);
        out.push(b':');
        json::write(value, out);
    }
}

pub(crate) fn protobuf_document(skeleton: &Value, parts: &[Arc<Part>]) -> Vec<Bytes> {
    let sum = |entries: fn(&Part) -> &Bytes| parts.iter().map(|part| entries(part).len()).sum();
    let [before_paths, before_definitions, rest] =
        gnostic::frame(skeleton, sum(|part| &part.paths), sum(|part| &part.definitions));
    let mut out = vec![Bytes::from(before_paths)];
    out.extend(parts.iter().map(|part| part.paths.clone()));
    out.push(Bytes::from(before_definitions));
    out.extend(parts.iter().map(|part| part.definitions.clone()));
    out.push(Bytes::from(rest));
    out
}
