//! The store: what images there are, by name and by digest.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::archive::Archive;
use super::bounds::MAX_DOCUMENT_BYTES;
use super::digest::Digest;
use super::error::Doing;
use super::index::{Index, IndexFile, Layer, Record, Stamp, write_durably};
use super::layers::Prepared;
use super::scratch::{self, Scratch};
use super::{Error, ImageConfig, Progress, Reference, Result, config};
use crate::api::{Image, ImageFilesystem};

/// Layers that were there may be collected by another process while others are unpacked; then once more.
const MAX_ATTEMPTS: usize = 3;
/// Of an identifier, so that it means one image.
const MIN_ID_PREFIX: usize = 4;

/// Cheap to clone. Calls may wait for the disk: async code is to leave them to a blocking thread, save for what only looks
/// at the index ([`Store::find`], [`Store::list`]).
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    directory: PathBuf,
    index_file: IndexFile,
    /// As it was when the file had this stamp.
    cached: Mutex<(Option<Stamp>, Arc<Index>)>,
    /// Pulls under way, by the name of the image.
    turns: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl Store {
    /// The store below this directory, which is made if it is not there.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Store> {
        let directory: PathBuf = directory.into();
        let inner = Inner {
            index_file: IndexFile::below(&directory),
            directory,
            cached: Mutex::new((None, Arc::default())),
            turns: Mutex::default(),
        };
        let store = Store { inner: Arc::new(inner) };
        for name in ["", "blobs/sha256", "layers/diff", "layers/chain", "downloads", "scratch", "snapshots"] {
            let path = store.directory().join(name);
            std::fs::create_dir_all(&path).doing(|| format!("make {}", path.display()))?;
        }
        // Files in images are of all kinds of users, with all kinds of modes.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(store.directory(), private)
            .doing(|| format!("change the mode of {}", store.directory().display()))?;
        scratch::clear_abandoned(&store.directory().join("scratch"))?;
        store.index()?;
        Ok(store)
    }

    /// Loads all images of an archive that `docker save` or a tool of OCI has written, compressed or not.
    pub fn load_archive(&self, path: &Path, progress: Progress<'_>) -> Result<Vec<Image>> {
        let scratch = self.scratch()?;
        let archive = Archive::open(path, &scratch)?;
        let images = archive.images()?;
        let mut loaded = Vec::new();
        for image in images {
            let id = self.add(image.config, &image.documents, &image.names, &|diff_ids| {
                let layers = archive.layers(&image.layers, diff_ids)?;
                super::layers::unpack(self, diff_ids, &layers, progress)
            })?;
            loaded.push(self.expect_image(&id)?);
        }
        Ok(loaded)
    }

    /// An image by a name, a digest or its id (also without `sha256:`, and shortened).
    pub fn find(&self, reference: &str) -> Result<Option<Image>> {
        let index = self.index()?;
        Ok(find(&index, reference).and_then(|id| Some(index.images.get(&id)?.image(&id))))
    }

    pub fn list(&self) -> Result<Vec<Image>> {
        Ok(self.index()?.images.iter().map(|(id, record)| record.image(id)).collect())
    }

    /// What containers of an image are made with.
    pub fn config_of(&self, id: &str) -> Result<ImageConfig> {
        let id: Digest = id.parse()?;
        Ok(config::parse(&self.blob(&id)?)?.0)
    }

    /// Removes an image with all its names. Its layers go when no container needs them.
    pub fn remove(&self, id: &str) -> Result<()> {
        let id: Digest = id.parse()?;
        let scratch = self.scratch()?;
        let _lock = self.inner.index_file.lock()?;
        let mut index = Index::clone(&*self.index()?);
        if index.images.remove(&id).is_some() {
            self.write(index)?;
        }
        self.sweep(&scratch)
    }

    /// Removes one name; the image, too, if it was the last.
    pub fn untag(&self, reference: &str) -> Result<()> {
        let Some(id) = find(&*self.index()?, reference) else {
            return Err(Error::NotFound(format!("image {reference:?} not found")));
        };
        let name = reference.parse::<Reference>().map(|reference| reference.to_string()).unwrap_or_default();
        let scratch = self.scratch()?;
        let _lock = self.inner.index_file.lock()?;
        let mut index = Index::clone(&*self.index()?);
        let Some(record) = index.images.get_mut(&id) else {
            return Ok(());
        };
        let by_name = record.tags.contains(&name) || record.digests.contains(&name);
        record.tags.retain(|tag| *tag != name);
        record.digests.retain(|digest| *digest != name);
        if !by_name || record.tags.is_empty() {
            index.images.remove(&id);
        }
        self.write(index)?;
        self.sweep(&scratch)
    }

    /// Keeps an image from being collected, or lets it be.
    pub fn pin(&self, id: &str, pinned: bool) -> Result<()> {
        let id: Digest = id.parse()?;
        let _lock = self.inner.index_file.lock()?;
        let mut index = Index::clone(&*self.index()?);
        let Some(record) = index.images.get_mut(&id) else {
            return Err(Error::NotFound(format!("image {id} not found")));
        };
        record.pinned = pinned;
        self.write(index)
    }

    /// Of the disk that it is on, and what images and containers use of that. Of layers it is known; what containers have
    /// written is looked at.
    pub fn filesystem(&self) -> Result<ImageFilesystem> {
        let directory = self.directory();
        let figures = rustix::fs::statvfs(directory).doing(|| format!("look at {}", directory.display()))?;
        let mut used = super::snapshots::written(self)?;
        let index = self.index()?;
        let layers: HashMap<&str, &Layer> = index
            .images
            .values()
            .flat_map(|record| record.layers.iter().map(|layer| (layer.name.as_str(), layer)))
            .collect();
        used.bytes += layers.values().map(|layer| layer.bytes).sum::<u64>();
        used.inodes += layers.values().map(|layer| layer.entries).sum::<u64>();
        Ok(ImageFilesystem {
            mountpoint: directory.display().to_string(),
            used_bytes: used.bytes,
            used_inodes: used.inodes,
            // What is kept for others is nothing that could fill up.
            capacity_bytes: (figures.f_blocks - figures.f_bfree + figures.f_bavail) * figures.f_frsize,
            available_bytes: figures.f_bavail * figures.f_frsize,
        })
    }

    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    pub(super) fn downloads(&self) -> PathBuf {
        self.directory().join("downloads")
    }

    /// To be locked by who pulls this image.
    pub(super) fn turn(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.inner.turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.get(name).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::default();
            turns.insert(name.to_owned(), Arc::downgrade(&turn));
            turn
        })
    }

    /// Gives more names to an image that is here.
    pub(super) fn name(&self, id: &str, names: &[String]) -> Result<Image> {
        let id: Digest = id.parse()?;
        let _lock = self.lock()?;
        let mut index = Index::clone(&*self.index()?);
        let before = index.clone();
        for name in names {
            index.name(&id, name);
        }
        if index != before {
            self.write(index)?;
        }
        self.expect_image(&id)
    }

    pub(super) fn scratch(&self) -> Result<Scratch> {
        Scratch::new(&self.directory().join("scratch"))
    }

    pub(super) fn layer_path(&self, name: &str) -> PathBuf {
        self.directory().join("layers").join(name)
    }

    pub(super) fn lock(&self) -> Result<impl Drop + use<>> {
        self.inner.index_file.lock().map(Held)
    }

    /// What is in the file, read again only where that was replaced.
    pub(super) fn index(&self) -> Result<Arc<Index>> {
        let stamp = self.inner.index_file.stamp();
        let mut cached = self.inner.cached.lock();
        if stamp.is_none() || cached.0 != stamp {
            *cached = (stamp, Arc::new(self.inner.index_file.read()?));
        }
        Ok(cached.1.clone())
    }

    /// Adds an image once `prepare` has its layers, and says its id.
    pub(super) fn add(
        &self,
        config_document: Vec<u8>,
        documents: &[Vec<u8>],
        names: &[String],
        prepare: &dyn Fn(&[Digest]) -> Result<Prepared>,
    ) -> Result<Digest> {
        let id = Digest::of(&config_document);
        let (config, diff_ids) = config::parse(&config_document)?;
        for _ in 0..MAX_ATTEMPTS {
            let prepared = prepare(&diff_ids)?;
            if prepared.has_fresh() {
                sync(self.directory())?;
            }
            let lock = self.lock()?;
            let Some(layers) = prepared.commit(self)? else {
                continue;
            };
            for document in documents.iter().chain([&config_document]) {
                self.write_blob(document)?;
            }
            let mut index = Index::clone(&*self.index()?);
            let record = index.images.entry(id.clone()).or_default();
            *record = Record { layers, user: config.user, ..record.clone() };
            for name in names {
                index.name(&id, name);
            }
            self.write(index)?;
            drop(lock);
            return Ok(id);
        }
        Err(Error::NotFound("layers are removed by somebody as they are added".to_owned()))
    }

    /// Removes layers and documents that nobody needs. To be called with the lock held.
    pub(super) fn sweep(&self, scratch: &Scratch) -> Result<()> {
        let index = self.index()?;
        let mut needed = super::snapshots::layers_in_use(self)?;
        needed.extend(index.images.values().flat_map(|record| record.layers.iter().map(|layer| layer.name.clone())));
        for kind in ["diff", "chain"] {
            for name in children(&self.layer_path(kind))? {
                let layer = format!("{kind}/{name}");
                if !needed.contains(&layer) {
                    scratch.discard(&self.layer_path(&layer))?;
                }
            }
        }
        for name in children(&self.downloads())? {
            let path = self.downloads().join(name);
            // What is being downloaded is locked.
            let file = std::fs::File::open(&path).ok();
            let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
            if file.is_some_and(|file| rustix::fs::flock(&file, lock).is_ok()) {
                scratch.discard(&path)?;
            }
        }
        let blobs = self.directory().join("blobs/sha256");
        for name in children(&blobs)? {
            let document = format!("sha256:{name}").parse::<Digest>();
            let known = document.is_ok_and(|digest| {
                let suffix = format!("@{digest}");
                let by_digest = |record: &Record| record.digests.iter().any(|known| known.ends_with(&suffix));
                index.images.contains_key(&digest) || index.images.values().any(by_digest)
            });
            if !known {
                scratch.discard(&blobs.join(name))?;
            }
        }
        Ok(())
    }

    pub(super) fn expect_image(&self, id: &Digest) -> Result<Image> {
        self.find(id.as_str())?.ok_or_else(|| Error::NotFound(format!("image {id} was removed as it was added")))
    }

    fn write(&self, mut index: Index) -> Result<()> {
        self.inner.index_file.write(&mut index)?;
        *self.inner.cached.lock() = (self.inner.index_file.stamp(), Arc::new(index));
        Ok(())
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.directory().join("blobs/sha256").join(digest.hex())
    }

    fn blob(&self, digest: &Digest) -> Result<Vec<u8>> {
        let path = self.blob_path(digest);
        let length = std::fs::metadata(&path).map(|metadata| metadata.len()).unwrap_or_default();
        if length > MAX_DOCUMENT_BYTES {
            return Err(Error::refused(format_args!("{} has more than {MAX_DOCUMENT_BYTES} bytes", path.display())));
        }
        match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::NotFound(format!("image {digest} not found")))
            }
            other => other.doing(|| format!("read {}", path.display())),
        }
    }

    fn write_blob(&self, content: &[u8]) -> Result<()> {
        let path = self.blob_path(&Digest::of(content));
        if path.exists() {
            return Ok(());
        }
        write_durably(&path, content)
    }
}

