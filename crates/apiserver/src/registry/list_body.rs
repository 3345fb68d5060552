//! A list as it goes out: made piece by piece while the connection takes it, in every form. However many objects there
//! are, a reader that does not read holds one piece and a snapshot, which others share.
//!
//! A protobuf list says first how long it is, so its objects are looked at twice; each remembers its own length.
//!
//! What takes long is done in steps, and between them others on the thread may go first: an empty piece says so.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use rkube_machinery::protobuf::{self, ListFrame};
use rkube_machinery::schema::structural::sort;
use rkube_machinery::{Type, TypeRef, Value, json, object, yaml};

use super::selected::{Next, Source};
use crate::content::{
    Accept, Answer, Body, Format, Transform, body_answer, partial_metadata, table_for, table_head, table_row,
    value_answer,
};
use rkube_catalog::Entry;
use rkube_catalog::Served;

/// A list is written in pieces of about this size.
const CHUNK_BYTES: usize = 128 * 1024;
/// So many bytes of objects are read in one step, however little of them is shown.
const STEP_BYTES: usize = 1 << 20;
/// Stands for the items where what is around them is written. It occurs in no JSON and no YAML.
const HERE: &str = "\0";
const PARTIAL_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList";

/// The form that is asked for.
pub struct Form {
    pub served: Arc<Served>,
    pub accept: Accept,
    /// What the rows of a table carry of their objects.
    pub include: String,
    pub now: i64,
}

pub struct ListBody {
    form: Form,
    source: Source,
    /// The list without its items.
    list: Value,
    state: State,
    /// What is written and not yet a whole piece.
    out: Vec<u8>,
}

enum State {
    /// Finding out how long all items are together.
    Measuring {
        source: Source,
        room: usize,
    },
    Begin,
    /// Items were written; what stands behind the last.
    Items {
        tail: Vec<u8>,
    },
    Protobuf(ListFrame),
    Done,
}

impl ListBody {
    pub fn of(form: Form, source: impl Into<Source>, metadata: Value) -> ListBody {
        let source = source.into();
        let state = match form.list_schema() {
            Some(_) => State::Measuring { source: source.clone(), room: 0 },
            None => State::Begin,
        };
        let list = form.list(metadata);
        ListBody { form, source, list, state, out: Vec::new() }
    }

    /// The answer, once there is something to send.
    pub async fn answer_when_begun(mut self) -> Answer {
        loop {
            match self.next() {
                Some(pause) if pause.is_empty() => tokio::task::yield_now().await,
                first => return self.answer_with(first),
            }
        }
    }

    pub fn answer(mut self) -> Answer {
        let first = self.next();
        self.answer_with(first)
    }

    fn answer_with(self, first: Option<Bytes>) -> Answer {
        let format = self.form.format();
        let body = match self.state {
            State::Done => Body::Whole(first.unwrap_or_default()),
            _ => Body::Chunks(Box::new(first.into_iter().chain(self))),
        };
        body_answer(StatusCode::OK, format.content_type(), body)
    }

    /// Goes on measuring; what begins the list is written when all is known.
    fn measure(&mut self, out: &mut Vec<u8>) -> Step {
        let (State::Measuring { source, room }, Some(schema)) = (&mut self.state, self.form.list_schema()) else {
            return Step::Done;
        };
        let mut read = 0;
        let mut scratch = Vec::new();
        while read < STEP_BYTES {
            let entry = match source.next() {
                Next::Entry(entry) => entry,
                Next::Pause => return Step::Pause,
                Next::End => {
                    let (version, kind) = (self.list.str("apiVersion"), self.list.str("kind"));
                    let frame = ListFrame::new(schema, version, kind, self.list.get("metadata"), *room);
                    out.extend_from_slice(&frame.head);
                    self.state = State::Protobuf(frame);
                    return Step::Done;
                }
            };
            let mut measure = || {
                scratch.clear();
                read += entry.object.size();
                self.form.encode(&entry, &mut scratch);
                scratch.len()
            };
            let length = match self.form.is_stored() {
                true => entry.object.protobuf_length(measure),
                false => measure(),
            };
            *room += ListFrame::room_for(length);
        }
        Step::Pause
    }

