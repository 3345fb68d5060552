//! Control groups of version 1: a hierarchy for each controller. Hybrid hosts are of this kind where it matters.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::{Cgroups, DeviceRule, Entry, Usage, files};
use crate::api::{Memory, Resources};

/// Which ones processes enter; `cpuset` and `hugetlb` only where they are asked for, as a group of the former lets
/// nobody in before it was filled.
const ENTERED: &[&str] = &["cpu", "cpuacct", "devices", "memory", "pids"];
/// What the kernel says where there is no limit: close to the largest number there is.
const NO_LIMIT: u64 = 1 << 62;

pub struct V1 {
    controllers: BTreeMap<String, PathBuf>,
}

impl V1 {
    pub fn new(controllers: BTreeMap<String, PathBuf>) -> Self {
        Self { controllers }
    }

    fn file(&self, controller: &str, path: &str, name: &str) -> Option<PathBuf> {
        Some(self.controllers.get(controller)?.join(path).join(name))
    }

    /// The directories of a group, each once, as two controllers may share one.
    fn directories(&self, path: &str) -> BTreeSet<PathBuf> {
        self.controllers.values().map(|root| root.join(path)).collect()
    }

    fn set(&self, controller: &str, path: &str, name: &str, value: &str) -> io::Result<()> {
        match self.file(controller, path, name) {
            Some(file) => files::write(&file, value),
            None => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("this host has no cgroup controller {controller}, which {name} needs"),
            )),
        }
    }

    /// Gives each level of the path the processors of the one above it, without which nobody could enter.
    fn prepare_cpuset(&self, path: &str) -> io::Result<()> {
        let Some(root) = self.controllers.get("cpuset") else { return Ok(()) };
        let mut directory = root.clone();
        for part in Path::new(path) {
            let above = directory.clone();
            directory.push(part);
            std::fs::create_dir_all(&directory)?;
            for name in ["cpuset.cpus", "cpuset.mems"] {
                if files::read(&directory.join(name)).trim().is_empty() {
                    files::write(&directory.join(name), files::read(&above.join(name)).trim())?;
                }
            }
        }
        Ok(())
    }

    fn limit(&self, path: &str, limits: &Resources) -> io::Result<()> {
        if let Some(shares) = limits.cpu_shares {
            self.set("cpu", path, "cpu.shares", &shares.max(2).to_string())?;
        }
        if let Some(period) =
            limits.cpu_period_micros.filter(|_| limits.cpu_quota_micros.is_some_and(|quota| quota > 0))
        {
            self.set("cpu", path, "cpu.cfs_period_us", &period.to_string())?;
        }
        if let Some(quota) = limits.cpu_quota_micros.filter(|quota| *quota > 0) {
            self.set("cpu", path, "cpu.cfs_quota_us", &quota.to_string())?;
        }
        if let Some(bytes) = limits.memory_limit_bytes.filter(|bytes| *bytes > 0) {
            self.set("memory", path, "memory.limit_in_bytes", &bytes.to_string())?;
            // No swap on top of it. Hosts without accounting of swap have no such file.
            if let Some(file) = self.file("memory", path, "memory.memsw.limit_in_bytes") {
                files::write_if_there(&file, &bytes.to_string())?;
            }
        }
        if let Some(pids) = limits.pids_limit.filter(|pids| *pids > 0) {
            self.set("pids", path, "pids.max", &pids.to_string())?;
        }
        for (size, bytes) in &limits.huge_pages {
            // Where this kernel has no such pages there is nothing to be limited.
            if let Some(file) = self.file("hugetlb", path, &format!("hugetlb.{size}.limit_in_bytes")) {
                files::write_if_there(&file, &bytes.to_string())?;
            }
        }
        Ok(())
    }
}

impl Cgroups for V1 {
    fn create(&self, path: &str, limits: &Resources, _leaf: bool) -> io::Result<()> {
        for controller in ENTERED.iter().chain(&["hugetlb"]) {
            if let Some(root) = self.controllers.get(*controller) {
                std::fs::create_dir_all(root.join(path))?;
            }
        }
        if !limits.cpuset_cpus.is_empty() {
            self.prepare_cpuset(path)?;
            self.set("cpuset", path, "cpuset.cpus", &limits.cpuset_cpus)?;
        }
        self.limit(path, limits)
    }

    fn allow_devices(&self, path: &str, rules: &[DeviceRule]) -> io::Result<()> {
        let Some(directory) = self.controllers.get("devices").map(|root| root.join(path)) else { return Ok(()) };
        files::write(&directory.join("devices.deny"), "a")?;
        let number = |number: Option<u32>| number.map_or("*".to_owned(), |number| number.to_string());
        for rule in rules {
            let line = format!("{} {}:{} {}", rule.kind, number(rule.major), number(rule.minor), rule.access);
            files::write(&directory.join("devices.allow"), &line)?;
        }
        Ok(())
    }

