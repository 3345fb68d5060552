//! What the machine is made of, as it says itself. What it does not say is empty, or nothing.

use std::path::Path;

use rkube_machinery::{Map, Text, Value, object};

/// So much memory is never given to pods, so that the machine does not run out of it: upstream's threshold of eviction.
const MEMORY_KEPT_BYTES: u64 = 100 << 20;
/// So much of the disk is kept, in parts of a hundred.
const STORAGE_KEPT_PERCENT: u64 = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub cpus: u64,
    pub memory_bytes: u64,
    pub swap_bytes: u64,
    /// Sizes as `2Mi`, with what there is of them in bytes.
    pub huge_pages: Vec<(String, u64)>,
    pub kernel_version: String,
    pub os_image: String,
    pub machine_id: String,
    pub system_uuid: String,
    pub boot_id: String,
    pub app_armor: bool,
}

impl Machine {
    /// `root` is `/`, but in tests.
    pub fn read(root: &Path) -> Machine {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let line = |path: &str| text(path).trim().to_owned();
        let memory = text("proc/meminfo");
        let machine_id = line("etc/machine-id");
        let uuid = line("sys/class/dmi/id/product_uuid").to_lowercase();
        Machine {
            cpus: u64::try_from(text("proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count())
                .unwrap_or(1)
                .max(1),
            memory_bytes: kibibytes(&memory, "MemTotal:") << 10,
            swap_bytes: kibibytes(&memory, "SwapTotal:") << 10,
            huge_pages: huge_pages(&root.join("sys/kernel/mm/hugepages")),
            kernel_version: line("proc/sys/kernel/osrelease"),
            os_image: os_image(&text("etc/os-release")),
            system_uuid: if uuid.is_empty() { machine_id.clone() } else { uuid },
            machine_id,
            boot_id: line("proc/sys/kernel/random/boot_id"),
            app_armor: line("sys/module/apparmor/parameters/enabled").starts_with('Y'),
        }
    }

    /// What there is, with a disk of this size, and room for so many pods.
    pub fn capacity(&self, storage_bytes: u64, pods: u32) -> Value {
        let mut entries: Vec<(Text, Value)> = vec![
            ("cpu".into(), self.cpus.to_string().into()),
            ("memory".into(), kibi(self.memory_bytes)),
            ("pods".into(), pods.to_string().into()),
        ];
        if storage_bytes > 0 {
            entries.push(("ephemeral-storage".into(), kibi(storage_bytes)));
        }
        entries.extend(self.huge_pages.iter().map(|(size, bytes)| {
            let amount = match bytes {
                0 => "0".to_owned(),
                bytes if bytes % (1 << 30) == 0 => format!("{}Gi", bytes >> 30),
                bytes if bytes % (1 << 20) == 0 => format!("{}Mi", bytes >> 20),
                bytes => format!("{}Ki", bytes >> 10),
            };
            (format!("hugepages-{size}").into(), amount.into())
        }));
        Map::sorted(entries).into()
    }

    /// What of it pods may have.
    pub fn allocatable(&self, storage_bytes: u64, pods: u32) -> Value {
        let mut allocatable = self.capacity(storage_bytes, pods);
        let huge: u64 = self.huge_pages.iter().map(|(_, bytes)| bytes).sum();
        allocatable.set("memory", kibi(self.memory_bytes.saturating_sub(MEMORY_KEPT_BYTES + huge)));
        if storage_bytes > 0 {
            let kept = storage_bytes / 100 * STORAGE_KEPT_PERCENT;
            allocatable.set("ephemeral-storage", (storage_bytes - kept).to_string());
        }
        allocatable
    }

    /// What the Node says of it.
    pub fn info(&self, runtime_version: &str, kubelet_version: &str) -> Value {
        let mut info = object! {
            "architecture": crate::registration::architecture(),
            "bootID": self.boot_id.as_str(),
            "containerRuntimeVersion": runtime_version,
            "kernelVersion": self.kernel_version.as_str(),
            "kubeProxyVersion": "",
            "kubeletVersion": kubelet_version,
            "machineID": self.machine_id.as_str(),
            "operatingSystem": "linux",
            "osImage": self.os_image.as_str(),
            "systemUUID": self.system_uuid.as_str(),
        };
        if self.swap_bytes > 0 {
            info.set("swap", object! { "capacity": i64::try_from(self.swap_bytes).unwrap_or(i64::MAX) });
        }
        info
    }
}

fn kibi(bytes: u64) -> Value {
    format!("{}Ki", bytes >> 10).into()
}

fn kibibytes(memory: &str, name: &str) -> u64 {
    let line = memory.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn os_image(release: &str) -> String {
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "Linux".to_owned(), |name| name.trim().trim_matches('"').to_owned())
}

/// Directories as `hugepages-2048kB`.
fn huge_pages(directory: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut sizes: Vec<(String, u64)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let kilobytes: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let count: u64 = std::fs::read_to_string(entry.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
            let size = match kilobytes {
                size if size % (1 << 20) == 0 => format!("{}Gi", size >> 20),
                size if size % (1 << 10) == 0 => format!("{}Mi", size >> 10),
                size => format!("{size}Ki"),
            };
            Some((size, count * (kilobytes << 10)))
        })
        .collect();
    sizes.sort();
    sizes
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn a_machine_says_what_it_has() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/cpuinfo", "processor\t: 0\nmodel\t: x\n\nprocessor\t: 1\n");
        write("proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\nSwapTotal: 0 kB\n");
        write("etc/os-release", "NAME=x\nPRETTY_NAME=\"A Linux 12\"\n");
        write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "2\n");
        write("proc/sys/kernel/osrelease", "6.18.0\n");
        let machine = Machine::read(root.path());
        assert_eq!(
            (machine.cpus, machine.os_image.as_str(), machine.kernel_version.as_str()),
            (2, "A Linux 12", "6.18.0")
        );
        assert_eq!(
            json::to_string(&machine.allocatable(1000 << 10, 110)),
            r#"{"cpu":"2","ephemeral-storage":"921600","hugepages-2Mi":"4Mi","memory":"4087808Ki","pods":"110"}"#
        );
        assert_eq!(Machine::read(Path::new("/nowhere")).cpus, 1);
    }
}