    fn write(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        let first = matches!(self.state, State::Begin);
        if first {
            self.begin(out);
        }
        if let State::Protobuf(frame) = &self.state {
            let mut message = Vec::with_capacity(entry.object.size());
            self.form.encode(entry, &mut message);
            frame.item_head(message.len(), out);
            out.extend_from_slice(&message);
            return;
        }
        match (self.form.format(), self.form.accept.pretty) {
            (Format::Yaml, _) => {
                let item = Value::Array(vec![self.form.item(entry)]);
                out.extend_from_slice(yaml::write(&item).as_bytes());
            }
            (_, true) => {
                out.extend_from_slice(if first { b"" } else { b",\n    " });
                json::write_indented(&self.form.item(entry), 2, out);
            }
            (_, false) => {
                out.extend_from_slice(if first { b"" } else { b"," });
                match self.form.is_stored() {
                    true => entry.object.write_item(entry.revision, out),
                    false => json::write(&self.form.item(entry), out),
                }
            }
        }
    }

    /// Writes what stands before the first item.
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.list.set(self.form.items_key(), vec![Value::Written(HERE.into())]);
        let around = self.form.render(&self.list);
        let place = around.iter().position(|byte| *byte == HERE.as_bytes()[0]).unwrap_or(around.len());
        let (head, tail) = (&around[..place], around.get(place + 1..).unwrap_or_default());
        // Each item in YAML comes with what opens and ends its lines.
        let (head, tail) = match self.form.format() {
            Format::Yaml => (head.strip_suffix(b"- ").unwrap_or(head), tail.strip_prefix(b"\n").unwrap_or(tail)),
            _ => (head, tail),
        };
        out.reserve(CHUNK_BYTES.min(self.source.size_at_hand()) + head.len() + tail.len());
        out.extend_from_slice(head);
        self.state = State::Items { tail: tail.to_vec() };
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Items { tail } => out.extend_from_slice(&tail),
            State::Protobuf(frame) => out.extend_from_slice(&frame.tail),
            _ => {
                self.list.set(self.form.items_key(), self.form.no_items());
                *out = self.form.render(&self.list);
            }
        }
    }
}

enum Step {
    Done,
    Pause,
}

impl Iterator for ListBody {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if matches!(self.state, State::Done) {
            return None;
        }
        let mut out = std::mem::take(&mut self.out);
        if let Step::Pause = self.measure(&mut out) {
            return Some(Bytes::new());
        }
        out.reserve(CHUNK_BYTES.min(self.source.size_at_hand()));
        let mut read = 0;
        while out.len() < CHUNK_BYTES {
            match self.source.next() {
                Next::Entry(entry) if read < STEP_BYTES => {
                    read += entry.object.size();
                    self.write(&entry, &mut out);
                }
                Next::Entry(entry) => {
                    self.source.put_back(entry);
                    self.out = out;
                    return Some(Bytes::new());
                }
                Next::Pause => {
                    self.out = out;
                    return Some(Bytes::new());
                }
                Next::End => {
                    self.end(&mut out);
                    return Some(out.into()).filter(|rest: &Bytes| !rest.is_empty());
                }
            }
        }
        Some(out.into())
    }
}

impl Form {
    /// A list of these objects at once; for any form but the whole objects they are in the stored version.
    pub fn whole(&self, mut objects: Vec<Value>, metadata: Value) -> Answer {
        match self.accept.transform {
            Transform::Table(version) => {
                let table = table_for(&self.served, version, &objects, &self.include, self.now, &metadata, true);
                value_answer(StatusCode::OK, self.accept, &table, None)
            }
            Transform::PartialObjectMetadata(version) | Transform::PartialObjectMetadataList(version) => {
                let items = objects.iter().map(|object| partial_metadata(&self.served, object, version));
                let items: Vec<Value> = items.collect();
                let mut list = self.list(metadata);
                list.set("items", if items.is_empty() { self.no_items() } else { items.into() });
                value_answer(StatusCode::OK, self.accept, &list, TypeRef::find(PARTIAL_LIST).map(TypeRef::get))
            }
            Transform::None => {
                objects.iter_mut().for_each(|object| self.as_item(object));
                let mut list = self.list(metadata);
                list.set("items", objects);
                value_answer(StatusCode::OK, self.accept, &list, self.served.list_schema())
            }
        }
    }

