//! Shims that the runtime did not find again.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;
use rkube_runtime::shim::COMMAND;
use rustix::process::{Pid, Signal, kill_process};

/// Ends those of this run directory. Their containers go with them.
pub fn end_shims(run: &Path) -> anyhow::Result<()> {
    let processes = std::fs::read_dir("/proc").context("cannot read /proc")?;
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else { continue };
        // Who is gone meanwhile has no command line.
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        if is_shim(&line, run) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    Ok(())
}

/// `rkube shim /run/rkube/…/<sandbox>`
fn is_shim(line: &[u8], run: &Path) -> bool {
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let command = words.next() == Some(COMMAND.as_bytes());
    let directory = words.next().map(|word| Path::new(std::ffi::OsStr::from_bytes(word)));
    command && directory.is_some_and(|directory| directory.starts_with(run) && directory != run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shims_of_this_node_are_ended() {
        let run = Path::new("/run/rkube/a");
        let table = [
            (&b"rkube\0shim\0/run/rkube/a/123\0"[..], true),
            (b"rkube\0shim\0/run/rkube/b/123\0", false),
            (b"rkube\0shim\0/run/rkube/a\0", false),
            (b"rkube\0up\0/run/rkube/a/123\0", false),
            (b"shim\0/run/rkube/a/123\0", false),
            (b"", false),
        ];
        for (line, expected) in table {
            assert_eq!(is_shim(line, run), expected, "{}", String::from_utf8_lossy(line));
        }
    }
}
