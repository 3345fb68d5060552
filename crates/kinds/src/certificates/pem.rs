//! PEM blocks as Go finds them in a text.

use rkube_machinery::decode::base64;

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
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        loop {
            let start = find_line(self.rest, BEGIN)?;
            let after = &self.rest[start + BEGIN.len()..];
            self.rest = after;
            let (line, body) = split_line(after);
            let Some(label) = line.strip_suffix(DASHES) else { continue };
            let (has_headers, body) = skip_headers(body);
            let Some(end) = find_line(body, END) else { continue };
            let (end_line, rest) = split_line(&body[end + END.len()..]);
            if end_line.strip_suffix(DASHES) != Some(label) {
                continue;
            }
            let text: Vec<u8> = body[..end].iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
            let Ok(bytes) = base64::decode(&text) else { continue };
            self.rest = rest;
            return Some(Block { label: String::from_utf8_lossy(label).into_owned(), has_headers, bytes });
        }
    }
}

/// Where the marker stands at the beginning of a line.
fn find_line(text: &[u8], marker: &[u8]) -> Option<usize> {
    let mut positions = text.windows(marker.len()).enumerate().filter(|(_, window)| *window == marker);
    positions.find(|(index, _)| *index == 0 || text[index - 1] == b'\n').map(|(index, _)| index)
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
}
