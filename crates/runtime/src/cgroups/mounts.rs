//! Which hierarchies this host has, from what is mounted.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Cgroups, V1, V2};

/// Where controllers are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hierarchies {
    /// Also hybrid: what counts is bound to version 1.
    V1(BTreeMap<String, PathBuf>),
    V2(PathBuf),
}

impl Hierarchies {
    /// Those of this host.
    pub fn of_host() -> io::Result<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        detect(&mounts).ok_or_else(|| io::Error::other("this host has no cgroups"))
    }

    pub fn open(&self) -> Box<dyn Cgroups> {
        match self {
            Self::V1(controllers) => Box::new(V1::new(controllers.clone())),
            Self::V2(root) => Box::new(V2::new(root.clone())),
        }
    }
}

/// Controllers of version 1 that we use.
const CONTROLLERS: &[&str] = &["cpu", "cpuacct", "cpuset", "devices", "hugetlb", "memory", "pids"];
/// Without one of these in version 1, version 2 is used.
const DECISIVE: &[&str] = &["cpu", "memory", "pids"];

/// Reads `/proc/self/mountinfo`. None: no control groups at all.
pub fn detect(mount_information: &str) -> Option<Hierarchies> {
    let mut controllers = BTreeMap::new();
    let mut unified = None;
    for line in mount_information.lines() {
        let Some((place, file_system)) = line.split_once(" - ") else { continue };
        let Some(mount_point) = place.split(' ').nth(4) else { continue };
        let mut words = file_system.split(' ');
        match words.next() {
            Some("cgroup2") => unified = unified.or_else(|| Some(PathBuf::from(unescape(mount_point)))),
            Some("cgroup") => {
                let options = words.nth(1).unwrap_or_default();
                for option in options.split(',').filter(|option| CONTROLLERS.contains(option)) {
                    controllers.entry(option.to_owned()).or_insert_with(|| PathBuf::from(unescape(mount_point)));
                }
            }
            _ => {}
        }
    }
    if DECISIVE.iter().any(|name| controllers.contains_key(*name)) {
        return Some(Hierarchies::V1(controllers));
    }
    unified.map(Hierarchies::V2)
}

/// Spaces and the like are written as `\040`.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_wins_where_it_has_what_counts() {
        let text = "\
            30 20 0:25 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
            31 20 0:26 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory\n\
            32 20 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
            33 20 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let Some(Hierarchies::V1(controllers)) = detect(text) else { panic!("not version 1") };
        assert_eq!(controllers.keys().collect::<Vec<_>>(), ["cpu", "cpuacct", "memory"]);
        assert_eq!(controllers["cpuacct"], PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"));
    }

    #[test]
    fn version_2_otherwise() {
        let text = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(detect(text), Some(Hierarchies::V2(PathBuf::from("/sys/fs/cgroup"))));
        assert_eq!(detect("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"), None);
    }
}
