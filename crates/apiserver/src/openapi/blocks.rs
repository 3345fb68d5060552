//! A document's many pieces as blocks that are worth a write.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::content::Body;

/// Pieces go out in blocks of this size: small ones are joined, large ones cut.
const BLOCK_BYTES: usize = 64 * 1024;

/// Documents up to this size are sent as one, with their length.
const WHOLE_BYTES_MAX: usize = 4 * BLOCK_BYTES;

pub(super) fn body(mut pieces: Vec<Bytes>) -> Body {
    if let [only] = pieces.as_mut_slice() {
        return Body::Whole(std::mem::take(only));
    }
    let size: usize = pieces.iter().map(Bytes::len).sum();
    if size <= WHOLE_BYTES_MAX {
        return Body::Whole(pieces.concat().into());
    }
    Body::Chunks(Box::new(Blocks { pieces: pieces.into() }))
}

struct Blocks {
    pieces: VecDeque<Bytes>,
}

impl Iterator for Blocks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut block = Vec::new();
        while let Some(piece) = self.pieces.front_mut() {
            if piece.len() >= BLOCK_BYTES && block.is_empty() {
                return Some(piece.split_to(BLOCK_BYTES));
            }
            if block.len() + piece.len() > BLOCK_BYTES {
                break;
            }
            block.extend_from_slice(piece);
            self.pieces.pop_front();
        }
        // An empty block would be read as a wish to go on later.
        (!block.is_empty()).then(|| block.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_blocks() {
        let lengths = [0, 1, 3 * BLOCK_BYTES, 0, 10, BLOCK_BYTES, BLOCK_BYTES - 5, 5, 1, 0];
        let pieces: Vec<Bytes> =
            lengths.iter().enumerate().map(|(place, length)| vec![place as u8; *length].into()).collect();
        let expected = pieces.concat();
        let Body::Chunks(blocks) = body(pieces) else { panic!("it is large") };
        let blocks: Vec<Bytes> = blocks.collect();
        assert!(blocks.iter().all(|block| (1..=BLOCK_BYTES).contains(&block.len())));
        assert_eq!(blocks.concat(), expected);
        assert!(blocks.len() <= 8, "{}", blocks.len());
    }

    #[test]
    fn small_documents_are_sent_as_one() {
        let Body::Whole(bytes) = body(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]) else {
            panic!("it is small")
        };
        assert_eq!(bytes, "ab");
    }
}
