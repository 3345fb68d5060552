//! From JSON text to the canonical form of a type in one pass: the quick road for what clients commonly send.
//!
//! What holds: where [`direct`] gives a value, [`decode`](super::decode) gives the same one, entries in the same order,
//! and has nothing to object to. At anything unusual it gives up, and words nothing: the other road does.

use super::complete::{Empties, assemble_last, has_empties, zero_item};
use super::place::Place;
use super::{Decoded, Decoder, META, STRUCT_DEPTH_MAX, Style};
use crate::json::Parser;
use crate::schema::{Shape, Type};
use crate::value::{Map, Text, Value, text_of};

/// The document as a value of this type, none where it takes the other road to tell.
pub fn direct(bytes: &[u8], kind: &'static Type) -> Option<Decoded> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut reader = Reader {
        parser: Parser::new(text, true),
        decoder: Decoder::new(Style::Json),
        filled: Vec::with_capacity(32),
        keys: Vec::new(),
    };
    reader.parser.skip_blanks();
    if reader.parser.peek()? != b'{' {
        return None;
    }
    let map = reader.structure(kind)?;
    reader.parser.end().ok()?;
    let Decoder { noted, kept_empties, .. } = reader.decoder;
    noted.is_none().then_some(Decoded { value: Value::Object(map), strict: Vec::new(), kept_empties })
}

struct Reader<'a> {
    parser: Parser<'a>,
    /// For values that are read raw first. What it notes makes this road give up.
    decoder: Decoder,
    /// The values of all open structs, lists and maps, each of which takes its own from the end; in structs with the
    /// position of the field.
    filled: Vec<(u16, Value)>,
    /// The keys of all open maps.
    keys: Vec<Text>,
}

impl Reader<'_> {
    /// Reads a value of any shape, and puts it last. Null gives null: what that means is up to the holder.
    fn value(&mut self, position: u16, shape: &Shape) -> Option<()> {
        if matches!(shape, Shape::String)
            && let Some(text) = self.parser.plain_string()
        {
            self.filled.push((position, Value::String(text_of(text))));
            return Some(());
        }
        let value = match (shape, self.parser.peek()?) {
            (Shape::Struct(kind), b'{') => Value::Object(self.structure(kind.get())?),
            (Shape::Map(item), b'{') => Value::Object(self.map(item)?),
            (Shape::List(item), b'[') => Value::Array(self.list(item)?),
            (Shape::WrappedStrings, b'[') => Value::Array(self.list(&Shape::String)?),
            _ => {
                let raw = self.parser.value().ok()?;
                self.decoder.value(raw, shape, "", &Place::ROOT).ok()?
            }
        };
        self.filled.push((position, value));
        Some(())
    }

    fn structure(&mut self, kind: &'static Type) -> Option<Map> {
        if self.decoder.depth >= STRUCT_DEPTH_MAX {
            return None;
        }
        self.decoder.depth += 1;
        let start = self.filled.len();
        let mut meta: [Option<Value>; 2] = [None, None];
        let mut seen: u128 = 0;
        let mut more = self.parser.enter(b'}')?;
        while more {
            let key = self.parser.plain_key()?;
            if let Some(position) = kind.position(key) {
                // In a type with more fields than bits, another field may have set it: no harm is done.
                let bit = 1 << (position % 128);
                if seen & bit != 0 {
                    return None;
                }
                seen |= bit;
                self.value(position as u16, &kind.json_field(position).shape)?;
            } else {
                let index = META.iter().position(|name| kind.type_meta && *name == key)?;
                let text = text_of(self.parser.plain_string()?);
                if meta[index].replace(Value::String(text)).is_some() {
                    return None;
                }
            }
            more = self.parser.more(b'}')?;
        }
        self.decoder.depth -= 1;
        self.decoder.kept_empties |= has_empties(kind, &self.filled[start..]);
        Some(assemble_last(kind, meta, &mut self.filled, start, Empties::Keep))
    }

    fn list(&mut self, item: &Shape) -> Option<Vec<Value>> {
        let start = self.filled.len();
        let mut more = self.parser.enter(b']')?;
        while more {
            self.item(item)?;
            more = self.parser.more(b']')?;
        }
        Some(self.filled.drain(start..).map(|(_, value)| value).collect())
    }

    fn map(&mut self, item: &Shape) -> Option<Map> {
        let start = self.filled.len();
        let first_key = self.keys.len();
        let mut more = self.parser.enter(b'}')?;
        while more {
            self.keys.push(text_of(self.parser.plain_key()?));
            self.item(item)?;
            more = self.parser.more(b'}')?;
        }
        let values = self.filled.drain(start..).map(|(_, value)| value);
        let map = Map::in_order(self.keys.drain(first_key..).zip(values).collect());
        if map.is_sorted() {
            return Some(map);
        }
        let count = map.len();
        let sorted = Map::sorted(map.into_entries());
        // Fewer where a key is there twice.
        (sorted.len() == count).then_some(sorted)
    }

    fn item(&mut self, shape: &Shape) -> Option<()> {
        self.value(0, shape)?;
        let (_, value) = self.filled.last_mut()?;
        if value.is_null() {
            *value = zero_item(shape);
        }
        Some(())
    }
}
