//! Reads tar archives, one entry after the other, within bounds.
//!
//! Single headers are read by the `tar` crate. Its reader of archives does not serve here: it takes extended headers of
//! any length into memory, and cuts attributes at every byte that is a line feed, as those of capabilities have.
//!
//! **Invariant:** whatever the bytes are, an entry has a name without NUL of at most [`MAX_PATH_BYTES`], and no memory is
//! taken for what an archive merely claims.

mod extended;

use std::io::{self, Read};

use ::tar::{EntryType, Header};

use self::extended::Extended;
use super::bounds::{MAX_EXTENDED_HEADER_BYTES, MAX_PATH_BYTES};
use super::{Error, Result};

const BLOCK: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// As it stands in the archive: nothing is known of where it leads.
    pub path: Vec<u8>,
    pub kind: Kind,
    /// Of a link.
    pub target: Vec<u8>,
    /// Of a file's content, which follows.
    pub size: u64,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    pub modified_seconds: i64,
    pub modified_nanos: u32,
    /// Extended attributes of the file.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    HardLink,
    Symlink,
    Directory,
    Fifo,
    Device,
}

/// What an archive is read from.
pub(super) trait Source: Read {
    /// Passes over this many bytes, which may be beyond the end.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// By reading.
impl Source for Box<dyn Read + Send + '_> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        io::copy(&mut self.take(bytes), &mut io::sink()).map(drop)
    }
}

impl<R: Read> Source for super::digest::Hashing<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        io::copy(&mut self.take(bytes), &mut io::sink()).map(drop)
    }
}

pub(super) struct Reader<S> {
    source: S,
    /// Of the current entry's content, what is not read yet, and what fills its last block.
    unread: u64,
    padding: u64,
    /// Of all that came before the entry's content that is not read yet.
    position: u64,
}

impl<S: Source> Reader<S> {
    pub(super) fn new(source: S) -> Reader<S> {
        Reader { source, unread: 0, padding: 0, position: 0 }
    }

    /// The next entry, whose content is to be read from here; what is not read of the one before is passed over.
    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let mut extended = Extended::default();
        let mut budget = MAX_EXTENDED_HEADER_BYTES;
        loop {
            self.pass_over()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let size = header.entry_size().map_err(|error| malformed(&error))?;
            let kind = header.entry_type();
            if matches!(
                kind,
                EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName | EntryType::GNULongLink
            ) {
                budget = budget.checked_sub(size).ok_or_else(|| {
                    Error::refused(format_args!("an extended header has more than {MAX_EXTENDED_HEADER_BYTES} bytes"))
                })?;
                self.begin(size);
                extended.take(kind, self.document(size)?)?;
                continue;
            }
            let entry = entry(&header, kind, size, extended)?;
            self.begin(entry.size);
            return Ok(Some(entry));
        }
    }

    /// Where the content of the entry begins, counted from the start of the archive.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// What it was read from, for what follows the archive's end.
    pub(super) fn into_source(self) -> S {
        self.source
    }

    fn begin(&mut self, size: u64) {
        self.unread = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
    }

    fn pass_over(&mut self) -> Result<()> {
        let bytes = self.unread.saturating_add(self.padding);
        if bytes > 0 {
            self.source.skip(bytes).map_err(Error::reading)?;
            self.position = self.position.saturating_add(bytes);
        }
        self.begin(0);
        Ok(())
    }

    /// None at the end: two blocks of zeros, or nothing more at all.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut block = [0; BLOCK];
        if !self.block(&mut block)? {
            return Ok(None);
        }
        if block == [0; BLOCK] {
            if !self.block(&mut block)? || block == [0; BLOCK] {
                return Ok(None);
            }
            return Err(malformed("a block of zeros stands alone"));
        }
        let header = Header::from_byte_slice(&block).clone();
        let said = header.cksum().map_err(|error| malformed(&error))?;
        let (unsigned, signed) = checksums(&block);
        if said != unsigned && said != signed {
            return Err(malformed("the checksum of a header is wrong"));
        }
        Ok(Some(header))
    }

    /// Whether there was one more.
    fn block(&mut self, block: &mut [u8; BLOCK]) -> Result<bool> {
        let mut filled = 0;
        while filled < BLOCK {
            match self.source.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(cut_off()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::reading(error)),
            }
        }
        self.position += BLOCK as u64;
        Ok(true)
    }

    fn document(&mut self, size: u64) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        self.take(size).read_to_end(&mut content).map_err(Error::reading)?;
        if content.len() as u64 != size {
            return Err(cut_off());
        }
        Ok(content)
    }
}

