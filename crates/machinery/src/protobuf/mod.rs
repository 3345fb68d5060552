//! Protobuf as Kubernetes speaks it, driven by the schema table: no generated code per type.
//!
//! What holds:
//! - Encoding gives the bytes that Go's generated marshallers give for the same object: fields in ascending order of
//!   their numbers, scalars and structs that are not pointers written even when they are zero, maps sorted by key.
//! - Decoding gives a JSON-shaped value that still goes through the same checks as a parsed JSON document. Bad input
//!   is an [`Error`], worded as Go words it; it neither panics nor allocates more than a small multiple of its size.
//!
//! An object on the wire is an [`Envelope`] (magic, apiVersion, kind) around the bare message of its type.

mod decode;
mod embedded;
mod encode;
mod layout;
mod stream;
#[cfg(test)]
mod tests;
mod types;
pub mod wire;

pub use decode::{decode_message, decode_object};
pub use encode::{encode, encode_message};
pub use stream::{ListFrame, encode_list, encode_watch_event};
pub use types::type_of;

use wire::{Reader, WireType, write_bytes, write_string_field};

/// What every object starts with.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Messages within messages beyond this depth are refused.
pub const DEPTH_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("empty data")]
    EmptyData,
    #[error("empty body")]
    EmptyBody,
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    #[error("unexpected EOF")]
    UnexpectedEnd,
    #[error("proto: integer overflow")]
    IntegerOverflow,
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    #[error("proto: unexpected end of group")]
    UnexpectedEndOfGroup,
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    #[error("proto: wrong wireType = {found} for field {field}")]
    WrongWireType { found: u8, field: String },
    #[error("proto: {message}: wiretype end group for non-group")]
    EndGroup { message: String },
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    IllegalTag { message: String, number: i32, wire: u64 },
    #[error("proto: {message}: messages are nested too deeply")]
    TooDeep { message: String },
    #[error("proto: {message}: too many pieces of one message")]
    TooManyPieces { message: String },
    #[error("proto: field {field} contains invalid UTF-8")]
    InvalidText { field: String },
    #[error("proto: field {field} holds a time that cannot be written")]
    InvalidTime { field: String },
    #[error("proto: field {field} holds an impossible IntOrString type {kind}")]
    InvalidIntOrString { field: String, kind: i64 },
    #[error("proto: field {field} holds invalid JSON")]
    InvalidJson { field: String },
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
}

/// An object's outer message (`runtime.Unknown`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    /// The bare message.
    pub raw: &'a [u8],
    pub content_encoding: &'a str,
    pub content_type: &'a str,
}

/// Opens the envelope: magic, and the outer message.
pub fn decode(bytes: &[u8]) -> Result<Envelope<'_>, Error> {
    if bytes.is_empty() {
        return Err(Error::EmptyData);
    }
    let body = bytes.strip_prefix(MAGIC).ok_or(Error::NoMagic)?;
    if body.is_empty() {
        return Err(Error::EmptyBody);
    }
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(body, "Unknown");
    while let Some((number, wire_type)) = reader.next_tag()? {
        match number {
            1 => decode_type_meta(reader.bytes(wire_type, || "TypeMeta".to_owned())?, &mut envelope)?,
            2 => envelope.raw = reader.bytes(wire_type, || "Raw".to_owned())?,
            3 => envelope.content_encoding = reader.text(wire_type, || "ContentEncoding".to_owned())?,
            4 => envelope.content_type = reader.text(wire_type, || "ContentType".to_owned())?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(envelope)
}

fn decode_type_meta<'a>(bytes: &'a [u8], envelope: &mut Envelope<'a>) -> Result<(), Error> {
    let mut reader = Reader::new(bytes, "TypeMeta");
    while let Some((number, wire_type)) = reader.next_tag()? {
        match number {
            1 => envelope.api_version = reader.text(wire_type, || "APIVersion".to_owned())?,
            2 => envelope.kind = reader.text(wire_type, || "Kind".to_owned())?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(())
}

/// Everything of an envelope that stands before the bare message, whose length is `raw_len`.
fn envelope_head(api_version: &str, kind: &str, raw_len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    let mut type_meta = Vec::with_capacity(api_version.len() + kind.len() + 4);
    write_string_field(1, api_version, &mut type_meta);
    write_string_field(2, kind, &mut type_meta);
    wire::write_tag(1, WireType::Bytes, out);
    write_bytes(&type_meta, out);
    wire::write_tag(2, WireType::Bytes, out);
    wire::write_varint(raw_len as u64, out);
}

/// Content encoding and content type, both empty.
const ENVELOPE_TAIL: &[u8] = &[0x1a, 0, 0x22, 0];