    fn entry(&self, path: &str) -> Entry {
        let entered = ENTERED.iter().chain(&["cpuset", "hugetlb"]).filter_map(|name| self.controllers.get(*name));
        let directories: BTreeSet<PathBuf> = entered.map(|root| root.join(path)).collect();
        let there = directories.into_iter().filter(|directory| directory.is_dir());
        // `tasks` and not `cgroup.procs`: a thread that moves itself waits for nobody.
        Entry::Files(there.map(|directory| directory.join("tasks")).collect())
    }

    fn processes(&self, path: &str) -> Vec<i32> {
        let found = ["pids", "memory", "cpu"].iter().find_map(|name| self.file(name, path, "cgroup.procs"));
        found.map(|file| files::processes(&file)).unwrap_or_default()
    }

    fn children(&self, path: &str) -> Vec<String> {
        let names =
            self.directories(path).iter().flat_map(|directory| files::directories(directory)).collect::<BTreeSet<_>>();
        names.into_iter().collect()
    }

    fn refuse_forks(&self, path: &str) {
        if let Some(file) = self.file("pids", path, "pids.max") {
            let _best_effort = files::write(&file, "0");
        }
    }

    fn kill_at_once(&self, _path: &str) -> bool {
        false
    }

    fn out_of_memory_kills(&self, path: &str) -> u64 {
        self.file("memory", path, "memory.oom_control").map_or(0, |file| files::keyed(&files::read(&file), "oom_kill"))
    }

    fn usage(&self, path: &str) -> Usage {
        let number = |controller, name| self.file(controller, path, name).map_or(0, |file| files::number(&file));
        let stat = self.file("memory", path, "memory.stat").map(|file| files::read(&file)).unwrap_or_default();
        let usage_bytes = number("memory", "memory.usage_in_bytes");
        let limit = number("memory", "memory.limit_in_bytes");
        Usage {
            cpu_nanos: number("cpuacct", "cpuacct.usage"),
            memory: Memory {
                working_set_bytes: usage_bytes.saturating_sub(files::keyed(&stat, "total_inactive_file")),
                usage_bytes,
                rss_bytes: files::keyed(&stat, "total_rss"),
                page_faults: files::keyed(&stat, "total_pgfault"),
                major_page_faults: files::keyed(&stat, "total_pgmajfault"),
                limit_bytes: if limit >= NO_LIMIT { 0 } else { limit },
            },
            processes: number("pids", "pids.current"),
        }
    }

    fn remove_one(&self, path: &str) -> io::Result<()> {
        self.directories(path).iter().try_for_each(|directory| files::remove(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_where_they_belong() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let controllers = [("cpu", "cpu,cpuacct"), ("cpuacct", "cpu,cpuacct"), ("memory", "memory"), ("pids", "pids")];
        let cgroups = V1::new(controllers.iter().map(|(name, path)| ((*name).to_owned(), place(path))).collect());
        for (path, names) in [
            ("cpu,cpuacct", &["cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"][..]),
            ("memory", &["memory.limit_in_bytes"]),
            ("pids", &["pids.max"]),
        ] {
            std::fs::create_dir_all(place(path).join("kubepods/c")).unwrap();
            names.iter().for_each(|name| std::fs::write(place(path).join("kubepods/c").join(name), "").unwrap());
        }
        let mut limits = Resources {
            cpu_shares: Some(512),
            cpu_quota_micros: Some(50_000),
            cpu_period_micros: Some(100_000),
            memory_limit_bytes: Some(1 << 20),
            pids_limit: Some(100),
            ..Default::default()
        };
        cgroups.create("kubepods/c", &limits, true).unwrap();
        let read = |path: &str| std::fs::read_to_string(directory.path().join(path)).unwrap();
        assert_eq!(read("cpu,cpuacct/kubepods/c/cpu.shares"), "512");
        assert_eq!(read("cpu,cpuacct/kubepods/c/cpu.cfs_quota_us"), "50000");
        assert_eq!(read("memory/kubepods/c/memory.limit_in_bytes"), "1048576");
        assert_eq!(read("pids/kubepods/c/pids.max"), "100");
        let entrances = cgroups.entry("kubepods/c").by_files();
        assert_eq!(entrances.len(), 3);
        assert!(entrances.iter().all(|file| file.ends_with("kubepods/c/tasks")));
        // What this host cannot limit is not let run without a limit.
        limits.cpuset_cpus = "0".to_owned();
        assert!(cgroups.create("kubepods/c", &limits, true).is_err());
    }
}
