//! Looking for a good frame behind a bad one.
//!
//! What lies there may be a value that somebody made up of the beginnings of frames, each with a great length. To take
//! the checksum of each would be quadratic; so checksums of the whole up to every block are kept, from which that of any
//! part follows.

use crc32fast::Hasher;

use super::format::{FRAME_HEADER_LENGTH, frame_head, place_checksum};

const BLOCK_BYTES: usize = 4096;

/// Whether a good frame begins anywhere in `bytes`, which stand in file `number` from `offset` on. Returns where.
pub(crate) fn find_frame(bytes: &[u8], number: u64, offset: u64) -> Option<u64> {
    let mut sums: Option<Checksums> = None;
    (0..bytes.len().saturating_sub(FRAME_HEADER_LENGTH)).find_map(|start| {
        let (head, rest) = bytes[start..].split_at(FRAME_HEADER_LENGTH);
        let (origin, length, checksum) = frame_head(head.try_into().ok()?)?;
        rest.get(..length as usize)?;
        let payload = start + FRAME_HEADER_LENGTH;
        let sums = sums.get_or_insert_with(|| Checksums::new(bytes));
        let here = offset + start as u64;
        let mut found = place_checksum(origin, number, here, length);
        found.combine(&sums.between(payload, payload + length as usize));
        (found.finalize() == checksum).then_some(here)
    })
}

struct Checksums<'a> {
    bytes: &'a [u8],
    /// The checksum of everything before each block.
    blocks: Vec<u32>,
}

impl<'a> Checksums<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut hasher = Hasher::new();
        let mut blocks = vec![0];
        for block in bytes.chunks(BLOCK_BYTES) {
            hasher.update(block);
            blocks.push(hasher.clone().finalize());
        }
        Checksums { bytes, blocks }
    }

    /// Of everything before `end`.
    fn until(&self, end: usize) -> u32 {
        let block = end / BLOCK_BYTES;
        let mut hasher = Hasher::new_with_initial(self.blocks[block]);
        hasher.update(&self.bytes[block * BLOCK_BYTES..end]);
        hasher.finalize()
    }

    /// The checksum of two parts is that of the first, followed by as many zeros as the second has bytes, exclusive or
    /// that of the second. So the second's can be had from the other two.
    fn between(&self, start: usize, end: usize) -> Hasher {
        let length = (end - start) as u64;
        let mut before = Hasher::new_with_initial(self.until(start));
        before.combine(&Hasher::new_with_initial_len(0, length));
        Hasher::new_with_initial_len(before.finalize() ^ self.until(end), length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::format::{FrameBuffer, Origin};
    use super::*;

    proptest! {
        #[test]
        fn knows_the_checksum_of_every_part(
            bytes in prop::collection::vec(any::<u8>(), 0..3 * BLOCK_BYTES),
            (one, other) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let (one, other) = (one.index(bytes.len() + 1), other.index(bytes.len() + 1));
            let (start, end) = (one.min(other), one.max(other));
            let sum = Checksums::new(&bytes).between(start, end);
            prop_assert_eq!(sum.finalize(), crc32fast::hash(&bytes[start..end]));
        }

        #[test]
        fn finds_a_frame_in_its_place_only(
            before in prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, b'r', b'k', b'F']), 0..200),
            payload in prop::collection::vec(any::<u8>(), 1..9000),
            behind in prop::collection::vec(any::<u8>(), 1..50),
            appended in any::<bool>(),
        ) {
            let origin = if appended { Origin::Appended } else { Origin::Begun };
            let place = 1000 + before.len() as u64;
            let frame = FrameBuffer::with_payload(&payload).finish(origin, 7, place).to_vec();
            let bytes = [before, frame, behind].concat();
            prop_assert_eq!(find_frame(&bytes, 7, 1000), Some(place));
            prop_assert_eq!(find_frame(&bytes, 7, 1001), None);
            prop_assert_eq!(find_frame(&bytes, 8, 1000), None);
        }
    }

    /// With a checksum taken of each this would be minutes of work.
    #[test]
    fn a_value_made_of_beginnings_is_no_trap() {
        let half: u32 = 1 << 19;
        let beginning = [&b"rkF\x02"[..], &half.to_le_bytes(), &[0; 4]].concat();
        let bytes = beginning.repeat((1 << 20) / beginning.len());
        assert_eq!(find_frame(&bytes, 1, 48), None);
    }
}
