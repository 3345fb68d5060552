//! Processes that end together, and with us whatever ends us.
//!
//! A shell leads the group and waits for a pipe of ours to close: that happens when [`Group`] is ended or dropped, and
//! when this process is gone, even if it was killed. Then the shell kills its group, and nothing else: its own process
//! number is the group's, so that no other process can have it meanwhile.

use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

const LEADER: &str = "read line; kill -KILL 0";

pub(super) struct Group {
    leader: Child,
    /// Open while the group may live.
    pipe: Mutex<Option<ChildStdin>>,
}

impl Group {
    pub fn new() -> Result<Group> {
        let mut command = Command::new("sh");
        command.args(["-c", LEADER]).process_group(0).stdin(Stdio::piped());
        let mut leader = command.spawn().context("cannot run sh")?;
        let pipe = Mutex::new(leader.stdin.take());
        Ok(Group { leader, pipe })
    }

    /// In the group, with nothing to read.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        let leader = i32::try_from(self.leader.id()).context("a process number of the kernel's")?;
        let child = command.process_group(leader).stdin(Stdio::null()).spawn();
        child.with_context(|| format!("cannot run {}", command.get_program().display()))
    }

    /// Kills all that is in it, soon.
    pub fn end(&self) {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
        let _ = self.leader.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};

    #[test]
    fn nothing_outlives_the_group() {
        let group = Group::new().unwrap();
        let script = "sleep 1000 & echo started; wait";
        let mut child = group.spawn(Command::new("sh").args(["-c", script]).stdout(Stdio::piped())).unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        drop(group);
        assert!(!child.wait().unwrap().success());
        // The grandchild has the other end of the pipe: it ends when both do.
        assert_eq!(output.read_to_string(&mut line).unwrap(), 0);
    }
}