/// Content of the current entry. An archive that ends within it is an error.
impl<S: Source> Read for Reader<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.unread).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.source.read(&mut buffer[..wanted])?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected end of the archive"));
        }
        self.unread -= count as u64;
        self.position += count as u64;
        Ok(count)
    }
}

/// Headers say more of an entry than there is room for in them; what came before it in `extended` counts.
fn entry(header: &Header, kind: EntryType, size: u64, extended: Extended) -> Result<Entry> {
    let path = extended.path.unwrap_or_else(|| header.path_bytes().into_owned());
    let target = extended.target.or_else(|| header.link_name_bytes().map(|name| name.into_owned())).unwrap_or_default();
    for name in [&path, &target] {
        if name.len() > MAX_PATH_BYTES {
            return Err(Error::refused(format_args!("a name has more than {MAX_PATH_BYTES} bytes")));
        }
        if name.contains(&0) {
            return Err(malformed("a name has a NUL"));
        }
    }
    let kind = match kind {
        EntryType::Regular | EntryType::Continuous if path.ends_with(b"/") => Kind::Directory,
        EntryType::Regular | EntryType::Continuous => Kind::File,
        EntryType::Link => Kind::HardLink,
        EntryType::Symlink => Kind::Symlink,
        EntryType::Directory => Kind::Directory,
        EntryType::Fifo => Kind::Fifo,
        EntryType::Char | EntryType::Block => Kind::Device,
        EntryType::GNUSparse => return Err(Error::refused("files with holes (GNU sparse) are not supported")),
        other => return Err(malformed(format_args!("an entry of unknown type {:?}", other.as_byte() as char))),
    };
    let identity = |from_extended: Option<u64>, from_header: io::Result<u64>| -> Result<u32> {
        let number = match from_extended {
            Some(number) => number,
            None => from_header.map_err(|error| malformed(&error))?,
        };
        // The last one means "leave it".
        u32::try_from(number)
            .ok()
            .filter(|number| *number != u32::MAX)
            .ok_or_else(|| malformed("an owner is no number"))
    };
    let (modified_seconds, modified_nanos) = match extended.modified {
        Some(modified) => modified,
        None => (header.mtime().map_err(|error| malformed(&error))? as i64, 0),
    };
    Ok(Entry {
        // Only files have content; what others claim is not there, as other readers have it.
        size: if kind == Kind::File { extended.size.unwrap_or(size) } else { 0 },
        mode: header.mode().map_err(|error| malformed(&error))? & 0o7777,
        user: identity(extended.user, header.uid())?,
        group: identity(extended.group, header.gid())?,
        path,
        kind,
        target,
        modified_seconds,
        modified_nanos,
        attributes: extended.attributes,
    })
}

/// Of the header with blanks in the place of the sum. Old writers added signed bytes.
fn checksums(block: &[u8; BLOCK]) -> (u32, u32) {
    let byte = |index: usize| if (148..156).contains(&index) { b' ' } else { block[index] };
    let unsigned = (0..BLOCK).map(|index| u32::from(byte(index))).sum();
    let signed: i32 = (0..BLOCK).map(|index| i32::from(byte(index) as i8)).sum();
    (unsigned, signed as u32)
}

fn malformed(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format_args!("not a tar archive: {what}"))
}

fn cut_off() -> Error {
    Error::corrupt("the archive ends within an entry")
}
