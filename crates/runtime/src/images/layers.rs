//! The layers of one image: those that are here already, and the others unpacked.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};

use super::bounds::PARALLEL_LAYERS;
use super::copy::copy_layers;
use super::digest::{Digest, Hasher};
use super::error::Doing;
use super::index::Layer;
use super::overlay::{self, Stack};
use super::scratch::{MOUNT_NAME, Scratch};
use super::store::Store;
use super::unpack::{Onto, Outcome, Summary};
use super::{Error, Progress, Result};
use crate::api::PullProgress;

/// In the directory of a layer: its files, and what is known of it.
pub(super) const FILES: &str = "fs";
const FACTS: &str = "layer.json";

const UNPACKING_NICENESS: i32 = 10;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Facts {
    bytes: u64,
    #[serde(default)]
    entries: u64,
    whole: bool,
}

/// Where layers come from.
pub(super) trait Layers: Sync {
    /// Of a layer as it is packed; 0 where that is not known.
    fn bytes(&self, index: usize) -> u64;

    /// Its content, no longer compressed. May be asked for more than once.
    fn open<'a>(&'a self, index: usize, count: &'a (dyn Fn(u64) + Send + Sync)) -> Result<Box<dyn Read + Send + 'a>>;
}

/// Everything that an image needs, some of it not in its place yet.
pub(super) struct Prepared {
    scratch: Scratch,
    /// The lowest first.
    layers: Vec<Ready>,
}

#[derive(Clone)]
struct Ready {
    layer: Layer,
    /// Where it is now, if not in its place.
    fresh: Option<PathBuf>,
}

impl Prepared {
    /// Whether anything was unpacked.
    pub(super) fn has_fresh(&self) -> bool {
        self.layers.iter().any(|ready| ready.fresh.is_some())
    }

    /// Moves everything to its place, with the lock held. None: something that was there is gone.
    pub(super) fn commit(self, store: &Store) -> Result<Option<Vec<Layer>>> {
        for ready in &self.layers {
            let place = store.layer_path(&ready.layer.name);
            match &ready.fresh {
                _ if place.exists() => {}
                Some(fresh) => {
                    std::fs::rename(fresh, &place).doing(|| format!("make {}", place.display()))?;
                    let parent = place.parent().unwrap_or(&place);
                    File::open(parent).and_then(|parent| parent.sync_all()).doing(|| format!("sync {parent:?}"))?;
                }
                None => return Ok(None),
            }
        }
        drop(self.scratch);
        Ok(Some(self.layers.into_iter().map(|ready| ready.layer).collect()))
    }
}

/// Unpacks what is not here yet of these, some at a time.
pub(super) fn unpack(
    store: &Store,
    diff_ids: &[Digest],
    layers: &dyn Layers,
    progress: Progress<'_>,
) -> Result<Prepared> {
    let work = Work { store, diff_ids, layers, scratch: store.scratch()?, progress, done: Mutex::default() };
    work.start();
    let mut ready: HashMap<&Digest, Ready> = HashMap::new();
    let mut missing = Vec::new();
    for (index, diff_id) in diff_ids.iter().enumerate() {
        if ready.contains_key(diff_id) || missing.iter().any(|known| diff_ids[*known] == *diff_id) {
            work.finished(index);
        } else if let Some(found) = existing(store, &format!("diff/{}", diff_id.hex()))? {
            ready.insert(diff_id, found);
            work.finished(index);
        } else {
            missing.push(index);
        }
    }
    let separate = work.separately(&missing)?;
    let mut all: Vec<Ready> = Vec::with_capacity(diff_ids.len());
    let mut chain = None;
    for (index, diff_id) in diff_ids.iter().enumerate() {
        chain = Some(chained(chain.as_ref(), diff_id));
        let found = ready.get(diff_id).or_else(|| separate.get(diff_id)).cloned();
        let next = match found {
            Some(found) => found,
            None => work.merged(index, chain.as_ref().unwrap_or(diff_id), &all)?,
        };
        all.push(next);
    }
    Ok(Prepared { scratch: work.scratch, layers: all })
}

/// Which of these are not here.
pub(super) fn missing(store: &Store, diff_ids: &[Digest]) -> Vec<usize> {
    let mut missing: Vec<usize> = Vec::new();
    let mut chain = None;
    for (index, diff_id) in diff_ids.iter().enumerate() {
        chain = Some(chained(chain.as_ref(), diff_id));
        let names = [("diff", Some(diff_id)), ("chain", chain.as_ref())];
        let here = |(kind, id): (&str, Option<&Digest>)| {
            id.is_some_and(|id| store.layer_path(&format!("{kind}/{}", id.hex())).exists())
        };
        if !names.into_iter().any(here) && !missing.iter().any(|known| diff_ids[*known] == *diff_id) {
            missing.push(index);
        }
    }
    missing
}

struct Work<'a> {
    store: &'a Store,
    diff_ids: &'a [Digest],
    layers: &'a dyn Layers,
    scratch: Scratch,
    progress: Progress<'a>,
    done: Mutex<PullProgress>,
}

