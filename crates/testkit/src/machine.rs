//! A machine for a real node: this one, with a network of its own. Nothing that runs in it reaches any other.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Finished;

pub(crate) struct Machine {
    /// A file to which the network namespace is bound.
    network: PathBuf,
}

impl Machine {
    /// Panics without root, which making namespaces takes.
    pub fn new(directory: &Path) -> Machine {
        let network = directory.join("network");
        std::fs::write(&network, "").expect("a file");
        let machine = Machine { network };
        let mut unshare = Command::new("unshare");
        Finished::run(unshare.arg(machine.option()).args(["ip", "link", "set", "lo", "up"]), "").expect_success();
        machine
    }

    /// By what programs are run to be on it.
    pub fn entering(&self) -> Vec<OsString> {
        vec!["nsenter".into(), self.option()]
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(self.option()).arg(program);
        command
    }

    /// What is still there of a node that was reset: mounts below the directory, processes and interfaces in the network.
    pub fn leftovers(&self, directory: &Path) -> Vec<String> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let below = |line: &&str| {
            let place = line.split(' ').nth(4).unwrap_or_default();
            Path::new(place).starts_with(directory) && Path::new(place) != self.network
        };
        let mut found: Vec<String> = mounts.lines().filter(below).map(|line| format!("mount: {line}")).collect();
        found.extend(self.all_processes().into_iter().map(|process| format!("process: {process}")));
        let links = Finished::run(self.command(Path::new("ip")).args(["-o", "link"]), "").stdout;
        found.extend(links.lines().filter(|line| !line.contains(" lo:")).map(|line| format!("interface: {line}")));
        found
    }

    /// Those whose network this is, and whom they started: pods have networks of their own.
    pub fn all_processes(&self) -> Vec<String> {
        use std::os::unix::fs::MetadataExt as _;
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
        let own = identity(&self.network);
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // By number: parents come first, but where numbers began anew.
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        let mut found: Vec<u32> = Vec::new();
        for number in numbers {
            let process = Path::new("/proc").join(number.to_string());
            let is_here = own.is_some() && identity(&process.join("ns/net")) == own;
            if is_here || parent(&process).is_some_and(|parent| found.contains(&parent)) {
                found.push(number);
            }
        }
        let line = |number: &u32| std::fs::read_to_string(format!("/proc/{number}/cmdline")).unwrap_or_default();
        found.iter().map(|number| line(number).replace('\0', " ")).collect()
    }

    fn option(&self) -> OsString {
        let mut option = OsString::from("--net=");
        option.push(&self.network);
        option
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Where it cannot be unmounted it goes with the last process in it.
        let _ = Command::new("umount").arg(&self.network).status();
    }
}

fn parent(process: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}