    /// The list without its items.
    fn list(&self, metadata: Value) -> Value {
        match self.accept.transform {
            Transform::Table(version) => table_head(&self.served, version, metadata, true),
            Transform::PartialObjectMetadata(version) | Transform::PartialObjectMetadataList(version) => object! {
                "kind": "PartialObjectMetadataList",
                "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": metadata,
            },
            Transform::None if self.served.is_custom() => object! {
                "apiVersion": self.served.api_version.as_str(),
                "items": Value::Null,
                "kind": self.served.kind.list_kind.as_str(),
                "metadata": custom_metadata(metadata),
            },
            Transform::None => object! {
                "kind": self.served.kind.list_kind.as_str(),
                "apiVersion": self.served.api_version.as_str(),
                "metadata": metadata,
            },
        }
    }

    /// An object as it stands in a list: without what the list says of all. Custom ones are whole.
    fn as_item(&self, object: &mut Value) {
        if !self.served.is_custom() {
            object.remove("kind");
            object.remove("apiVersion");
        }
    }

    fn items_key(&self) -> &'static str {
        if let Transform::Table(_) = self.accept.transform { "rows" } else { "items" }
    }

    /// Go writes a list that was never made as null.
    fn no_items(&self) -> Value {
        match self.accept.transform {
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => Value::Null,
            Transform::None | Transform::Table(_) => Value::Array(Vec::new()),
        }
    }

    /// An object as an item. Columns and metadata are read from the stored form.
    fn item(&self, entry: &Entry) -> Value {
        match self.accept.transform {
            Transform::None => {
                let mut object = self.served.value(entry);
                self.as_item(&mut object);
                object
            }
            Transform::Table(version) => {
                table_row(&self.served, version, &entry.object.value(entry.revision), &self.include, self.now)
            }
            Transform::PartialObjectMetadata(version) | Transform::PartialObjectMetadataList(version) => {
                partial_metadata(&self.served, &entry.object.value(entry.revision), version)
            }
        }
    }

    /// Whether items are the objects as they are kept.
    fn is_stored(&self) -> bool {
        self.accept.transform == Transform::None && self.served.kind.conversion.is_none()
    }

    fn format(&self) -> Format {
        match self.accept.format {
            Format::Protobuf if self.list_schema().is_none() => Format::Json,
            format => format,
        }
    }

    /// The type of a list in protobuf, where that is what is asked for. A table has none.
    fn list_schema(&self) -> Option<&'static Type> {
        match self.accept.transform {
            _ if self.accept.format != Format::Protobuf => None,
            Transform::None => self.served.list_schema(),
            Transform::Table(_) => None,
            _ => TypeRef::find(PARTIAL_LIST).map(TypeRef::get),
        }
    }

    /// Appends an object as a bare protobuf message.
    fn encode(&self, entry: &Entry, out: &mut Vec<u8>) {
        match self.accept.transform {
            Transform::None => {
                if let Some(table) = self.served.kind.schema.table() {
                    protobuf::encode_message(&self.served.value(entry), table, out);
                }
            }
            _ => {
                if let Some(schema) = TypeRef::find(crate::content::PARTIAL) {
                    protobuf::encode_message(&self.item(entry), schema.get(), out);
                }
            }
        }
    }

    fn render(&self, list: &Value) -> Vec<u8> {
        match (self.format(), self.accept.pretty) {
            (Format::Yaml, _) => yaml::write(list).into_bytes(),
            (_, true) => {
                let mut out = Vec::with_capacity(512);
                json::write_pretty(list, &mut out);
                out
            }
            (_, false) => {
                let mut out = Vec::with_capacity(512);
                json::write(list, &mut out);
                out.push(b'\n');
                out
            }
        }
    }
}

/// The metadata of a list of custom resources: sorted, and with a token, even if it is empty.
fn custom_metadata(mut metadata: Value) -> Value {
    if !metadata.has("continue") {
        metadata.set("continue", "");
    }
    sort(&mut metadata);
    metadata
}

#[cfg(test)]
#[path = "list_body_tests.rs"]
mod tests;
