//! The machine's own figures, out of `/proc`.

use std::path::Path;

use rkube_runtime::api::Interface;

/// Of the clock in which `/proc/stat` counts: the kernel's, to programs, on every architecture that we run on.
const TICK_NANOS: u64 = 10_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub cpus: u64,
    pub cpu_core_nanos: u64,
    pub boot_seconds: i64,
    pub memory: MachineMemory,
    pub processes: u64,
    pub processes_max: u64,
    /// All but the loopback one, the one that leads out first.
    pub interfaces: Vec<Interface>,
    pub root: Filesystem,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineMemory {
    pub total_bytes: u64,
    pub usage_bytes: u64,
    pub working_set_bytes: u64,
    pub rss_bytes: u64,
    pub page_faults: u64,
    pub major_page_faults: u64,
    pub swap_total_bytes: u64,
    pub swap_usage_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filesystem {
    pub capacity_bytes: u64,
    pub available_bytes: u64,
    pub used_bytes: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

impl Machine {
    /// `root` is `/`, but in tests. What is not there is nothing.
    pub fn read(root: &Path) -> Machine {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let stat = text("proc/stat");
        let load = text("proc/loadavg");
        let way_out = way_out(&text("proc/net/route"));
        let mut interfaces = interfaces(&text("proc/net/dev"));
        interfaces.sort_by_key(|interface| Some(&interface.name) != way_out.as_ref());
        Machine {
            cpus: stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count() as u64,
            cpu_core_nanos: busy_ticks(&stat) * TICK_NANOS,
            boot_seconds: number(&stat, "btime ").try_into().unwrap_or(0),
            memory: memory(&text("proc/meminfo"), &text("proc/vmstat")),
            // As `running/all`.
            processes: load.split_whitespace().nth(3).and_then(|it| it.split('/').nth(1)?.parse().ok()).unwrap_or(0),
            processes_max: text("proc/sys/kernel/pid_max").trim().parse().unwrap_or(0),
            interfaces,
            root: filesystem(root),
        }
    }
}

/// All but idle and waiting for disks. Those of guests are among the users' already.
fn busy_ticks(stat: &str) -> u64 {
    let Some(line) = stat.lines().find_map(|line| line.strip_prefix("cpu ")) else { return 0 };
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum()
}

fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// As upstream counts the root of all cgroups: all that is not free is used, and files that nobody touches do not count as work.
fn memory(info: &str, events: &str) -> MachineMemory {
    let bytes = |name: &str| number(info, name) << 10;
    let total_bytes = bytes("MemTotal:");
    let usage_bytes = total_bytes.saturating_sub(bytes("MemFree:"));
    let swap_total_bytes = bytes("SwapTotal:");
    MachineMemory {
        total_bytes,
        usage_bytes,
        working_set_bytes: usage_bytes.saturating_sub(bytes("Inactive(file):")),
        rss_bytes: bytes("AnonPages:"),
        page_faults: number(events, "pgfault "),
        major_page_faults: number(events, "pgmajfault "),
        swap_total_bytes,
        swap_usage_bytes: swap_total_bytes.saturating_sub(bytes("SwapFree:")),
    }
}

/// The interface of the default route.
fn way_out(routes: &str) -> Option<String> {
    let default = routes.lines().skip(1).find(|line| line.split_whitespace().nth(1) == Some("00000000"))?;
    default.split_whitespace().next().map(str::to_owned)
}

fn interfaces(text: &str) -> Vec<Interface> {
    let of_line = |line: &str| {
        let (name, figures) = line.split_once(':')?;
        let figures: Vec<u64> = figures.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let figure = |at: usize| figures.get(at).copied().unwrap_or(0);
        Some(Interface {
            name: name.trim().to_owned(),
            received_bytes: figure(0),
            received_errors: figure(2),
            sent_bytes: figure(8),
            sent_errors: figure(10),
        })
    };
    text.lines().skip(2).filter_map(of_line).filter(|interface| interface.name != "lo").collect()
}

fn filesystem(root: &Path) -> Filesystem {
    let Ok(found) = rustix::fs::statvfs(root) else { return Filesystem::default() };
    Filesystem {
        capacity_bytes: (found.f_blocks.saturating_sub(found.f_bfree) + found.f_bavail) * found.f_frsize,
        available_bytes: found.f_bavail * found.f_frsize,
        used_bytes: found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize,
        inodes: found.f_files,
        inodes_free: found.f_ffree,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_says_what_it_uses() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/stat", "cpu  10 1 5 1000 50 2 1 3 7 0\ncpu0 5\ncpu1 5\nintr 1\nbtime 1600000000\n");
        write("proc/loadavg", "0.1 0.2 0.3 2/345 999\n");
        write("proc/sys/kernel/pid_max", "4194304\n");
        write(
            "proc/meminfo",
            "MemTotal: 1000 kB\nMemFree: 200 kB\nInactive(file): 300 kB\nAnonPages: 100 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n",
        );
        write("proc/vmstat", "pgfault 77\npgmajfault 3\n");
        write("proc/net/route", "Iface Destination\nlo 0000007F\neth1 00000000 x\n");
        write("proc/net/dev", "a\nb\n    lo: 1 1 0\n  eth0: 5 1 0 0 0 0 0 0 6 1 0\n  eth1: 7 1 2 0 0 0 0 0 8 1 3\n");
        let machine = Machine::read(root.path());
        assert_eq!((machine.cpus, machine.cpu_core_nanos, machine.boot_seconds), (2, 22 * TICK_NANOS, 1_600_000_000));
        assert_eq!((machine.processes, machine.processes_max), (345, 4_194_304));
        let memory = &machine.memory;
        assert_eq!((memory.usage_bytes >> 10, memory.working_set_bytes >> 10, memory.rss_bytes >> 10), (800, 500, 100));
        assert_eq!((memory.page_faults, memory.major_page_faults, memory.swap_usage_bytes >> 10), (77, 3, 6));
        let out = &machine.interfaces[0];
        assert_eq!((out.name.as_str(), out.received_bytes, out.received_errors), ("eth1", 7, 2));
        assert_eq!((out.sent_bytes, out.sent_errors, machine.interfaces.len()), (8, 3, 2));
        assert!(machine.root.capacity_bytes > 0);
    }
}
