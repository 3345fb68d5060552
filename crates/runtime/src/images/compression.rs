//! Layers and archives are compressed in one of two ways or not at all; their first bytes say which.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What was packed. Not what media types say: they are wrong often enough that nobody goes by them.
pub(super) fn decompress<'a, R: BufRead + Send + 'a>(mut reader: R) -> io::Result<Box<dyn Read + Send + 'a>> {
    let start = peek(&mut reader)?;
    if start.starts_with(&GZIP) {
        return Ok(Box::new(MultiGzDecoder::new(reader)));
    }
    if start.starts_with(&ZSTD) {
        // A window beyond 128 MiB is refused by the library: so much memory is what a frame may ask for.
        return Ok(Box::new(zstd::stream::read::Decoder::with_buffer(reader)?));
    }
    Ok(Box::new(reader))
}

pub(super) fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&GZIP) || start.starts_with(&ZSTD)
}

/// A buffered reader may give fewer bytes than it could: only of an end that is near.
fn peek<R: BufRead>(reader: &mut R) -> io::Result<Vec<u8>> {
    let start = reader.fill_buf()?;
    Ok(start[..start.len().min(ZSTD.len())].to_vec())
}
