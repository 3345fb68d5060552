//! `list`: a consistent snapshot, whole or in pages, written out while it is sent.

use std::ops::Bound;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::StatusCode;
use rkube_machinery::field::quote;
use rkube_machinery::selector::{fields, labels};
use rkube_machinery::value::{Map, Text};
use rkube_machinery::{Status, TypeRef, Value, json, object, protobuf};

use super::read::parse_version;
use super::{Call, cache_error};
use crate::cache::{Entry, Items, Object, itoa};
use crate::content::{Answer, Body, Format, Transform, partial_metadata, table_for, value_answer};
use crate::content::{body_answer, bytes_answer};
use crate::request::VersionMatch;

/// A list is written in pieces of about this size.
const CHUNK_BYTES: usize = 128 * 1024;
const TOO_OLD: &str = "The resourceVersion for the provided list is too old.";
const TOKEN_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// What a list is made from.
struct Snapshot {
    items: Items,
    revision: u64,
    /// The key to start at; empty: the first.
    start: String,
    /// How many objects there are from there on, where a token says so.
    left: Option<i64>,
}

impl Call<'_> {
    pub(super) async fn list(&mut self) -> Result<Answer, Status> {
        self.options.check_list(self.server.features.watch_list)?;
        let filter = Filter::new(self)?;
        let Snapshot { items, revision, start, left } = self.choose_snapshot().await?;
        let limit = self.options.limit;
        if limit == 0 {
            let entries: Vec<Entry> = filter.range(self, &items, &start).map(|(_, entry)| entry.clone()).collect();
            return self.list_answer(entries, revision, String::new(), None);
        }
        let mut chosen = filter.range(self, &items, &start);
        let mut entries = Vec::with_capacity(limit.min(1024));
        let mut last = None;
        while entries.len() < limit {
            let Some((key, entry)) = chosen.next() else { break };
            last = Some(key);
            entries.push(entry.clone());
        }
        let more = chosen.next().is_some();
        match last.filter(|_| more) {
            Some(key) => {
                // Counted once, on the first page; the token carries what is left from page to page.
                let remaining = filter.is_everything().then(|| match left {
                    Some(left) => left - entries.len() as i64,
                    None => chosen.count() as i64 + 1,
                });
                let prefix = filter.prefix(self);
                let place = key.strip_prefix(prefix.as_str()).unwrap_or(key);
                let token = encode_token(place, revision as i64, remaining);
                self.list_answer(entries, revision, token, remaining)
            }
            None => self.list_answer(entries, revision, String::new(), None),
        }
    }

    async fn choose_snapshot(&self) -> Result<Snapshot, Status> {
        let resource = self.served.stored();
        if !self.options.continue_token.is_empty() {
            let (start, revision, left) = decode_token(&self.options.continue_token)?;
            if self.options.resource_version.as_deref().is_some_and(|version| version != "0") {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            let start = format!("{}{start}", Filter::scope_prefix(self));
            if revision < 0 {
                self.server.cache.fresh().await.map_err(cache_error)?;
                let (items, revision) = resource.snapshot();
                return Ok(Snapshot { items, revision, start, left: None });
            }
            let reached = self.server.cache.reach(revision as u64).await;
            reached.map_err(cache_error).map_err(without_retry)?;
            let items = resource.snapshot_at(revision as u64).map_err(|_| {
                let prefix = Filter::scope_prefix(self);
                let mut status = Status::expired(TOKEN_TOO_OLD);
                status.continue_token = encode_token(start.strip_prefix(&prefix).unwrap_or(&start), -1, None);
                status
            })?;
            return Ok(Snapshot { items, revision: revision as u64, start, left });
        }
        let version = self.options.resource_version.as_deref().map(parse_version).transpose()?;
        if let (Some(version), Some(VersionMatch::Exact)) = (version, self.options.version_match) {
            return self.exact(version).await;
        }
        // A page of an explicit version without a match rule is of exactly that version.
        if let (Some(version), None) = (version.filter(|version| *version > 0), self.options.version_match)
            && self.options.limit > 0
        {
            return self.exact(version).await;
        }
        self.wait_for_version().await?;
        let (items, revision) = resource.snapshot();
        Ok(Snapshot { items, revision, start: String::new(), left: None })
    }

    /// Refuses a token that cannot be read.
    pub(super) fn check_token(&self) -> Result<(), Status> {
        if self.options.continue_token.is_empty() {
            return Ok(());
        }
        decode_token(&self.options.continue_token).map(drop)
    }

    async fn exact(&self, version: u64) -> Result<Snapshot, Status> {
        self.server.cache.reach(version).await.map_err(cache_error).map_err(without_retry)?;
        let items = self.served.stored().snapshot_at(version).map_err(|_| Status::expired(TOO_OLD))?;
        Ok(Snapshot { items, revision: version, start: String::new(), left: None })
    }

    /// The list in the form asked for.
    pub(super) fn list_answer(
        &self,
        entries: Vec<Entry>,
        revision: u64,
        token: String,
        remaining: Option<i64>,
    ) -> Result<Answer, Status> {
        let plain = self.accept.transform == Transform::None && self.served.kind.conversion.is_none();
        match self.accept.format {
            Format::Json if plain && !self.accept.pretty => {
                let head = self.list_head(revision, &token, remaining);
                let chunks = Chunks { head: Some(head), entries: entries.into_iter(), first: true, done: false };
                Ok(body_answer(StatusCode::OK, Format::Json.content_type(), Body::Chunks(Box::new(chunks))))
            }
            Format::Protobuf if self.accept.transform == Transform::None => {
                Ok(self.protobuf_list(&entries, revision, &token, remaining))
            }
            _ => Ok(self.list_value(&entries, revision, &token, remaining)),
        }
    }

    fn list_head(&self, revision: u64, token: &str, remaining: Option<i64>) -> Vec<u8> {
        let mut out = Vec::with_capacity(CHUNK_BYTES + 4096);
        out.extend_from_slice(b"{\"kind\":");
        json::write_string(&self.served.list_kind, &mut out);
        out.extend_from_slice(b",\"apiVersion\":");
        json::write_string(&self.served.api_version, &mut out);
        out.extend_from_slice(b",\"metadata\":{\"resourceVersion\":\"");
        out.extend_from_slice(itoa(revision, &mut [0; 20]));
        out.push(b'"');
        if !token.is_empty() {
            out.extend_from_slice(b",\"continue\":");
            json::write_string(token, &mut out);
        }
        if let Some(remaining) = remaining {
            out.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
        }
        out.extend_from_slice(b"},\"items\":[");
        out
    }

    fn protobuf_list(&self, entries: &[Entry], revision: u64, token: &str, remaining: Option<i64>) -> Answer {
        let metadata = list_metadata(revision, token, remaining);
        let encode = |entry: &Entry| {
            let mut message = Vec::with_capacity(entry.object.size());
            protobuf::encode_message(&self.served.value(entry), self.served.schema, &mut message);
            message
        };
        let items: Vec<Vec<u8>> = entries.iter().map(encode).collect();
        let mut bytes = Vec::new();
        if let Some(schema) = self.served.list_schema() {
            protobuf::encode_list(
                schema,
                &self.served.api_version,
                &self.served.list_kind,
                &metadata,
                &items,
                &mut bytes,
            );
        }
        bytes_answer(StatusCode::OK, Format::Protobuf, bytes.into())
    }

    /// Tables, metadata alone, YAML, pretty JSON, and versions that are converted: through trees.
    fn list_value(&self, entries: &[Entry], revision: u64, token: &str, remaining: Option<i64>) -> Answer {
        let metadata = list_metadata(revision, token, remaining);
        let objects = match self.accept.transform {
            Transform::None => entries.iter().map(|entry| self.served.value(entry)).collect(),
            // Columns and metadata are read from the stored form.
            _ => entries.iter().map(|entry| entry.object.value(entry.revision)).collect(),
        };
        self.values_answer(objects, metadata)
    }

    /// A list of these objects in the form asked for; for any but the whole objects they are in the stored version.
    pub(super) fn values_answer(&self, mut objects: Vec<Value>, metadata: Value) -> Answer {
        match self.accept.transform {
            Transform::Table(version) => {
                let include = &self.options.include_object;
                let table = table_for(self.served, version, &objects, include, self.now(), &metadata, true);
                value_answer(StatusCode::OK, self.accept, &table, None)
            }
            Transform::PartialObjectMetadata(version) | Transform::PartialObjectMetadataList(version) => {
                let items: Vec<Value> =
                    objects.iter().map(|object| partial_metadata(self.served, object, version)).collect();
                let list = object! {
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": format!("meta.k8s.io/{version}"),
                    "metadata": metadata,
                    // Go writes a list that was never made as null.
                    "items": if items.is_empty() { Value::Null } else { items.into() },
                };
                let name = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList";
                value_answer(StatusCode::OK, self.accept, &list, TypeRef::find(name).map(TypeRef::get))
            }
            Transform::None => {
                for object in &mut objects {
                    object.remove("kind");
                    object.remove("apiVersion");
                }
                let list = object! {
                    "kind": self.served.list_kind.as_str(),
                    "apiVersion": self.served.api_version.as_str(),
                    "metadata": metadata,
                    "items": objects,
                };
                value_answer(StatusCode::OK, self.accept, &list, self.served.list_schema())
            }
        }
    }
}

