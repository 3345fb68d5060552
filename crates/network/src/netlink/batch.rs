//! Messages, several in one buffer: a header, a fixed part, and attributes that may hold others.

use std::net::IpAddr;

pub(super) const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const NESTED: u16 = 0x8000;

pub const REQUEST: u16 = 0x001;
pub const ACKNOWLEDGE: u16 = 0x004;
pub const DUMP: u16 = 0x300;
pub const REPLACE: u16 = 0x100;
pub const EXCLUSIVE: u16 = 0x200;
pub const CREATE: u16 = 0x400;
pub const APPEND: u16 = 0x800;

/// Messages that are sent at once. The kernel works them off in their order.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each message begins.
    starts: Vec<usize>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Begins a message, which ends where the next one begins.
    pub fn message(&mut self, kind: u16, flags: u16, fixed: &[u8]) -> Attributes<'_> {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        // The sequence number, filled in when it is sent, and the port: the kernel's.
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(fixed);
        align(&mut self.bytes);
        Attributes { bytes: &mut self.bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The bytes to send, with messages numbered from `first`. Only the one at `acknowledged` is answered when it succeeds:
    /// who fails is answered anyway, and a thousand answers would not fit into the socket's buffer.
    pub(super) fn finish(mut self, first: u32, acknowledged: usize) -> Vec<u8> {
        let ends = self.starts.iter().skip(1).copied().chain([self.bytes.len()]);
        let spans: Vec<(usize, usize)> = self.starts.iter().copied().zip(ends).collect();
        for (number, (start, end)) in spans.into_iter().enumerate() {
            let length = u32::try_from(end - start).expect("messages are built from short parts");
            let sequence =
                first.wrapping_add(u32::try_from(number).expect("batches are bounded by the socket's buffer"));
            self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
            self.bytes[start + 8..start + 12].copy_from_slice(&sequence.to_ne_bytes());
            if number == acknowledged {
                let flags = u16::from_ne_bytes([self.bytes[start + 6], self.bytes[start + 7]]) | ACKNOWLEDGE;
                self.bytes[start + 6..start + 8].copy_from_slice(&flags.to_ne_bytes());
            }
        }
        self.bytes
    }
}

/// The attributes of a message, or of an attribute.
pub struct Attributes<'a> {
    bytes: &'a mut Vec<u8>,
}

impl Attributes<'_> {
    pub fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(value.len() + ATTRIBUTE_HEADER_BYTES).expect("values are short");
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        align(self.bytes);
        self
    }

    /// In the host's byte order, as links and routes have it.
    pub fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// In the network's byte order, as nftables has it.
    pub fn number_be(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// With a zero at its end.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    pub fn address(&mut self, kind: u16, value: IpAddr) -> &mut Self {
        match value {
            IpAddr::V4(address) => self.bytes(kind, &address.octets()),
            IpAddr::V6(address) => self.bytes(kind, &address.octets()),
        }
    }

    pub fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes<'_>)) -> &mut Self {
        self.nested_behind(kind, &[], fill)
    }

    /// Attributes behind a fixed part.
    pub fn nested_behind(&mut self, kind: u16, fixed: &[u8], fill: impl FnOnce(&mut Attributes<'_>)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        self.bytes.extend_from_slice(fixed);
        align(self.bytes);
        fill(&mut Attributes { bytes: self.bytes });
        let length = u16::try_from(self.bytes.len() - start).expect("what is larger is sent in several messages");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }
}

fn align(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The attributes in these bytes, as far as they are well formed.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]) & !NESTED;
        let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of this kind.
pub fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

pub fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

/// Without the zero at its end.
pub fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_numbered_and_aligned() {
        let mut batch = Batch::new();
        batch.message(16, CREATE, &[1, 2, 3]).text(3, "eth0").number(4, 1500);
        batch.message(17, 0, &[]);
        let bytes = batch.finish(7, 1);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        // Header, fixed part, "eth0\0" with its header, a number with its header.
        let first = 16 + 4 + 12 + 8;
        assert_eq!((word(0), word(8)), (first, 7));
        assert_eq!((word(first as usize), word(first as usize + 8)), (16, 8));
        let flags = |at: usize| u16::from_ne_bytes([bytes[at + 6], bytes[at + 7]]);
        assert_eq!((flags(0), flags(first as usize)), (REQUEST | CREATE, REQUEST | ACKNOWLEDGE));
        assert_eq!(text(attribute(&bytes[20..first as usize], 3).unwrap()), "eth0");
        assert_eq!(number(attribute(&bytes[20..first as usize], 4).unwrap()), Some(1500));
    }

    #[test]
    fn what_is_not_well_formed_ends_it() {
        for bytes in [&[][..], &[9, 0], &[3, 0, 1, 0], &[9, 0, 1, 0, 5], &[0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(attributes(bytes).count(), 0, "{bytes:?}");
        }
    }
}
