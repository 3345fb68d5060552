//! Protobuf's own alphabet: varints, tags, lengths.

use super::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    StartGroup = 3,
    EndGroup = 4,
    Fixed32 = 5,
    Illegal6 = 6,
    Illegal7 = 7,
}

impl WireType {
    fn of(wire: u64) -> WireType {
        match wire & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Bytes,
            3 => WireType::StartGroup,
            4 => WireType::EndGroup,
            5 => WireType::Fixed32,
            6 => WireType::Illegal6,
            _ => WireType::Illegal7,
        }
    }
}

/// Reads one message from front to back.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// The message's name, for errors.
    message: &'a str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], message: &'a str) -> Self {
        Reader { rest: bytes, message }
    }

    /// The next field's number and wire type, `None` at the end.
    pub(super) fn next_tag(&mut self) -> Result<Option<(u32, WireType)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let wire = self.varint()?;
        let number = (wire >> 3) as i32;
        let wire_type = WireType::of(wire);
        if wire_type == WireType::EndGroup {
            return Err(Error::EndGroup { message: self.message.to_owned() });
        }
        if number <= 0 {
            return Err(Error::IllegalTag { message: self.message.to_owned(), number, wire });
        }
        Ok(Some((number as u32, wire_type)))
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for index in 0..10 {
            let byte = *self.rest.get(index).ok_or(Error::UnexpectedEnd)?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Error::IntegerOverflow)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        if length > i64::MAX as u64 {
            return Err(Error::NegativeLength);
        }
        let length = usize::try_from(length).map_err(|_| Error::NegativeLength)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::UnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number; `field` names the field in an error.
    pub(super) fn number(&mut self, wire_type: WireType, field: impl FnOnce() -> String) -> Result<i64, Error> {
        expect(WireType::Varint, wire_type, field)?;
        Ok(self.varint()? as i64)
    }

    pub(super) fn double(&mut self, wire_type: WireType, field: impl FnOnce() -> String) -> Result<f64, Error> {
        expect(WireType::Fixed64, wire_type, field)?;
        let bytes = self.take(8)?;
        Ok(f64::from_le_bytes(bytes.try_into().map_err(|_| Error::UnexpectedEnd)?))
    }

    pub(super) fn bytes(&mut self, wire_type: WireType, field: impl FnOnce() -> String) -> Result<&'a [u8], Error> {
        expect(WireType::Bytes, wire_type, field)?;
        let length = self.varint()?;
        self.take(length)
    }

    pub(super) fn text(&mut self, wire_type: WireType, field: impl Fn() -> String) -> Result<&'a str, Error> {
        let bytes = self.bytes(wire_type, &field)?;
        std::str::from_utf8(bytes).map_err(|_| Error::InvalidText { field: field() })
    }

    /// Passes over a field that nobody asked for.
    pub(super) fn skip(&mut self, wire_type: WireType) -> Result<(), Error> {
        let mut open_groups = 0usize;
        let mut wire_type = wire_type;
        loop {
            match wire_type {
                WireType::Varint => {
                    self.varint()?;
                }
                WireType::Fixed64 => {
                    self.take(8)?;
                }
                WireType::Bytes => {
                    let length = self.varint()?;
                    self.take(length)?;
                }
                WireType::StartGroup => open_groups += 1,
                WireType::EndGroup if open_groups == 0 => return Err(Error::UnexpectedEndOfGroup),
                WireType::EndGroup => open_groups -= 1,
                WireType::Fixed32 => {
                    self.take(4)?;
                }
                WireType::Illegal6 | WireType::Illegal7 => return Err(Error::IllegalWireType(wire_type as u8)),
            }
            if open_groups == 0 {
                return Ok(());
            }
            wire_type = WireType::of(self.varint()?);
        }
    }
}

fn expect(wanted: WireType, found: WireType, field: impl FnOnce() -> String) -> Result<(), Error> {
    if wanted == found { Ok(()) } else { Err(Error::WrongWireType { found: found as u8, field: field() }) }
}

pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

pub(super) fn write_tag(number: u32, wire_type: WireType, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | wire_type as u64, out);
}

/// A length and the bytes.
pub(super) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A field with a text.
pub fn write_string_field(number: u32, text: &str, out: &mut Vec<u8>) {
    write_tag(number, WireType::Bytes, out);
    write_bytes(text.as_bytes(), out);
}

/// A field with a whole number.
pub fn write_number_field(number: u32, value: i64, out: &mut Vec<u8>) {
    write_tag(number, WireType::Varint, out);
    write_varint(value as u64, out);
}

/// Writes a tag and what `body` appends, behind its length. Most messages are shorter than 128 bytes, so one byte is
/// kept for the length and longer bodies move up.
pub fn write_nested(number: u32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    write_tag(number, WireType::Bytes, out);
    let start = out.len();
    out.push(0);
    body(out);
    let length = out.len() - start - 1;
    let extra = varint_len(length as u64) - 1;
    if extra > 0 {
        out.resize(out.len() + extra, 0);
        out.copy_within(start + 1..start + 1 + length, start + 1 + extra);
    }
    let mut value = length;
    for byte in &mut out[start..start + extra] {
        *byte = (value as u8 & 0x7f) | 0x80;
        value >>= 7;
    }
    out[start + extra] = value as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_varints() {
        for (value, length) in [(0, 1), (1, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!((out.len(), varint_len(value)), (length, length), "{value}");
            assert_eq!(Reader::new(&out, "M").varint().unwrap(), value);
        }
    }

    #[test]
    fn nested_bodies_of_any_length_stand_behind_their_length() {
        for length in [0usize, 1, 127, 128, 16_383, 16_384, 70_000] {
            let mut out = vec![9];
            write_nested(3, &mut out, |out| out.extend(std::iter::repeat_n(7, length)));
            let mut reader = Reader::new(&out[1..], "M");
            let (number, wire_type) = reader.next_tag().unwrap().unwrap();
            assert_eq!(number, 3);
            assert_eq!(reader.bytes(wire_type, String::new).unwrap(), vec![7; length]);
            assert!(reader.next_tag().unwrap().is_none());
        }
    }

    #[test]
    fn groups_are_skipped_and_must_end() {
        let mut reader = Reader::new(&[0x0b, 0x10, 5, 0x0c, 0x08, 1], "M");
        let (_, wire_type) = reader.next_tag().unwrap().unwrap();
        reader.skip(wire_type).unwrap();
        assert_eq!(reader.next_tag().unwrap(), Some((1, WireType::Varint)));
        let mut reader = Reader::new(&[0x0b, 0x10, 5], "M");
        let (_, wire_type) = reader.next_tag().unwrap().unwrap();
        assert_eq!(reader.skip(wire_type), Err(Error::UnexpectedEnd));
    }
}