fn list_metadata(revision: u64, token: &str, remaining: Option<i64>) -> Value {
    let mut entries: Vec<(Text, Value)> = vec![(Text::new_static("resourceVersion"), revision.to_string().into())];
    if !token.is_empty() {
        entries.push((Text::new_static("continue"), token.into()));
    }
    if let Some(remaining) = remaining {
        entries.push((Text::new_static("remainingItemCount"), remaining.into()));
    }
    Value::Object(Map::in_order(entries))
}

/// Writes the list piece by piece.
struct Chunks {
    head: Option<Vec<u8>>,
    entries: std::vec::IntoIter<Entry>,
    first: bool,
    done: bool,
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut out = self.head.take().unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES + 8192));
        while out.len() < CHUNK_BYTES {
            let Some(entry) = self.entries.next() else {
                out.extend_from_slice(b"]}\n");
                self.done = true;
                break;
            };
            if !self.first {
                out.push(b',');
            }
            self.first = false;
            entry.object.write_item(entry.revision, &mut out);
        }
        Some(out.into())
    }
}

/// Which objects a list or watch is about.
pub struct Filter {
    labels: labels::Selector,
    fields: fields::Selector,
    /// The one name that is asked for, if one is.
    name: Option<String>,
    /// The field requirements by their place in the kind's row; `metadata.*` apart.
    kind: &'static rkube_kinds::Kind,
    namespace: String,
}

