//! Unpacks a layer into a directory.
//!
//! **Invariant:** nothing is made, changed or removed outside of the directory. Every name is resolved by the kernel with the
//! directory as its root, so that symbolic links, whoever made them, lead to places within it.
//!
//! A layer may be unpacked by itself, to be stacked on others later ([`Onto::Separate`]): what it removes is written down in
//! the way overlayfs reads it, and layers of one image need not wait for each other. That does not do where a layer relies
//! on what is below it, because it leaves out a directory that its files are in (which may be a symbolic link there, or
//! have other modes), or links to a file of another layer. Then it is unpacked again onto all the others together
//! ([`Onto::Merged`]).
//!
//! Device nodes: below `/dev` they are left out, as containers have a `/dev` of their own; elsewhere a layer that has one is
//! refused. Attributes by which overlayfs would be told something (`trusted.*`) are left out.

mod entries;
#[cfg(test)]
mod tests;
mod tree;

use std::io::Read;
use std::path::Path;

use self::entries::Extractor;
use super::bounds::{MAX_LAYER_BYTES, MAX_LAYER_ENTRIES};
use super::digest::{Digest, Hashing};
use super::tar::Reader;
use super::{Error, Result};

pub(super) use self::tree::{OPAQUE_NAME, OPAQUE_VALUE, is_whiteout, names, open_directory, remove_below};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Onto {
    /// An empty directory, to be stacked on others.
    Separate,
    /// The same of the lowest layer: there is nothing that it could rely on.
    Lowest,
    /// A tree that has everything below the layer.
    Merged,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Of the content of files.
    pub bytes: u64,
    pub entries: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Complete(Summary),
    /// The layer relies on those below it: what was made is of no use, and it has to be unpacked with [`Onto::Merged`].
    NeedsLower,
}

/// Unpacks what is no longer compressed, and compares it with the digest that it should have.
pub(super) fn unpack(layer: impl Read, expected: &Digest, root: &Path, onto: Onto) -> Result<Outcome> {
    let mut reader = Reader::new(Hashing::new(layer.take(MAX_LAYER_BYTES + 1)));
    let mut extractor = Extractor::new(root, onto)?;
    let mut summary = Summary::default();
    while let Some(entry) = reader.next()? {
        summary.entries += 1;
        summary.bytes = summary.bytes.saturating_add(entry.size);
        if summary.entries > MAX_LAYER_ENTRIES {
            return Err(Error::refused(format_args!("a layer has more than {MAX_LAYER_ENTRIES} entries")));
        }
        if summary.bytes > MAX_LAYER_BYTES {
            return Err(Error::refused(format_args!("a layer has more than {MAX_LAYER_BYTES} bytes")));
        }
        let place = || String::from_utf8_lossy(&entry.path).into_owned();
        if !extractor.extract(&entry, &mut reader).map_err(|error| error.within(format_args!("{:?}", place())))? {
            return Ok(Outcome::NeedsLower);
        }
    }
    extractor.finish()?;
    let (digest, bytes) = reader.into_source().finish().map_err(Error::reading)?;
    if bytes > MAX_LAYER_BYTES {
        return Err(Error::refused(format_args!("a layer has more than {MAX_LAYER_BYTES} bytes")));
    }
    if digest != *expected {
        return Err(Error::corrupt(format_args!("a layer has the digest {digest}, not {expected} as the image says")));
    }
    Ok(Outcome::Complete(summary))
}
