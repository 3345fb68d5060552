//! Writing what a client gets, in the form it asked for.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderValue, Response, StatusCode, header};
use rkube_machinery::{Status, Type, TypeRef, Value, json, protobuf, yaml};

use super::body::Body;
use super::input::Format;
use super::negotiate::{Accept, Transform};
use super::table::{metadata_of, partial_metadata, table_for};
use rkube_catalog::Entry;
use rkube_catalog::Served;

pub type Answer = Response<Body>;

/// Answers larger than this are compressed where the client takes it.
pub const GZIP_MIN: usize = 128 * 1024;

/// One object, in the served version. An entry with revision 0 has no resource version (a dry run).
pub fn object_answer(
    code: StatusCode,
    served: &Served,
    accept: Accept,
    include: &str,
    now: i64,
    entry: &Entry,
) -> Answer {
    if accept.format == Format::Json
        && accept.transform == Transform::None
        && !accept.pretty
        && served.kind.conversion.is_none()
    {
        let mut out = Vec::with_capacity(entry.object.size() + 64);
        entry.object.write(entry.revision, &mut out);
        out.push(b'\n');
        return bytes_answer(code, Format::Json, out.into());
    }
    let stored = entry.object.value(entry.revision);
    match accept.transform {
        Transform::None => value_answer(code, accept, &served.to_served(stored), served.kind.schema.table()),
        Transform::Table(version) => {
            let table = table_for(served, version, std::slice::from_ref(&stored), include, now, &Value::Null, true);
            value_answer(code, accept, &table, None)
        }
        Transform::PartialObjectMetadata(version) | Transform::PartialObjectMetadataList(version) => {
            let partial = partial_metadata(served, &stored, version);
            value_answer(code, accept, &partial, TypeRef::find(PARTIAL).map(TypeRef::get))
        }
    }
}

pub const PARTIAL: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";

/// Any value in the form asked for; protobuf only where its type is known.
pub fn value_answer(code: StatusCode, accept: Accept, value: &Value, schema: Option<&'static Type>) -> Answer {
    let (format, bytes) = match (accept.format, schema) {
        (Format::Protobuf, Some(schema)) => {
            (Format::Protobuf, protobuf::encode(value, schema, value.str("apiVersion"), value.str("kind")))
        }
        (Format::Yaml, _) => (Format::Yaml, yaml::write(value).into_bytes()),
        _ => {
            let mut out = Vec::with_capacity(512);
            if accept.pretty {
                json::write_pretty(value, &mut out);
            } else {
                json::write(value, &mut out);
                out.push(b'\n');
            }
            (Format::Json, out)
        }
    };
    bytes_answer(code, format, bytes.into())
}

/// One object of no served kind, which has no table.
pub fn unlisted_answer(code: StatusCode, accept: Accept, value: &Value, schema: Option<&'static Type>) -> Answer {
    match accept.transform {
        Transform::PartialObjectMetadata(version) => {
            let partial = metadata_of(value, version);
            value_answer(code, accept, &partial, TypeRef::find(PARTIAL).map(TypeRef::get))
        }
        _ => value_answer(code, accept, value, schema),
    }
}

/// Marks an answer that is a `Status`.
#[derive(Clone, Copy)]
pub struct IsStatus;

/// A `Status` with its HTTP code.
pub fn status_answer(status: &Status, accept: Accept) -> Answer {
    let schema = TypeRef::find("io.k8s.apimachinery.pkg.apis.meta.v1.Status").map(TypeRef::get);
    let mut answer = value_answer(code_of(status), accept, &status.to_value(), schema);
    answer.extensions_mut().insert(IsStatus);
    add_retry(&mut answer, status);
    answer
}

/// A `Status` for a client that takes no form that there is.
pub fn raw_status_answer(status: &Status) -> Answer {
    let mut answer = raw_answer(code_of(status), &status.to_value());
    add_retry(&mut answer, status);
    answer
}

/// What is written without the codecs: JSON with lines.
pub fn raw_answer(code: StatusCode, value: &Value) -> Answer {
    value_answer(code, Accept { pretty: true, ..Accept::PLAIN }, value, None)
}

fn code_of(status: &Status) -> StatusCode {
    StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn add_retry(answer: &mut Answer, status: &Status) {
    if let Some(seconds) =
        status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
}

fn bytes_answer(code: StatusCode, format: Format, bytes: Bytes) -> Answer {
    body_answer(code, format.content_type(), Body::Whole(bytes))
}

pub fn body_answer(code: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// Compresses a large answer for a client that takes gzip. Watches are left as they are.
pub fn compress(mut answer: Answer) -> Answer {
    let large = match answer.body() {
        Body::Whole(bytes) => bytes.len() > GZIP_MIN,
        Body::Chunks(_) => true,
        Body::Empty | Body::Stream(_) | Body::Relayed(_) | Body::Held(_) => false,
    };
    if !large || answer.headers().contains_key(header::CONTENT_ENCODING) {
        return answer;
    }
    let chunks: Box<dyn Iterator<Item = Bytes> + Send> = match std::mem::replace(answer.body_mut(), Body::Empty) {
        Body::Whole(bytes) => Box::new(std::iter::once(bytes)),
        Body::Chunks(chunks) => chunks,
        other => {
            *answer.body_mut() = other;
            return answer;
        }
    };
    *answer.body_mut() =
        Body::Chunks(Box::new(Gzip { chunks, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    answer
}

struct Gzip {
    chunks: Box<dyn Iterator<Item = Bytes> + Send>,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Iterator for Gzip {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(chunk) = self.chunks.next() else {
                // Writing into memory does not fail.
                return self.encoder.take().and_then(|encoder| encoder.finish().ok()).map(Bytes::from);
            };
            let _ = encoder.write_all(&chunk);
            let done = std::mem::take(encoder.get_mut());
            if !done.is_empty() || chunk.is_empty() {
                return Some(done.into());
            }
        }
    }
}
