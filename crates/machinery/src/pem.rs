//! PEM blocks as Go finds them in a text.

use crate::decode::base64;

pub struct Block {
    pub label: String,
    pub has_headers: bool,
    pub bytes: Vec<u8>,
}

/// The blocks of the text, in order; what is between them does not matter.
pub fn blocks(text: &[u8]) -> Blocks<'_> {
    Blocks { rest: text }
}

pub struct Blocks<'a> {
    rest: &'a [u8],
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

impl Iterator for Blocks<'_> {
    type Item = Block;

    /// A block is what stands between an end and the last beginning before it: no byte is looked at twice, however many
    /// beginnings have no end.
    fn next(&mut self) -> Option<Block> {
        loop {
            let end = self.rest.windows(END.len()).position(|window| window == END)?;
            // With the end of the line.
            let before = &self.rest[..=end];
            let after = &self.rest[end + END.len()..];
            self.rest = after;
            let Some(begin) = before.windows(BEGIN.len()).rposition(|window| window == BEGIN) else { continue };
            if begin > 0 && before[begin - 1] != b'\n' {
                continue;
            }
            let (line, body) = split_line(&before[begin + BEGIN.len()..]);
            let (end_line, rest) = split_line(after);
            let Some(label) = line.strip_suffix(DASHES) else { continue };
            if end_line.strip_suffix(DASHES) != Some(label) {
                continue;
            }
            let (has_headers, body) = skip_headers(body);
            let text: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
            let Ok(bytes) = base64::decode(&text) else { continue };
            self.rest = rest;
            return Some(Block { label: String::from_utf8_lossy(label).into_owned(), has_headers, bytes });
        }
    }
}

/// The line without blanks at its end, and what follows it.
fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (text[..end].trim_ascii_end(), &text[end + 1..]),
        None => (text.trim_ascii_end(), &[]),
    }
}

/// Lines of the form `key: value`.
fn skip_headers(mut body: &[u8]) -> (bool, &[u8]) {
    let mut any = false;
    loop {
        let (line, rest) = split_line(body);
        if !line.contains(&b':') {
            return (any, body);
        }
        any = true;
        body = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_between_other_text() {
        let text =
            b"x\n-----BEGIN A-----\nk: v\n\nAQI=\n-----END A-----\nnoise\n-----BEGIN B-----\n!\n-----END B-----\n\
            -----BEGIN C-----\nAw==\n-----END C-----";
        let found: Vec<_> = blocks(text).map(|block| (block.label, block.has_headers, block.bytes)).collect();
        assert_eq!(found, [("A".into(), true, vec![1, 2]), ("C".into(), false, vec![3])]);
    }
    #[test]
    fn beginnings_without_an_end_are_passed_over() {
        let mut text = b"-----BEGIN A-----\n".repeat(100_000);
        assert_eq!(blocks(&text).count(), 0);
        text.extend(b"AQI=\n-----END A-----\n-----BEGIN B-----\n-----END C-----\n-----BEGIN D-----\n-----END D-----");
        let found: Vec<_> = blocks(&text).map(|block| (block.label, block.bytes)).collect();
        assert_eq!(found, [("A".into(), vec![1, 2]), ("D".into(), vec![])]);
    }
}
