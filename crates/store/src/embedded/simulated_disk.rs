//! A disk for tests that forgets, on a seed, what was not synced.
//!
//! Contents and names are separate, as on real disks: a synced file whose name was not synced may be gone. At a
//! crash every name is bound to any of the files it was bound to since the last sync of the directory, whatever
//! becomes of the other names, and every file keeps its synced bytes with any of the sectors written since.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{Disk, DiskFile};

const SECTOR: usize = 64;

/// A small generator, so that a seed is a whole history.
#[derive(Clone)]
pub(crate) struct Seed(pub u64);

impl Seed {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

#[derive(Clone)]
pub(crate) struct SimulatedDisk(Arc<Mutex<World>>);

#[derive(Clone, Default)]
struct World {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    /// What each name may be bound to after a crash; a name without an entry is as in `names`.
    unsynced_names: BTreeMap<String, Vec<Option<usize>>>,
    /// The operation at which the power goes.
    crash_at: Option<u64>,
    operations: u64,
    /// How many bytes fit.
    capacity: Option<usize>,
    /// Blocks are looked for by a sync, not by an append.
    finds_out_late: bool,
    /// How many of the next syncs fail.
    failing_syncs: usize,
    failing_truncates: usize,
    /// The power goes right after a file got a name that begins so.
    crash_at_name: Option<&'static str>,
    /// From this operation on every sync fails.
    broken_from: Option<u64>,
}

#[derive(Clone, Default)]
struct Content {
    synced: Vec<u8>,
    now: Vec<u8>,
    /// A sync failed: whether the bytes since are there is open for good.
    broken: bool,
}

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        SimulatedDisk(Arc::default())
    }

    /// The power goes during the operation so many from now.
    pub(crate) fn crash_after(&self, operations: u64) {
        let mut world = self.0.lock();
        world.crash_at = Some(world.operations + operations);
    }

    pub(crate) fn crash_at_name(&self, prefix: &'static str) {
        self.0.lock().crash_at_name = Some(prefix);
    }

    pub(crate) fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    pub(crate) fn set_capacity(&self, bytes: Option<usize>) {
        self.0.lock().capacity = bytes;
    }

    pub(crate) fn capacity(&self) -> Option<usize> {
        self.0.lock().capacity
    }

    /// Leaves room for so many bytes.
    pub(crate) fn fill_up_to(&self, room: usize) {
        let mut world = self.0.lock();
        world.capacity = Some(world.used() + room);
    }

    /// From now on a full disk is noticed by syncs, not by appends.
    pub(crate) fn find_out_late(&self) {
        self.0.lock().finds_out_late = true;
    }

    pub(crate) fn fail_syncs(&self, count: usize) {
        self.0.lock().failing_syncs = count;
    }

    /// From so many operations on every sync fails.
    pub(crate) fn break_after(&self, operations: u64) {
        let mut world = self.0.lock();
        world.broken_from = Some(world.operations + operations);
    }

    pub(crate) fn fail_truncates(&self, count: usize) {
        self.0.lock().failing_truncates = count;
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// The length of a file, which is 0 if there is none.
    pub(crate) fn length(&self, name: &str) -> usize {
        let world = self.0.lock();
        world.names.get(name).map_or(0, |file| world.files[*file].now.len())
    }

    /// Changes a file's durable bytes.
    pub(crate) fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.0.lock();
        let index = world.names[name];
        let content = &mut world.files[index];
        change(&mut content.synced);
        content.now = content.synced.clone();
    }

    /// The disk as a new process finds it when only the old one died: all that was written is there, though what
    /// was not synced may still go.
    pub(crate) fn restarted(&self) -> SimulatedDisk {
        let mut world = self.0.lock();
        let next = World {
            files: std::mem::take(&mut world.files),
            names: std::mem::take(&mut world.names),
            unsynced_names: std::mem::take(&mut world.unsynced_names),
            ..World::default()
        };
        world.crash_at = Some(0);
        SimulatedDisk(Arc::new(Mutex::new(next)))
    }

    pub(crate) fn copy(&self) -> SimulatedDisk {
        SimulatedDisk(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// The disk as the next start finds it.
    pub(crate) fn after_crash(&self, seed: &mut Seed) -> SimulatedDisk {
        let world = self.0.lock();
        let mut next = World::default();
        let mut bindings: BTreeMap<&String, Option<usize>> =
            world.names.iter().map(|(name, file)| (name, Some(*file))).collect();
        for (name, options) in &world.unsynced_names {
            bindings.insert(name, options[seed.below(options.len())]);
        }
        for (name, file) in bindings {
            let Some(file) = file else { continue };
            let survived = survivor(&world.files[file], seed);
            next.names.insert(name.clone(), next.files.len());
            next.files.push(Content { synced: survived.clone(), now: survived, broken: false });
        }
        SimulatedDisk(Arc::new(Mutex::new(next)))
    }
}

/// What of a file is left: any sectors of what was written since the last sync, up to any length.
fn survivor(content: &Content, seed: &mut Seed) -> Vec<u8> {
    let (short, long) = (content.synced.len().min(content.now.len()), content.synced.len().max(content.now.len()));
    let length = match seed.below(3) {
        0 => content.synced.len(),
        1 => content.now.len(),
        _ => short + seed.below(long - short + 1),
    };
    let mut survived = content.synced.clone();
    survived.resize(length, 0);
    let all = seed.one_in(3);
    for start in (0..length).step_by(SECTOR) {
        let end = (start + SECTOR).min(length).min(content.now.len());
        if start < end && (all || seed.one_in(2)) {
            survived[start..end].copy_from_slice(&content.now[start..end]);
        }
    }
    survived
}

impl World {
    fn is_down(&self) -> bool {
        self.crash_at.is_some_and(|at| self.operations >= at)
    }

    /// Counts an operation; after the crash none works.
    fn begin(&mut self) -> io::Result<()> {
        if self.is_down() {
            return Err(io::Error::other("the power is gone"));
        }
        self.operations += 1;
        Ok(())
    }

    fn bind(&mut self, name: &str, file: Option<usize>) {
        let before = self.names.get(name).copied();
        self.unsynced_names.entry(name.to_owned()).or_insert_with(|| vec![before]).push(file);
        match file {
            Some(file) => self.names.insert(name.to_owned(), file),
            None => self.names.remove(name),
        };
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn used(&self) -> usize {
        // What a failed sync has lost takes no room.
        let length = |content: &Content| if content.broken { content.synced.len() } else { content.now.len() };
        self.names.values().map(|file| length(&self.files[*file])).sum()
    }

    /// How many bytes can still be written.
    fn room(&self) -> usize {
        self.capacity.map_or(usize::MAX, |capacity| capacity.saturating_sub(self.used()))
    }
}

impl Disk for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let world = self.0.lock();
        Ok(world.names.iter().map(|(name, file)| (name.clone(), world.files[*file].now.len() as u64)).collect())
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        let world = self.0.lock();
        Ok(Box::new(io::Cursor::new(world.files[world.find(name)?].now.clone())))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.0.lock();
        world.begin()?;
        let file = world.files.len();
        world.files.push(Content::default());
        world.bind(name, Some(file));
        Ok(Box::new(SimulatedFile { world: self.0.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.0.lock();
        world.begin()?;
        let file = world.find(from)?;
        world.bind(from, None);
        world.bind(to, Some(file));
        if world.crash_at_name.is_some_and(|prefix| to.starts_with(prefix)) {
            world.crash_at = Some(world.operations);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.0.lock();
        world.begin()?;
        world.find(name)?;
        world.bind(name, None);
        Ok(())
    }

    fn allocate(&self, name: &str, bytes: u64) -> io::Result<()> {
        let mut world = self.0.lock();
        world.begin()?;
        let file = world.names.get(name).copied().unwrap_or_else(|| {
            world.files.push(Content::default());
            let file = world.files.len() - 1;
            world.bind(name, Some(file));
            file
        });
        let bytes = bytes as usize;
        if bytes.saturating_sub(world.files[file].now.len()) > world.room() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        world.files[file].now.resize(bytes, 0);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut world = self.0.lock();
        world.begin()?;
        world.unsynced_names.clear();
        Ok(())
    }
}

struct SimulatedFile {
    world: Arc<Mutex<World>>,
    file: usize,
}

impl DiskFile for SimulatedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world.lock();
        world.begin()?;
        let room = if world.finds_out_late { usize::MAX } else { world.room() };
        let fits = bytes.len().min(room);
        world.files[self.file].now.extend_from_slice(&bytes[..fits]);
        if world.is_down() {
            return Err(io::Error::other("the power went during the write"));
        }
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut world = self.world.lock();
        world.begin()?;
        if world.failing_truncates > 0 {
            world.failing_truncates -= 1;
            return Err(io::Error::other("the disk failed"));
        }
        world.files[self.file].now.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.world.lock();
        world.begin()?;
        // The power may go before the last byte is there: then nobody is told, though all may be.
        if world.is_down() {
            return Err(io::Error::other("the power went during the sync"));
        }
        let is_broken = world.broken_from.is_some_and(|from| world.operations >= from);
        if world.failing_syncs > 0 || is_broken {
            world.failing_syncs = world.failing_syncs.saturating_sub(1);
            world.files[self.file].broken = true;
            return Err(io::Error::other("the disk failed"));
        }
        if world.finds_out_late && world.capacity.is_some_and(|capacity| world.used() > capacity) {
            world.files[self.file].broken = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let content = &mut world.files[self.file];
        // As Linux does: after a failure later syncs succeed without the lost bytes.
        if !content.broken {
            content.synced = content.now.clone();
        }
        Ok(())
    }
}
