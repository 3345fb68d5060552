//! What is in the store: one document, replaced as a whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::error::Doing;
use super::{Error, Result};
use crate::api::Image;

const VERSION: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Index {
    version: u32,
    /// By the digest of the configuration.
    pub images: BTreeMap<Digest, Record>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Whole names, as `docker.io/library/busybox:latest`.
    pub tags: Vec<String>,
    /// As `docker.io/library/busybox@sha256:…`.
    pub digests: Vec<String>,
    /// The lowest first.
    pub layers: Vec<Layer>,
    pub user: String,
    #[serde(default)]
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layer {
    /// Its directory below `layers`.
    pub name: String,
    pub bytes: u64,
    /// Files, directories and links.
    #[serde(default)]
    pub entries: u64,
    /// It has everything that is below it, too.
    #[serde(default)]
    pub whole: bool,
}

impl Record {
    pub(super) fn image(&self, id: &Digest) -> Image {
        Image {
            id: id.to_string(),
            tags: self.tags.clone(),
            digests: self.digests.clone(),
            size_bytes: self.layers.iter().map(|layer| layer.bytes).sum(),
            user: self.user.clone(),
            pinned: self.pinned,
        }
    }

    fn names(&mut self, by_digest: bool) -> &mut Vec<String> {
        if by_digest { &mut self.digests } else { &mut self.tags }
    }

    /// The directories of its layers, the highest first, down to one that needs no others.
    pub(super) fn stack(&self) -> Vec<&Layer> {
        let needed = self.layers.iter().rposition(|layer| layer.whole).unwrap_or(0);
        self.layers[needed..].iter().rev().collect()
    }
}

impl Index {
    /// Gives a name to an image, and takes it from whoever had it.
    pub(super) fn name(&mut self, id: &Digest, name: &str) {
        let by_digest = name.contains('@');
        for (other, record) in &mut self.images {
            if other != id {
                record.names(by_digest).retain(|known| known != name);
            }
        }
        if let Some(record) = self.images.get_mut(id) {
            let names = record.names(by_digest);
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
}

/// By which one can tell that the file is another than before.
pub(super) type Stamp = (u64, i64, i64, u64);

pub(super) struct IndexFile {
    path: PathBuf,
    lock: PathBuf,
}

impl IndexFile {
    pub(super) fn below(directory: &Path) -> IndexFile {
        IndexFile { path: directory.join("index.json"), lock: directory.join("lock") }
    }

    /// None: nothing was ever written.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
    }

    pub(super) fn read(&self) -> Result<Index> {
        let content = match std::fs::read(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Index::default()),
            other => other.doing(|| format!("read {}", self.path.display()))?,
        };
        let index: Index = serde_json::from_slice(&content)
            .map_err(|error| Error::corrupt(format_args!("{} cannot be read: {error}", self.path.display())))?;
        if index.version > VERSION {
            let path = self.path.display();
            return Err(Error::corrupt(format_args!("{path} was written by a newer version ({})", index.version)));
        }
        Ok(index)
    }

    /// Replaces the file, once the new one is on disk. To be called by who has the lock.
    pub(super) fn write(&self, index: &mut Index) -> Result<()> {
        index.version = VERSION;
        let content = serde_json::to_vec(index).expect("an index has nothing that JSON has not");
        write_durably(&self.path, &content)
    }

    /// Waits for others. Held until it is dropped.
    pub(super) fn lock(&self) -> Result<File> {
        let doing = || format!("lock {}", self.lock.display());
        let file = File::options().create(true).truncate(false).write(true).open(&self.lock).doing(doing)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                other => {
                    other.doing(doing)?;
                    return Ok(file);
                }
            }
        }
    }
}

/// A file that has all of its content or is not there, also after a crash.
pub(super) fn write_durably(path: &Path, content: &[u8]) -> Result<()> {
    let doing = || format!("write {}", path.display());
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let mut file = File::create(&temporary).doing(doing)?;
    file.write_all(content).doing(doing)?;
    file.sync_all().doing(doing)?;
    std::fs::rename(&temporary, path).doing(doing)?;
    let directory = path.parent().unwrap_or(path);
    File::open(directory).and_then(|directory| directory.sync_all()).doing(doing)
}
