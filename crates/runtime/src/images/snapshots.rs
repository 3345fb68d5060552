//! The root directories of containers: the layers of an image, and above them what the container writes.
//!
//! Where overlayfs refuses (the directory is itself on one, the kernel has none) the layers are copied instead.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

use super::copy::copy_layers;
use super::digest::Digest;
use super::disk_usage::{Usage, disk_usage};
use super::error::Doing;
use super::layers::FILES;
use super::overlay::{self, Stack};
use super::store::{Store, children};
use super::{Error, Result};

/// In the directory of a container: what it writes, what overlayfs needs beside that, the whole, and what it is made of.
const UPPER: &str = "fs";
const WORK: &str = "work";
const ROOT: &str = "rootfs";
const FACTS: &str = "snapshot.json";

/// Cheap to clone. Calls wait for the disk.
#[derive(Clone)]
pub struct Snapshots {
    store: Store,
}

#[derive(Debug, Serialize, Deserialize)]
struct Facts {
    image: Digest,
    /// Names of layers, the highest first.
    layers: Vec<String>,
    /// The root directory is a copy and not a mount.
    copied: bool,
}

impl Snapshots {
    pub fn of(store: &Store) -> Snapshots {
        Snapshots { store: store.clone() }
    }

    /// A new root directory for a container, mounted. It stays mounted when this process ends, until [`Snapshots::remove`].
    pub fn prepare(&self, container: &str, image: &str) -> Result<PathBuf> {
        let directory = self.directory(container)?;
        let image: Digest = image.parse()?;
        if directory.exists() {
            self.remove(container)?;
        }
        let facts = self.reserve(&directory, &image)?;
        match self.mount(&directory, &facts) {
            Ok(()) => Ok(directory.join(ROOT)),
            Err(error) => {
                let _ = self.remove(container);
                Err(error)
            }
        }
    }

    /// Where a container's root directory is, if it has one.
    pub fn root(&self, container: &str) -> Result<Option<PathBuf>> {
        let root = self.directory(container)?.join(ROOT);
        Ok(root.exists().then_some(root))
    }

    /// The containers that have one, also of earlier lives of this process.
    pub fn list(&self) -> Result<Vec<String>> {
        children(&self.store.directory().join("snapshots"))
    }

    /// Removes what a container has written; what is not there is removed already.
    pub fn remove(&self, container: &str) -> Result<()> {
        let directory = self.directory(container)?;
        let image = read_facts(&directory).map(|facts| facts.image);
        overlay::unmount(&directory.join(ROOT)).doing(|| format!("unmount {}", directory.join(ROOT).display()))?;
        let scratch = self.store.scratch()?;
        scratch.discard(&directory)?;
        if image.is_none_or(|image| self.store.index().is_ok_and(|index| !index.images.contains_key(&image))) {
            let _lock = self.store.lock()?;
            self.store.sweep(&scratch)?;
        }
        Ok(())
    }

    /// What a container has written, on disk.
    pub fn usage(&self, container: &str) -> Result<Usage> {
        let directory = self.directory(container)?;
        let copied = read_facts(&directory).is_some_and(|facts| facts.copied);
        disk_usage(&directory.join(if copied { ROOT } else { UPPER }))
    }

    /// Says, before anything else is done, which layers are needed from now on: they are not collected.
    fn reserve(&self, directory: &Path, image: &Digest) -> Result<Facts> {
        let _lock = self.store.lock()?;
        let index = self.store.index()?;
        let Some(record) = index.images.get(image) else {
            return Err(Error::NotFound(format!("image {image} not found")));
        };
        let mut layers: Vec<String> = Vec::new();
        for layer in record.stack() {
            if !layers.contains(&layer.name) {
                layers.push(layer.name.clone());
            }
        }
        let facts = Facts { image: image.clone(), layers, copied: false };
        std::fs::create_dir(directory).doing(|| format!("make {}", directory.display()))?;
        write_facts(directory, &facts)?;
        Ok(facts)
    }

    fn mount(&self, directory: &Path, facts: &Facts) -> Result<()> {
        let lower: Vec<PathBuf> = facts.layers.iter().map(|name| self.store.layer_path(name).join(FILES)).collect();
        let (upper, work, root) = (directory.join(UPPER), directory.join(WORK), directory.join(ROOT));
        for path in [&upper, &work, &root] {
            std::fs::create_dir(path).doing(|| format!("make {}", path.display()))?;
        }
        like_the_image(&upper, lower.first().map(PathBuf::as_path))?;
        if lower.is_empty() {
            return rustix::mount::mount_bind(&upper, &root).doing(|| format!("mount {}", root.display()));
        }
        let doing = || format!("mount {}", root.display());
        match (Stack { lower: &lower, upper: &upper, work: &work }).mount(&root) {
            Err(error) if overlay::is_refused(error, &root) => {
                write_facts(directory, &Facts { image: facts.image.clone(), layers: Vec::new(), copied: true })?;
                copy_layers(&lower, &root)?;
                rustix::mount::mount_bind(&root, &root).doing(doing)
            }
            other => other.doing(doing),
        }
    }

    fn directory(&self, container: &str) -> Result<PathBuf> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if container.is_empty() || container.len() > 128 || !container.bytes().all(plain) {
            return Err(Error::NotFound(format!("{container:?} is no name of a container")));
        }
        Ok(self.store.directory().join("snapshots").join(container))
    }
}

/// The root of what is stacked has owner and modes of the uppermost directory.
fn like_the_image(upper: &Path, top: Option<&Path>) -> Result<()> {
    let doing = || format!("look at {}", upper.display());
    let mode = match top {
        Some(top) => {
            let stat = rustix::fs::stat(top).doing(doing)?;
            let (user, group) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
            rustix::fs::chown(upper, Some(user), Some(group)).doing(doing)?;
            stat.st_mode & 0o7777
        }
        None => 0o755,
    };
    rustix::fs::chmod(upper, Mode::from_raw_mode(mode)).doing(doing)
}

/// Names of layers that containers are made of.
pub(super) fn layers_in_use(store: &Store) -> Result<HashSet<String>> {
    let snapshots = store.directory().join("snapshots");
    let facts = children(&snapshots)?.into_iter().filter_map(|name| read_facts(&snapshots.join(name)));
    Ok(facts.flat_map(|facts| facts.layers).collect())
}

/// What all containers have written.
pub(super) fn written(store: &Store) -> Result<Usage> {
    let snapshots = Snapshots::of(store);
    let mut total = Usage::default();
    for container in snapshots.list()? {
        // It may be gone in the meantime.
        let usage = snapshots.usage(&container).unwrap_or_default();
        total.bytes += usage.bytes;
        total.inodes += usage.inodes;
    }
    Ok(total)
}

/// Ids of the images that containers are made of.
pub(super) fn images_in_use(store: &Store) -> Result<HashSet<String>> {
    let snapshots = store.directory().join("snapshots");
    let facts = children(&snapshots)?.into_iter().filter_map(|name| read_facts(&snapshots.join(name)));
    Ok(facts.map(|facts| facts.image.to_string()).collect())
}

fn read_facts(directory: &Path) -> Option<Facts> {
    serde_json::from_slice(&std::fs::read(directory.join(FACTS)).ok()?).ok()
}

fn write_facts(directory: &Path, facts: &Facts) -> Result<()> {
    let content = serde_json::to_vec(facts).expect("names have a form in JSON");
    std::fs::write(directory.join(FACTS), content).doing(|| format!("write {}", directory.join(FACTS).display()))
}
