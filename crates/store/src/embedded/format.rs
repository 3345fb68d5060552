//! What each byte on disk means. The layout is described in the [module's documentation](super).

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;

use crate::contract::{Error, LeaseId, Revision};
use crate::memory::state::{Item, Op};

/// The newest layout that this code reads.
pub(crate) const FORMAT_VERSION: u32 = 2;
pub(crate) const HEADER_LENGTH: u64 = 48;
pub(crate) const FRAME_HEADER_LENGTH: usize = 12;
const FRAME_MARKER: [u8; 3] = *b"rkF";

const TAG_PUT: u8 = 1;
const TAG_DELETE: u8 = 2;
const TAG_GRANT: u8 = 3;
const TAG_REVOKE: u8 = 4;
const TAG_END: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Log,
    Snapshot,
    Backup,
}

impl FileKind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            FileKind::Log => b"rkubelog",
            FileKind::Snapshot => b"rkubesnp",
            FileKind::Backup => b"rkubebak",
        }
    }

    /// The layout that is written: the oldest one that says it all, so that older programs can read it.
    fn version(self) -> u32 {
        match self {
            FileKind::Log => 2,
            FileKind::Snapshot | FileKind::Backup => 1,
        }
    }
}

/// How a frame got into its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// As part of a file's beginning, or of a file that is written in one go. Before version 2: in any way.
    Begun = 1,
    /// It was appended to a log that had been named the newest.
    Appended = 2,
}

/// How every file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: FileKind,
    /// The number in the file's name.
    pub number: u64,
    /// The store's revision when the file was begun.
    pub revision: Revision,
    /// The highest lease id given by then.
    pub last_lease: LeaseId,
    /// Of a log: so much of the log before it counts, whatever lies behind.
    pub previous_length: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LENGTH as usize);
        bytes.extend_from_slice(self.kind.magic());
        bytes.extend_from_slice(&self.kind.version().to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.revision.to_le_bytes());
        bytes.extend_from_slice(&self.last_lease.to_le_bytes());
        bytes.extend_from_slice(&self.previous_length.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Says what is wrong, without the file's name.
    pub(crate) fn decode(bytes: &[u8], kind: FileKind) -> Result<Header, String> {
        let mut fields = Fields(bytes);
        let damaged = || "its header is damaged".to_owned();
        if fields.take(8).ok_or_else(damaged)? != kind.magic() {
            return Err("it does not begin as such a file does".to_owned());
        }
        let version = fields.u32().ok_or_else(damaged)?;
        if version > FORMAT_VERSION {
            return Err(format!(
                "it is of format {version}, this program knows formats up to {FORMAT_VERSION}: use a newer one"
            ));
        }
        let header = (|| {
            Some(Header {
                kind,
                number: fields.u64()?,
                revision: fields.u64()?,
                last_lease: fields.u64()? as i64,
                previous_length: fields.u64()?,
            })
        })();
        let header = header.ok_or_else(damaged)?;
        let checksum = fields.u32().ok_or_else(damaged)?;
        if checksum != crc32fast::hash(&bytes[..HEADER_LENGTH as usize - 4]) {
            return Err(damaged());
        }
        Ok(header)
    }
}

/// A frame that is being filled: room for its header, then ops.
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
}

impl FrameBuffer {
    pub(crate) fn new() -> Self {
        FrameBuffer { bytes: vec![0; FRAME_HEADER_LENGTH] }
    }

    pub(crate) fn with_payload(payload: &[u8]) -> Self {
        let mut buffer = FrameBuffer::new();
        buffer.bytes.extend_from_slice(payload);
        buffer
    }

    /// Makes it empty; what is far larger than usual is given back.
    pub(crate) fn clear(&mut self, usual_max: usize) {
        self.bytes.truncate(FRAME_HEADER_LENGTH);
        self.bytes.shrink_to(usual_max);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == FRAME_HEADER_LENGTH
    }

    pub(crate) fn op(&mut self, op: &Op) {
        match op {
            Op::Put { key, value, create_revision, revision, lease, .. } => {
                self.put(key, value, *create_revision, *revision, *lease);
            }
            Op::Delete { key, revision } => {
                self.bytes.push(TAG_DELETE);
                self.number(*revision);
                self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
                self.bytes.extend_from_slice(key.as_bytes());
            }
            Op::Grant { id, ttl_seconds } => {
                self.bytes.push(TAG_GRANT);
                self.number(*id as u64);
                self.number(*ttl_seconds);
            }
            Op::Revoke { id } => {
                self.bytes.push(TAG_REVOKE);
                self.number(*id as u64);
            }
        }
    }

    pub(crate) fn item(&mut self, key: &str, item: &Item) {
        self.put(key, &item.value, item.create_revision, item.mod_revision, item.lease);
    }