impl Filter {
    pub fn new(call: &Call<'_>) -> Result<Filter, Status> {
        let labels = labels::Selector::parse(&call.options.label_selector);
        let labels = labels.map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = fields::Selector::parse(&call.options.field_selector)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let kind = call.served.kind;
        for requirement in fields.requirements() {
            let label = requirement.field.as_str();
            let known = label == "metadata.name"
                || (label == "metadata.namespace" && (kind.is_namespaced() || kind.selectable.is_empty()))
                || kind.selectable.iter().any(|field| field.label == label);
            if !known {
                return Err(Status::bad_request(unknown_field(kind, label)));
            }
        }
        let mut name = fields.exact("metadata.name").map(str::to_owned);
        if !call.info.name.is_empty() {
            if name.as_deref().is_some_and(|name| name != call.info.name) {
                return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
            }
            name = Some(call.info.name.to_string());
        }
        let namespace = if kind.is_namespaced() { call.info.namespace.to_string() } else { String::new() };
        Ok(Filter { labels, fields, name, kind, namespace })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && self.name.is_none()
    }

    /// Whether everything in the scope is asked for.
    pub fn namespace_only(&self) -> Option<&str> {
        self.is_everything().then_some(self.namespace.as_str())
    }

    /// Whether an object is one of those, its namespace included.
    pub fn matches(&self, object: &Object) -> bool {
        if !self.namespace.is_empty() && object.namespace != self.namespace.as_str() {
            return false;
        }
        if self.name.as_deref().is_some_and(|name| object.name != name) {
            return false;
        }
        if !self.labels.is_everything() && !self.labels.matches_pairs(|key| object.label(key)) {
            return false;
        }
        self.fields.is_everything() || self.fields.matches(|field| self.field(object, field))
    }

