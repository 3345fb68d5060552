//! Control groups: who may use how much, who belongs together, and what was used.
//!
//! Version 1, hybrid and version 2 stand behind [`Cgroups`]. Paths are relative to the root of the hierarchies, as
//! `kubepods/burstable/pod1/abc`, and made by us, so that they never lead out. All of it works on plain files below a
//! root, so that tests use a tree of their own.

mod devices;
mod files;
mod mounts;
mod v1;
mod v2;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::api::{Memory, Resources};

pub use mounts::{Hierarchies, detect};
pub use v1::V1;
pub use v2::V2;

/// How often a group is looked through for processes to be killed, and how long is waited between.
const KILL_ROUNDS: usize = 500;
const KILL_PAUSE: Duration = Duration::from_millis(1);
/// How often a removal is tried: the kernel lets go of a group a little after its last process.
const REMOVE_ROUNDS: usize = 100;
const REMOVE_PAUSE: Duration = Duration::from_millis(2);

/// One kind of hierarchies.
pub trait Cgroups: Send + Sync {
    /// Makes a group, and those above it, and sets what it may use. `leaf`: processes live in it, not further groups.
    fn create(&self, path: &str, limits: &Resources, leaf: bool) -> io::Result<()>;

    /// Which devices its processes may use, and nothing else.
    fn allow_devices(&self, path: &str, rules: &[DeviceRule]) -> io::Result<()>;

    fn entry(&self, path: &str) -> Entry;

    /// The processes in it, not in those below.
    fn processes(&self, path: &str) -> Vec<i32>;

    /// The groups right below it, by their names.
    fn children(&self, path: &str) -> Vec<String>;

    /// Lets no process in it fork any more. As far as it can be had: killing goes on in rounds anyway.
    fn refuse_forks(&self, path: &str);

    /// Kills all in it and below at once, if this kind can.
    fn kill_at_once(&self, path: &str) -> bool;

    /// How many processes were killed for want of memory.
    fn out_of_memory_kills(&self, path: &str) -> u64;

    fn usage(&self, path: &str) -> Usage;

    /// Removes a group without processes and without groups below it. None there: fine.
    fn remove_one(&self, path: &str) -> io::Result<()>;
}

/// How a process gets into a group without waiting for all processors to take notice, which takes tens of milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It writes `0` to these files.
    Files(Vec<PathBuf>),
    /// It is born there.
    Birth(PathBuf),
}

impl Entry {
    /// For a process that could not be born in it.
    pub fn by_files(&self) -> Vec<PathBuf> {
        match self {
            Self::Files(files) => files.clone(),
            Self::Birth(directory) => vec![directory.join("cgroup.procs")],
        }
    }
}

/// A device by its numbers; None: any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRule {
    /// `c` or `b`.
    pub kind: char,
    pub major: Option<u32>,
    pub minor: Option<u32>,
    /// Of `rwm`.
    pub access: String,
}

/// What a group used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu_nanos: u64,
    pub memory: Memory,
    pub processes: u64,
}

/// Kills everything in a group and below it. Whether nothing is left.
pub fn kill_all(cgroups: &dyn Cgroups, path: &str) -> bool {
    if cgroups.kill_at_once(path) {
        return true;
    }
    let groups = below(cgroups, path);
    for group in &groups {
        cgroups.refuse_forks(group);
    }
    for _ in 0..KILL_ROUNDS {
        let processes: Vec<i32> = groups.iter().flat_map(|group| cgroups.processes(group)).collect();
        if processes.is_empty() {
            return true;
        }
        for process in processes.into_iter().filter_map(rustix::process::Pid::from_raw) {
            let _gone_already = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
        std::thread::sleep(KILL_PAUSE);
    }
    false
}

/// Removes a group and those below it, which have no processes any more.
pub fn remove_all(cgroups: &dyn Cgroups, path: &str) -> io::Result<()> {
    let mut groups = below(cgroups, path);
    // The deepest first.
    groups.reverse();
    let mut result = Ok(());
    for round in 0..REMOVE_ROUNDS {
        result = groups.iter().try_for_each(|group| cgroups.remove_one(group));
        if result.is_ok() {
            break;
        }
        if round + 1 < REMOVE_ROUNDS {
            std::thread::sleep(REMOVE_PAUSE);
        }
    }
    result
}

/// A group and all below it, each before those below it.
fn below(cgroups: &dyn Cgroups, path: &str) -> Vec<String> {
    let mut groups = vec![path.to_owned()];
    let mut next = 0;
    while let Some(group) = groups.get(next).cloned() {
        groups.extend(cgroups.children(&group).into_iter().map(|name| format!("{group}/{name}")));
        next += 1;
    }
    groups
}

/// Whether a path stays below the root.
pub fn is_inside(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}
