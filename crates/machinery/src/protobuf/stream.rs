//! Lists from items that are messages already, and the frames of a watch.

use super::encode::encode_message;
use super::wire::{WireType, varint_len, write_bytes, write_nested, write_string_field, write_tag, write_varint};
use super::{ENVELOPE_TAIL, envelope_head};
use crate::schema::{Shape, Type};
use crate::value::Value;

/// What stands around the items of a list, so that it can be sent item by item: `head`, each item behind its
/// [`ListFrame::item_head`], `tail`.
pub struct ListFrame {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    items_number: u32,
}

impl ListFrame {
    /// The envelope carries the length of all, so that of the items is asked for: the sum of [`ListFrame::room_for`]
    /// each.
    pub fn new(ty: &'static Type, api_version: &str, kind: &str, metadata: &Value, items: usize) -> ListFrame {
        let items_number = ty.field("items").map_or(2, |field| field.number);
        let mut list_meta = Vec::with_capacity(64);
        let mut metadata_number = 1;
        if let Some(field) = ty.field("metadata") {
            metadata_number = field.number;
            write_nested(field.number, &mut list_meta, |out| {
                if let Shape::Struct(list_meta_type) = field.shape {
                    encode_message(metadata, list_meta_type.get(), out);
                }
            });
        }
        let mut head = Vec::with_capacity(list_meta.len() + api_version.len() + kind.len() + 32);
        envelope_head(api_version, kind, list_meta.len() + items, &mut head);
        let mut tail = Vec::with_capacity(ENVELOPE_TAIL.len());
        // One list of old has its items first.
        if metadata_number < items_number { &mut head } else { &mut tail }.extend_from_slice(&list_meta);
        tail.extend_from_slice(ENVELOPE_TAIL);
        ListFrame { head, tail, items_number }
    }

    /// What an item of this length takes, with what stands before it.
    pub fn room_for(length: usize) -> usize {
        1 + varint_len(length as u64) + length
    }

    /// Appends what stands before an item of this length.
    pub fn item_head(&self, length: usize, out: &mut Vec<u8>) {
        write_tag(self.items_number, WireType::Bytes, out);
        write_varint(length as u64, out);
    }
}

/// Appends a list as a whole.
pub fn encode_list<T: AsRef<[u8]>>(
    ty: &'static Type,
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: &[T],
    out: &mut Vec<u8>,
) {
    let room = items.iter().map(|item| ListFrame::room_for(item.as_ref().len())).sum();
    let frame = ListFrame::new(ty, api_version, kind, metadata, room);
    out.reserve(frame.head.len() + room + frame.tail.len());
    out.extend_from_slice(&frame.head);
    for item in items {
        frame.item_head(item.as_ref().len(), out);
        out.extend_from_slice(item.as_ref());
    }
    out.extend_from_slice(&frame.tail);
}

/// A frame of a watch: length, then a bare `WatchEvent` around the object's envelope.
pub fn encode_watch_event(event_type: &str, object_envelope: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object_envelope.len() + event_type.len() + 24);
    out.extend_from_slice(&[0; 4]);
    write_string_field(1, event_type, &mut out);
    write_tag(2, WireType::Bytes, &mut out);
    let raw_len = object_envelope.len();
    write_varint((1 + varint_len(raw_len as u64) + raw_len) as u64, &mut out);
    write_tag(1, WireType::Bytes, &mut out);
    write_bytes(object_envelope, &mut out);
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}
