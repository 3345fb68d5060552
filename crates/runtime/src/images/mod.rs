//! The images of a node, and the root directories of its containers.
//!
//! Below one directory lie the documents of images under their digests (`blobs/sha256`), their layers unpacked
//! (`layers`), the writable directories of containers (`snapshots`), and `index.json`, which says what is there. The
//! server and `rkube image …` share it: what is said in the index is complete, who changes it holds the lock, and who
//! reads it notices that it was replaced.
//!
//! **Invariant:** nothing unfinished is ever seen. Everything is made below `scratch` and renamed when it is complete and
//! on disk; what a crash leaves there belongs to nobody, and is removed at the next start.
//!
//! **Invariant:** nothing that an archive or a registry says is trusted: names stay below the root they are unpacked in
//! ([`unpack`]), content has the digest that names it, and whatever can be long has a bound ([`bounds`]).
//!
//! **Deliberately absent:** the layers as they were sent. They are unpacked while they are read and not kept: nobody pushes
//! images from here.

mod archive;
pub mod bounds;
mod compression;
mod config;
mod copy;
mod digest;
mod disk_usage;
mod error;
mod index;
mod layers;
mod overlay;
mod platform;
mod prune;
mod pull;
mod reference;
mod scratch;
mod snapshots;
mod store;
mod tar;
mod unpack;

pub use config::ImageConfig;
pub use digest::Digest;
pub use disk_usage::{Usage, disk_usage};
pub use error::{Error, Result};
pub use pull::{Patience, REGISTRIES, Registries, SharedProgress};
pub use reference::Reference;
pub use snapshots::Snapshots;
pub use store::Store;

use crate::api::PullProgress;

/// Reads an archive to its end, or to where it is wrong, and says how many entries it has. For tests that try anything at all.
pub fn count_entries(archive: &[u8]) -> Result<usize> {
    let source: Box<dyn std::io::Read + Send + '_> = compression::decompress(archive).map_err(Error::reading)?;
    let mut reader = tar::Reader::new(source);
    let mut count = 0;
    while reader.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Is told how far a load or a pull is. Called from several threads.
pub type Progress<'a> = &'a (dyn Fn(PullProgress) + Send + Sync);

/// For those who do not want to know.
pub fn no_progress(_: PullProgress) {}