    /// The last op of a snapshot or backup.
    pub(crate) fn end(&mut self, items: u64) {
        self.bytes.push(TAG_END);
        self.number(items);
    }

    /// The frame as it stands in file `number` at `offset`.
    pub(crate) fn finish(&mut self, origin: Origin, number: u64, offset: u64) -> &[u8] {
        let length = (self.bytes.len() - FRAME_HEADER_LENGTH) as u32;
        let checksum = frame_checksum(origin, number, offset, &self.bytes[FRAME_HEADER_LENGTH..]);
        self.bytes[0..3].copy_from_slice(&FRAME_MARKER);
        self.bytes[3] = origin as u8;
        self.bytes[4..8].copy_from_slice(&length.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        &self.bytes
    }

    fn put(&mut self, key: &str, value: &[u8], create_revision: Revision, revision: Revision, lease: Option<LeaseId>) {
        self.bytes.reserve(1 + 3 * 8 + 2 * 4 + key.len() + value.len());
        self.bytes.push(TAG_PUT);
        self.number(revision);
        self.number(create_revision);
        self.number(lease.unwrap_or(0) as u64);
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(value);
    }

    fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }
}

/// What a frame of a file says.
pub(crate) enum Record {
    Put { key: Arc<str>, item: Item },
    Delete { key: Arc<str>, revision: Revision },
    Grant { id: LeaseId, ttl_seconds: u64 },
    Revoke { id: LeaseId },
    End { items: u64 },
}

/// Calls `each` for each record of a frame's payload. `None`: it makes no sense, though its checksum held.
pub(crate) fn decode_payload(payload: &[u8], mut each: impl FnMut(Record)) -> Option<()> {
    let mut fields = Fields(payload);
    while let Some(tag) = fields.take(1) {
        each(match tag[0] {
            TAG_PUT => {
                let mod_revision = fields.u64()?;
                let create_revision = fields.u64()?;
                let lease = Some(fields.u64()? as i64).filter(|lease| *lease != 0);
                let (key_length, value_length) = (fields.u32()?, fields.u32()?);
                let key = fields.text(key_length)?;
                let value = Bytes::copy_from_slice(fields.take(value_length as usize)?);
                Record::Put { key, item: Item { value, create_revision, mod_revision, lease } }
            }
            TAG_DELETE => {
                let revision = fields.u64()?;
                let key_length = fields.u32()?;
                Record::Delete { key: fields.text(key_length)?, revision }
            }
            TAG_GRANT => Record::Grant { id: fields.u64()? as i64, ttl_seconds: fields.u64()? },
            TAG_REVOKE => Record::Revoke { id: fields.u64()? as i64 },
            TAG_END => Record::End { items: fields.u64()? },
            _ => return None,
        });
    }
    Some(())
}

/// Reads a file frame by frame.
pub(crate) struct FrameReader<R> {
    source: io::BufReader<R>,
    number: u64,
    offset: u64,
    /// Where the file ends, or what of it counts.
    end: u64,
    payload: Vec<u8>,
}

pub(crate) enum Frame<'a> {
    Good(Origin, &'a [u8]),
    /// At the end.
    None,
    /// Here stands something else.
    Bad,
}

impl<R: Read> FrameReader<R> {
    /// `source` stands just behind the header.
    pub(crate) fn new(source: R, number: u64, end: u64) -> Self {
        let source = io::BufReader::with_capacity(1 << 18, source);
        FrameReader { source, number, offset: HEADER_LENGTH, end, payload: Vec::new() }
    }

    /// Where the next frame begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn next(&mut self) -> io::Result<Frame<'_>> {
        if self.offset == self.end {
            return Ok(Frame::None);
        }
        let left = self.end - self.offset;
        if left < FRAME_HEADER_LENGTH as u64 {
            return Ok(Frame::Bad);
        }
        let mut head = [0; FRAME_HEADER_LENGTH];
        self.source.read_exact(&mut head)?;
        let Some((origin, length, checksum)) =
            frame_head(&head).filter(|(_, length, _)| u64::from(*length) <= left - FRAME_HEADER_LENGTH as u64)
        else {
            return Ok(Frame::Bad);
        };
        self.payload.resize(length as usize, 0);
        self.source.read_exact(&mut self.payload)?;
        if frame_checksum(origin, self.number, self.offset, &self.payload) != checksum {
            return Ok(Frame::Bad);
        }
        self.offset += FRAME_HEADER_LENGTH as u64 + u64::from(length);
        Ok(Frame::Good(origin, &self.payload))
    }
}

