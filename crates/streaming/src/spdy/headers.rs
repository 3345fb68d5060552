//! Header blocks: names and values, compressed with a state that lasts as long as the connection.

use bytes::{BufMut, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::dictionary::DICTIONARY;

/// What a block may grow to. Kubernetes' clients send a hundred bytes or two, and compression makes a thousand of one.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// How many headers a block may have.
pub const HEADERS_MAX: usize = 100;
const STEP_BYTES: usize = 4 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("a header block that cannot be decompressed")]
    Compression,
    #[error("a header block that is too large")]
    TooLarge,
    #[error("a header block whose lengths do not fit")]
    Lengths,
}

/// The headers of a stream, with names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub fn new(headers: impl IntoIterator<Item = (String, String)>) -> Headers {
        Headers(headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
    }

    /// The first value under this name, which is to be in lower case; empty where there is none.
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(it, _)| it == name);
        found.map_or("", |(_, value)| value.split('\0').next().unwrap_or_default())
    }

    pub fn parse(mut block: &[u8]) -> Result<Headers, HeaderError> {
        let count = take_word(&mut block)?;
        if count > HEADERS_MAX {
            return Err(HeaderError::TooLarge);
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let name = take_text(&mut block)?.to_ascii_lowercase();
            headers.push((name, take_text(&mut block)?));
        }
        Ok(Headers(headers))
    }

    pub fn write(&self, out: &mut BytesMut) {
        out.put_u32(self.0.len() as u32);
        for (name, value) in &self.0 {
            for text in [name, value] {
                out.put_u32(text.len() as u32);
                out.put_slice(text.as_bytes());
            }
        }
    }
}

fn take_word(block: &mut &[u8]) -> Result<usize, HeaderError> {
    let (word, rest) = block.split_first_chunk::<4>().ok_or(HeaderError::Lengths)?;
    *block = rest;
    Ok(u32::from_be_bytes(*word) as usize)
}

fn take_text(block: &mut &[u8]) -> Result<String, HeaderError> {
    let length = take_word(block)?;
    let (text, rest) = block.split_at_checked(length).ok_or(HeaderError::Lengths)?;
    *block = rest;
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Reads the blocks of a connection, which have to come in the order in which they were written.
pub struct Inflater {
    inflate: Decompress,
    knows_dictionary: bool,
}

impl Default for Inflater {
    fn default() -> Self {
        Inflater { inflate: Decompress::new(true), knows_dictionary: false }
    }
}

impl Inflater {
    pub fn read(&mut self, block: &[u8]) -> Result<Headers, HeaderError> {
        let mut plain = Vec::new();
        let mut step = [0; STEP_BYTES];
        let mut rest = block;
        loop {
            let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(rest, &mut step, FlushDecompress::Sync);
            let taken = usize::try_from(self.inflate.total_in() - in_before).map_err(|_| HeaderError::Compression)?;
            let made = usize::try_from(self.inflate.total_out() - out_before).map_err(|_| HeaderError::Compression)?;
            rest = rest.get(taken..).ok_or(HeaderError::Compression)?;
            plain.extend_from_slice(step.get(..made).ok_or(HeaderError::Compression)?);
            if plain.len() > BLOCK_BYTES_MAX {
                return Err(HeaderError::TooLarge);
            }
            match status {
                Ok(Status::Ok | Status::BufError) if taken == 0 && made == 0 => break,
                Ok(Status::Ok | Status::BufError) if rest.is_empty() && made < STEP_BYTES => break,
                Ok(Status::Ok | Status::BufError) => {}
                // The stream of blocks has no end before the connection's.
                Ok(Status::StreamEnd) => return Err(HeaderError::Compression),
                Err(error) if error.needs_dictionary().is_some() && !self.knows_dictionary => {
                    self.inflate.set_dictionary(&DICTIONARY).map_err(|_| HeaderError::Compression)?;
                    self.knows_dictionary = true;
                }
                Err(_) => return Err(HeaderError::Compression),
            }
        }
        Headers::parse(&plain)
    }
}

/// Writes the blocks of a connection.
pub struct Deflater {
    deflate: Compress,
}

impl Default for Deflater {
    fn default() -> Self {
        let mut deflate = Compress::new(Compression::fast(), true);
        // It only fails where a stream is under way already.
        let _ = deflate.set_dictionary(&DICTIONARY);
        Deflater { deflate }
    }
}

impl Deflater {
    /// A block is whole as it stands.
    pub fn write(&mut self, headers: &Headers) -> Result<Vec<u8>, HeaderError> {
        let mut plain = BytesMut::new();
        headers.write(&mut plain);
        let mut block = Vec::with_capacity(plain.len() + 64);
        let mut rest = &plain[..];
        loop {
            let before = self.deflate.total_in();
            block.reserve(64);
            self.deflate.compress_vec(rest, &mut block, FlushCompress::Sync).map_err(|_| HeaderError::Compression)?;
            let taken = usize::try_from(self.deflate.total_in() - before).map_err(|_| HeaderError::Compression)?;
            rest = &rest[taken..];
            if rest.is_empty() && block.len() < block.capacity() {
                return Ok(block);
            }
        }
    }
}
