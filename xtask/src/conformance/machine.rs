//! What a shard's programs run on: this machine as it is, or a node of its own in a network namespace of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::shard::Programs;
use crate::command::run_quietly;

pub(super) struct Machine {
    node: Option<Node>,
}

/// A real node, and what it leaves behind.
struct Node {
    /// The shard's.
    directory: PathBuf,
    rkube: PathBuf,
    /// A file to which its network namespace is bound.
    network: PathBuf,
}

impl Machine {
    /// With images there is a node that has them.
    pub fn new(programs: &Programs, directory: &Path) -> Result<Machine> {
        let Some(images) = &programs.images else { return Ok(Machine { node: None }) };
        let network = directory.join("network");
        std::fs::write(&network, "").with_context(|| format!("cannot make {}", network.display()))?;
        let mut unshare = Command::new("unshare");
        run_quietly(unshare.arg(option("--net=", &network)).args(["ip", "link", "set", "lo", "up"]))
            .context("a network namespace cannot be made: real nodes take root")?;
        let machine =
            Machine { node: Some(Node { directory: directory.to_owned(), rkube: programs.rkube.clone(), network }) };
        let mut load = Command::new(&programs.rkube);
        run_quietly(load.args(["image", "load", "--data-dir"]).arg(directory.join("data")).arg(images))?;
        Ok(machine)
    }

    /// A program on it.
    pub fn command(&self, program: &Path) -> Command {
        let Some(node) = &self.node else { return Command::new(program) };
        let mut command = Command::new("nsenter");
        command.arg(option("--net=", &node.network)).arg(program);
        command
    }

    /// For `rkube up`.
    pub fn rkube_flags(&self) -> Vec<OsString> {
        let Some(node) = &self.node else { return vec!["--node=none".into()] };
        vec!["--node=real".into(), option("--pod-log-dir=", &node.directory.join("log"))]
    }
}

/// Nobody runs in it any more but the pods.
impl Drop for Node {
    fn drop(&mut self) {
        let mut reset = Command::new("nsenter");
        reset.arg(option("--net=", &self.network)).arg(&self.rkube);
        reset.args(["reset", "--data", "--data-dir"]).arg(self.directory.join("data"));
        // What cannot be removed stays to be looked at.
        for result in [run_quietly(&mut reset), run_quietly(Command::new("umount").arg(&self.network))] {
            if let Err(error) = result {
                crate::command::say(&format!("{error:#}"));
            }
        }
    }
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}