struct Held(#[expect(dead_code, reason = "the lock is released when the file is closed")] std::fs::File);

impl Drop for Held {
    fn drop(&mut self) {}
}

fn find(index: &Index, reference: &str) -> Option<Digest> {
    if let Ok(digest) = reference.parse::<Digest>().or_else(|_| format!("sha256:{reference}").parse()) {
        return index.images.contains_key(&digest).then_some(digest);
    }
    if let Ok(whole) = reference.parse::<Reference>() {
        let name = whole.to_string();
        let named = |record: &Record| record.tags.contains(&name) || record.digests.contains(&name);
        if let Some((id, _)) = index.images.iter().find(|(_, record)| named(record)) {
            return Some(id.clone());
        }
    }
    let prefix = reference.strip_prefix("sha256:").unwrap_or(reference);
    if prefix.len() < MIN_ID_PREFIX || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut matching = index.images.keys().filter(|id| id.hex().starts_with(prefix));
    let found = matching.next()?;
    matching.next().is_none().then(|| found.clone())
}

/// What was unpacked is on disk before the index says that it is there.
fn sync(directory: &Path) -> Result<()> {
    let doing = || format!("sync {}", directory.display());
    let file = std::fs::File::open(directory).doing(doing)?;
    rustix::fs::syncfs(&file).doing(doing)
}

pub(super) fn children(directory: &Path) -> Result<Vec<String>> {
    let doing = || format!("read {}", directory.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).doing(doing)? {
        names.push(entry.doing(doing)?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}