/// The error for a file that cannot be read as what it should be.
pub(crate) fn corrupt(name: &str, what: &str) -> Error {
    Error::Corrupt(format!("{name}: {what}"))
}

/// How a frame came there, its payload's length and its checksum.
pub(crate) fn frame_head(head: &[u8; FRAME_HEADER_LENGTH]) -> Option<(Origin, u32, u32)> {
    let mut fields = Fields(head);
    (fields.take(3)? == FRAME_MARKER).then_some(())?;
    let origin = match fields.take(1)? {
        [1] => Origin::Begun,
        [2] => Origin::Appended,
        _ => return None,
    };
    Some((origin, fields.u32()?, fields.u32()?))
}

/// Bound to the frame's place, so that a copy of it elsewhere (inside a value, say) is not taken for a frame.
fn frame_checksum(origin: Origin, number: u64, offset: u64, payload: &[u8]) -> u32 {
    let mut hasher = place_checksum(origin, number, offset, payload.len() as u32);
    hasher.update(payload);
    hasher.finalize()
}

/// The part of a frame's checksum before its payload.
pub(crate) fn place_checksum(origin: Origin, number: u64, offset: u64, length: u32) -> crc32fast::Hasher {
    let mut hasher = crc32fast::Hasher::new();
    if origin == Origin::Appended {
        hasher.update(&[origin as u8]);
    }
    hasher.update(&number.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self, length: u32) -> Option<Arc<str>> {
        Some(std::str::from_utf8(self.take(length as usize)?).ok()?.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], number: u64) -> Vec<Vec<u8>> {
        let end = HEADER_LENGTH + bytes.len() as u64;
        let mut frames = FrameReader::new(bytes, number, end);
        let mut payloads = Vec::new();
        while let Ok(Frame::Good(_, payload)) = frames.next() {
            payloads.push(payload.to_vec());
        }
        payloads
    }

    proptest! {
        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Header::decode(&bytes, FileKind::Log);
            let _ = decode_payload(&bytes, |_| {});
            read(&bytes, 1);
            crate::embedded::find::find_frame(&bytes, 1, 48);
        }

        #[test]
        fn records_come_back(
            key in ".{0,40}",
            value in prop::collection::vec(any::<u8>(), 0..200),
            revision in any::<u64>(),
            lease in prop::option::of(1..i64::MAX),
        ) {
            let mut buffer = FrameBuffer::new();
            let item = Item { value: value.into(), create_revision: revision / 2, mod_revision: revision, lease };
            buffer.item(&key, &item);
            buffer.op(&Op::Delete { key: key.as_str().into(), revision });
            buffer.op(&Op::Grant { id: 7, ttl_seconds: revision });
            buffer.op(&Op::Revoke { id: -7 });
            buffer.end(3);
            let frame = buffer.finish(Origin::Appended, 5, HEADER_LENGTH).to_vec();
            let payloads = read(&frame, 5);
            prop_assert!(read(&frame, 6).is_empty(), "of another file");
            let mut told = Vec::new();
            decode_payload(&payloads[0], |record| told.push(match record {
                Record::Put { key, item } => format!("put {key} {:?} {} {} {:?}", item.value, item.create_revision, item.mod_revision, item.lease),
                Record::Delete { key, revision } => format!("delete {key} {revision}"),
                Record::Grant { id, ttl_seconds } => format!("grant {id} {ttl_seconds}"),
                Record::Revoke { id } => format!("revoke {id}"),
                Record::End { items } => format!("end {items}"),
            })).unwrap();
            prop_assert_eq!(told, [
                format!("put {key} {:?} {} {revision} {lease:?}", item.value, revision / 2),
                format!("delete {key} {revision}"),
                format!("grant 7 {revision}"),
                "revoke -7".to_owned(),
                "end 3".to_owned(),
            ]);
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0_usize..800, value in prop::collection::vec(any::<u8>(), 80..81)) {
            let mut buffer = FrameBuffer::new();
            buffer.item("key", &Item { value: value.into(), create_revision: 1, mod_revision: 2, lease: None });
            let mut frame = buffer.finish(Origin::Appended, 5, HEADER_LENGTH).to_vec();
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(read(&frame, 5).is_empty());
        }
    }

    #[test]
    fn headers_come_back() {
        let header = Header { kind: FileKind::Log, number: 3, revision: 9, last_lease: 4, previous_length: 77 };
        let bytes = header.encode();
        assert_eq!(bytes.len() as u64, HEADER_LENGTH);
        assert_eq!(Header::decode(&bytes, FileKind::Log), Ok(header));
        assert!(Header::decode(&bytes, FileKind::Snapshot).is_err());
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1;
            assert!(Header::decode(&damaged, FileKind::Log).is_err(), "byte {index}");
        }
    }
}
