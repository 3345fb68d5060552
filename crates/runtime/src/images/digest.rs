//! Digests: the names of content.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Error, Result};

const PREFIX: &str = "sha256:";
const HEX_LENGTH: usize = 64;

/// `sha256:` and 64 digits. Others are not used by images, and refused.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    pub fn of(content: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(content);
        hasher.finish()
    }

    /// Without the algorithm: a name of a file.
    pub fn hex(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Digest> {
        let hex = text.strip_prefix(PREFIX).unwrap_or_default();
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hex.len() != HEX_LENGTH || !hex.bytes().all(digit) {
            return Err(Error::corrupt(format_args!("{text:?} is no SHA-256 digest")));
        }
        Ok(Digest(text.to_owned()))
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Digest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

pub(super) struct Hasher(ring::digest::Context);

impl Default for Hasher {
    fn default() -> Hasher {
        Hasher(ring::digest::Context::new(&ring::digest::SHA256))
    }
}

impl Hasher {
    pub(super) fn update(&mut self, content: &[u8]) {
        self.0.update(content);
    }

    pub(super) fn finish(self) -> Digest {
        let hex: String = self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Digest(format!("{PREFIX}{hex}"))
    }
}

/// Hashes what is read through it.
pub(super) struct Hashing<R> {
    reader: R,
    hasher: Hasher,
    bytes: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(reader: R) -> Hashing<R> {
        Hashing { reader, hasher: Hasher::default(), bytes: 0 }
    }

    /// Reads what is left, and says the digest of everything and its length.
    pub(super) fn finish(self) -> io::Result<(Digest, u64)> {
        let (hasher, bytes) = self.so_far()?;
        Ok((hasher.finish(), bytes))
    }

    /// The same, of what more is to come to.
    pub(super) fn so_far(mut self) -> io::Result<(Hasher, u64)> {
        let mut rest = vec![0; 64 << 10];
        while self.read(&mut rest)? > 0 {}
        Ok((self.hasher, self.bytes))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