    fn field<'a>(&self, object: &'a Object, field: &str) -> Option<&'a str> {
        match field {
            "metadata.name" => Some(&object.name),
            "metadata.namespace" => Some(&object.namespace),
            _ => {
                let place = self.kind.selectable.iter().position(|selectable| selectable.label == field)?;
                object.fields.get(place).map(Text::as_str)
            }
        }
    }

    /// The keys of the namespace, or of all.
    pub fn scope_prefix(call: &Call<'_>) -> String {
        let resource = call.served.stored();
        if call.served.kind.is_namespaced() && !call.info.namespace.is_empty() {
            format!("{}{}/", resource.prefix, call.info.namespace)
        } else {
            resource.prefix.clone()
        }
    }

    fn prefix(&self, call: &Call<'_>) -> String {
        Self::scope_prefix(call)
    }

    /// The matching objects in key order, from `start` on (empty: from the first).
    pub fn range<'a>(
        &'a self,
        call: &Call<'_>,
        items: &'a Items,
        start: &str,
    ) -> Box<dyn Iterator<Item = (&'a Arc<str>, &'a Entry)> + Send + 'a> {
        let prefix = self.prefix(call);
        if let Some(name) = self.name.as_deref().filter(|_| !self.namespace.is_empty() || !self.kind.is_namespaced()) {
            let key: Arc<str> = format!("{prefix}{name}").into();
            let found = items.get_key_value(&key).filter(|(_, entry)| self.matches(&entry.object));
            return Box::new(found.into_iter().filter({
                let start = start.to_owned();
                move |(key, _)| start.is_empty() || &***key >= start.as_str()
            }));
        }
        let from: Arc<str> = if start.is_empty() { prefix.as_str().into() } else { start.into() };
        let all = self.is_everything();
        let range = items.range((Bound::Included(from), Bound::Unbounded));
        Box::new(
            range
                .take_while(move |(key, _)| key.starts_with(prefix.as_str()))
                .filter(move |(_, entry)| all || self.matches(&entry.object)),
        )
    }
}

fn unknown_field(kind: &rkube_kinds::Kind, label: &str) -> String {
    if kind.selectable.is_empty() {
        return format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(label)
        );
    }
    if kind.kind == "Job" && kind.group == "batch" {
        return format!("field label {} not supported for Job", quote(label));
    }
    format!("field label not supported: {label}")
}

/// An exact version that is not there yet is nothing to wait for.
fn without_retry(mut status: Status) -> Status {
    if let Some(details) = &mut status.details {
        details.retry_after_seconds = 0;
    }
    status
}

fn encode_token(last: &str, revision: i64, left: Option<i64>) -> String {
    let start = if revision < 0 { last.to_owned() } else { format!("{last}\0") };
    let mut token = object! { "v": "meta.k8s.io/v1", "rv": revision, "start": start };
    if let Some(left) = left {
        token.set("left", left);
    }
    URL_SAFE_NO_PAD.encode(json::to_string(&token))
}

/// The key to start at (below the scope's prefix) and the revision; -1: the newest.
fn decode_token(token: &str) -> Result<(String, i64, Option<i64>), Status> {
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