impl<'a> Work<'a> {
    /// Those that need no others, by their digest.
    fn separately(&self, missing: &[usize]) -> Result<HashMap<&'a Digest, Ready>> {
        let (next, made) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
        let worker = || -> Result<()> {
            step_back();
            while let Some(index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                let onto = if *index == 0 { Onto::Lowest } else { Onto::Separate };
                let directory = self.directory(*index, "separate")?;
                let result = self.unpack(*index, &directory.join(FILES), onto);
                if result.is_err() {
                    next.store(missing.len(), Ordering::Relaxed);
                }
                if let Outcome::Complete(summary) = result? {
                    let name = format!("diff/{}", self.diff_ids[*index].hex());
                    made.lock().insert(&self.diff_ids[*index], fresh(directory, name, summary, false)?);
                    self.finished(*index);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers = PARALLEL_LAYERS.min(missing.len());
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::corrupt("a layer made its unpacking panic")))
            })
        })?;
        Ok(made.into_inner())
    }

    /// One that relies on those below it.
    fn merged(&self, index: usize, chain: &Digest, below: &[Ready]) -> Result<Ready> {
        let name = format!("chain/{}", chain.hex());
        if let Some(found) = existing(self.store, &name)? {
            self.finished(index);
            return Ok(found);
        }
        let directory = self.directory(index, "merged")?;
        let files = directory.join(FILES);
        let lower: Vec<PathBuf> = stack(self.store, below);
        let target = self.scratch.path().join(MOUNT_NAME);
        let work = self.scratch.path().join(format!("work-{index}"));
        make(&target)?;
        make(&work)?;
        match (Stack { lower: &lower, upper: &files, work: &work }).mount(&target) {
            Ok(()) => {}
            Err(error) if overlay::is_refused(error, &target) => {
                copy_layers(&lower, &files)?;
                return match self.unpack(index, &files, Onto::Merged)? {
                    Outcome::Complete(summary) => {
                        self.finished(index);
                        fresh(directory, name, summary, true)
                    }
                    Outcome::NeedsLower => Err(Error::corrupt("a layer relies on what is in none")),
                };
            }
            Err(error) => return Err(Error::Io(format!("mount the layers below layer {index}"), error.into())),
        }
        let result = self.unpack(index, &target, Onto::Merged);
        overlay::unmount(&target).doing(|| format!("unmount {}", target.display()))?;
        let Outcome::Complete(summary) = result? else {
            return Err(Error::corrupt("a layer relies on what is in none"));
        };
        self.finished(index);
        fresh(directory, name, summary, false)
    }

    fn unpack(&self, index: usize, root: &Path, onto: Onto) -> Result<Outcome> {
        let count = |bytes| self.advance(|done| done.bytes_done += bytes);
        let content = self.layers.open(index, &count)?;
        super::unpack::unpack(content, &self.diff_ids[index], root, onto)
            .map_err(|error| error.within(format_args!("layer {}", self.diff_ids[index])))
    }

    fn directory(&self, index: usize, kind: &str) -> Result<PathBuf> {
        let directory = self.scratch.path().join(format!("{kind}-{index}"));
        let files = directory.join(FILES);
        make(&files)?;
        // Unless the layer says otherwise; and whatever our umask is.
        rustix::fs::chmod(&files, Mode::from_raw_mode(0o755)).doing(|| format!("make {}", files.display()))?;
        Ok(directory)
    }

    fn start(&self) {
        let bytes_total = (0..self.diff_ids.len()).map(|index| self.layers.bytes(index)).sum();
        self.advance(|done| (done.layers_total, done.bytes_total) = (self.diff_ids.len(), bytes_total));
    }

    fn finished(&self, _index: usize) {
        self.advance(|done| done.layers_done += 1);
    }

    fn advance(&self, change: impl FnOnce(&mut PullProgress)) {
        let now = {
            let mut done = self.done.lock();
            change(&mut done);
            done.clone()
        };
        (self.progress)(now);
    }
}

/// Who serves requests on this machine goes first: unpacking takes what is left. Of this thread alone.
fn step_back() {
    // Where it cannot be, unpacking takes its share.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), UNPACKING_NICENESS);
}

/// The directories of layers, the highest first, down to one that needs no others, each once.
fn stack(store: &Store, layers: &[Ready]) -> Vec<PathBuf> {
    let needed = layers.iter().rposition(|ready| ready.layer.whole).unwrap_or(0);
    let mut paths: Vec<PathBuf> = Vec::new();
    for ready in layers[needed..].iter().rev() {
        let directory = ready.fresh.clone().unwrap_or_else(|| store.layer_path(&ready.layer.name));
        let path = directory.join(FILES);
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

fn existing(store: &Store, name: &str) -> Result<Option<Ready>> {
    let path = store.layer_path(name).join(FACTS);
    let content = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.doing(|| format!("read {}", path.display()))?,
    };
    let facts: Facts = serde_json::from_slice(&content)
        .map_err(|error| Error::corrupt(format_args!("{}: {error}", path.display())))?;
    let Facts { bytes, entries, whole } = facts;
    let layer = Layer { name: name.to_owned(), bytes, entries, whole };
    Ok(Some(Ready { layer, fresh: None }))
}

fn fresh(directory: PathBuf, name: String, summary: Summary, whole: bool) -> Result<Ready> {
    let Summary { bytes, entries } = summary;
    let facts = Facts { bytes, entries, whole };
    let content = serde_json::to_vec(&facts).expect("numbers have a form in JSON");
    std::fs::write(directory.join(FACTS), content).doing(|| format!("write {}", directory.join(FACTS).display()))?;
    Ok(Ready { layer: Layer { name, bytes, entries, whole }, fresh: Some(directory) })
}

/// What a layer is called together with all below it.
fn chained(below: Option<&Digest>, diff_id: &Digest) -> Digest {
    let Some(below) = below else {
        return diff_id.clone();
    };
    let mut hasher = Hasher::default();
    hasher.update(format!("{below} {diff_id}").as_bytes());
    hasher.finish()
}

fn make(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).doing(|| format!("make {}", directory.display()))
}
