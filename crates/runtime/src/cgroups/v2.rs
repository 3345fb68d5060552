//! Control groups of version 2: one hierarchy, whose inner groups hold no processes.

use std::io;
use std::path::{Path, PathBuf};

use super::{Cgroups, DeviceRule, Usage, files};
use crate::api::{Memory, Resources};

/// What groups hand down, as far as the host has it.
const CONTROLLERS: &[&str] = &["cpu", "cpuset", "hugetlb", "io", "memory", "pids"];

pub struct V2 {
    root: PathBuf,
}

impl V2 {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Lets the groups right below this one have controllers.
    fn hand_down(&self, directory: &Path) -> io::Result<()> {
        let there = files::read(&directory.join("cgroup.controllers"));
        let handed = files::read(&directory.join("cgroup.subtree_control"));
        let has = |text: &str, name: &str| text.split_whitespace().any(|word| word == name);
        for name in CONTROLLERS.iter().filter(|name| has(&there, name) && !has(&handed, name)) {
            files::write(&directory.join("cgroup.subtree_control"), &format!("+{name}"))?;
        }
        Ok(())
    }

    fn limit(&self, directory: &Path, limits: &Resources) -> io::Result<()> {
        if let Some(shares) = limits.cpu_shares {
            files::write(&directory.join("cpu.weight"), &weight(shares).to_string())?;
        }
        if let Some(quota) = limits.cpu_quota_micros.filter(|quota| *quota > 0) {
            let period = limits.cpu_period_micros.unwrap_or(100_000);
            files::write(&directory.join("cpu.max"), &format!("{quota} {period}"))?;
        }
        if let Some(bytes) = limits.memory_limit_bytes.filter(|bytes| *bytes > 0) {
            files::write(&directory.join("memory.max"), &bytes.to_string())?;
            files::write_if_there(&directory.join("memory.swap.max"), "0")?;
        }
        if let Some(pids) = limits.pids_limit.filter(|pids| *pids > 0) {
            files::write(&directory.join("pids.max"), &pids.to_string())?;
        }
        if !limits.cpuset_cpus.is_empty() {
            files::write(&directory.join("cpuset.cpus"), &limits.cpuset_cpus)?;
        }
        for (size, bytes) in &limits.huge_pages {
            files::write_if_there(&directory.join(format!("hugetlb.{size}.max")), &bytes.to_string())?;
        }
        for (name, value) in &limits.unified {
            if name.contains('/') || name.contains("..") {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no file of a cgroup")));
            }
            files::write(&directory.join(name), value)?;
        }
        Ok(())
    }
}

/// From the range of shares (2 to 262144) to that of weights (1 to 10000).
fn weight(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

impl Cgroups for V2 {
    fn create(&self, path: &str, limits: &Resources, leaf: bool) -> io::Result<()> {
        let mut directory = self.root.clone();
        for part in Path::new(path) {
            self.hand_down(&directory)?;
            directory.push(part);
            match std::fs::create_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        if !leaf {
            self.hand_down(&directory)?;
        }
        self.limit(&directory, limits)
    }

    /// Version 2 asks a program in the kernel about devices. There is none here yet: what keeps devices away is that
    /// their files are not there, and that mounts of volumes are what the pod was given.
    fn allow_devices(&self, _path: &str, _rules: &[DeviceRule]) -> io::Result<()> {
        Ok(())
    }

    fn entrances(&self, path: &str) -> Vec<PathBuf> {
        vec![self.root.join(path).join("cgroup.procs")]
    }

    fn processes(&self, path: &str) -> Vec<i32> {
        files::processes(&self.root.join(path).join("cgroup.procs"))
    }

    fn children(&self, path: &str) -> Vec<String> {
        files::directories(&self.root.join(path))
    }

    fn refuse_forks(&self, path: &str) {
        let _best_effort = files::write(&self.root.join(path).join("pids.max"), "0");
    }

    fn kill_at_once(&self, path: &str) -> bool {
        files::write(&self.root.join(path).join("cgroup.kill"), "1").is_ok()
    }

    fn out_of_memory_kills(&self, path: &str) -> u64 {
        files::keyed(&files::read(&self.root.join(path).join("memory.events")), "oom_kill")
    }

    fn usage(&self, path: &str) -> Usage {
        let directory = self.root.join(path);
        let stat = files::read(&directory.join("memory.stat"));
        let usage_bytes = files::number(&directory.join("memory.current"));
        Usage {
            cpu_nanos: files::keyed(&files::read(&directory.join("cpu.stat")), "usage_usec").saturating_mul(1000),
            memory: Memory {
                working_set_bytes: usage_bytes.saturating_sub(files::keyed(&stat, "inactive_file")),
                usage_bytes,
                rss_bytes: files::keyed(&stat, "anon"),
                page_faults: files::keyed(&stat, "pgfault"),
                major_page_faults: files::keyed(&stat, "pgmajfault"),
                limit_bytes: files::number(&directory.join("memory.max")),
            },
            processes: files::number(&directory.join("pids.current")),
        }
    }

    fn remove_one(&self, path: &str) -> io::Result<()> {
        files::remove(&self.root.join(path))
    }
}
