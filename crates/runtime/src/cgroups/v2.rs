//! Control groups of version 2: one hierarchy, whose inner groups hold no processes.

use std::io;
use std::path::{Path, PathBuf};

use super::{Cgroups, DeviceRule, Entry, Usage, files};
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
        if leaf {
            // For want of memory a container ends as a whole: half of one is of use to nobody.
            files::write_if_there(&directory.join("memory.oom.group"), "1")?;
        }
        self.limit(&directory, limits)
    }

    fn allow_devices(&self, path: &str, rules: &[DeviceRule]) -> io::Result<()> {
        let directory = std::fs::File::open(self.root.join(path))?;
        let told = |error: io::Error| io::Error::new(error.kind(), format!("say which devices may be used: {error}"));
        crate::sys::attach_device_program(&directory, &super::devices::program(rules)).map_err(told)
    }

    fn entry(&self, path: &str) -> Entry {
        Entry::Birth(self.root.join(path))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, V2) {
        let directory = tempfile::tempdir().unwrap();
        // What the kernel would make with each directory.
        for path in ["", "kubepods", "kubepods/pod1", "kubepods/pod1/c"] {
            let place = directory.path().join(path);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("cgroup.controllers"), "cpu io memory pids").unwrap();
            let files = [
                "cgroup.subtree_control",
                "cpu.weight",
                "cpu.max",
                "memory.max",
                "memory.swap.max",
                "pids.max",
                "memory.oom.group",
                "memory.high",
            ];
            files.iter().for_each(|name| std::fs::write(place.join(name), "").unwrap());
        }
        let cgroups = V2::new(directory.path().to_owned());
        (directory, cgroups)
    }

    #[test]
    fn limits_are_written_and_controllers_handed_down() {
        let (directory, cgroups) = tree();
        let limits = Resources {
            cpu_shares: Some(1024),
            cpu_quota_micros: Some(50_000),
            memory_limit_bytes: Some(1 << 20),
            pids_limit: Some(100),
            unified: [("memory.high".to_owned(), "1000".to_owned())].into(),
            ..Default::default()
        };
        cgroups.create("kubepods/pod1/c", &limits, true).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.path().join("kubepods/pod1/c").join(name)).unwrap();
        assert_eq!((read("cpu.weight"), read("cpu.max")), ("39".to_owned(), "50000 100000".to_owned()));
        assert_eq!((read("memory.max"), read("memory.swap.max")), ("1048576".to_owned(), "0".to_owned()));
        assert_eq!((read("pids.max"), read("memory.oom.group")), ("100".to_owned(), "1".to_owned()));
        assert_eq!(read("memory.high"), "1000");
        // The last of those that were written, one by one: a plain file keeps no more.
        let handed =
            |path: &str| std::fs::read_to_string(directory.path().join(path).join("cgroup.subtree_control")).unwrap();
        assert!(handed("kubepods/pod1").starts_with("+pids") && handed("kubepods/pod1/c").is_empty());
        let outside = Resources { unified: [("../x".to_owned(), "1".to_owned())].into(), ..Default::default() };
        assert!(cgroups.create("kubepods/pod1/c", &outside, true).is_err());
    }

    #[test]
    fn figures_are_read() {
        let (directory, cgroups) = tree();
        let write =
            |name: &str, text: &str| std::fs::write(directory.path().join("kubepods/pod1/c").join(name), text).unwrap();
        write("cpu.stat", "usage_usec 1500\nuser_usec 1000\n");
        write("memory.current", "5000\n");
        write("memory.stat", "anon 3000\ninactive_file 1000\npgfault 7\npgmajfault 2\n");
        write("memory.max", "max\n");
        write("memory.events", "oom 3\noom_kill 2\n");
        write("pids.current", "4\n");
        write("cgroup.procs", "12\n13\n0\n");
        let usage = cgroups.usage("kubepods/pod1/c");
        assert_eq!((usage.cpu_nanos, usage.processes), (1_500_000, 4));
        assert_eq!((usage.memory.working_set_bytes, usage.memory.rss_bytes, usage.memory.limit_bytes), (4000, 3000, 0));
        assert_eq!(cgroups.out_of_memory_kills("kubepods/pod1/c"), 2);
        assert_eq!(cgroups.processes("kubepods/pod1/c"), [12, 13]);
        assert_eq!(cgroups.children("kubepods"), ["pod1"]);
    }

    #[test]
    fn weights_follow_shares() {
        assert_eq!([2, 1024, 262_144].map(weight), [1, 39, 10_000]);
    }
}
