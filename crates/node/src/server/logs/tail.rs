//! Where the last lines of a file begin, found from its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// What is read at once on the way back.
const BLOCK_BYTES: u64 = 64 * 1024;

/// The offset of the last so many lines. A line without its end does not count as one.
pub fn start(file: &File, lines: u64) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; usize::try_from(BLOCK_BYTES.min(end)).unwrap_or(0)];
    let mut ends_seen = 0;
    while end > 0 {
        let begin = end.saturating_sub(BLOCK_BYTES);
        let part = &mut block[..usize::try_from(end - begin).unwrap_or(0)];
        file.read_exact_at(part, begin)?;
        for (at, byte) in part.iter().enumerate().rev() {
            if *byte == b'\n' {
                if ends_seen == lines {
                    return Ok(begin + at as u64 + 1);
                }
                ends_seen += 1;
            }
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn the_last_lines() {
        let three = file(b"one\ntwo\nthree\n");
        let starts: Vec<u64> = (0..5).map(|lines| start(&three, lines).unwrap()).collect();
        assert_eq!(starts, [14, 8, 4, 0, 0]);
        let open_end = file(b"one\ntwo\nthr");
        assert_eq!((start(&open_end, 0).unwrap(), start(&open_end, 1).unwrap()), (8, 4));
        assert_eq!(start(&file(b""), 3).unwrap(), 0);
    }

    #[test]
    fn lines_over_blocks() {
        let line = [vec![b'x'; 1000], vec![b'\n']].concat();
        let many = file(&line.repeat(1000));
        for lines in [1, 64, 65, 66, 500, 999] {
            assert_eq!(start(&many, lines).unwrap(), (1000 - lines) * 1001);
        }
    }
}
