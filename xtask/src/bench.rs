//! `cargo xtask bench`: the release binary and the bench tool are built, then the tool takes over.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{self, cargo, say};

/// `arguments` go to `rkube-bench run`.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    say("cargo build --release");
    command::run(cargo(root).args([
        "build",
        "--release",
        "--quiet",
        "--package",
        "rkube",
        "--package",
        "rkube-bench",
    ]))?;
    if arguments.first().is_none_or(|group| group != "node") {
        // By itself: what moves time in tests is no part of the binary.
        command::run(cargo(root).args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "rkube-testkit",
            "--example",
            "week",
        ]))?;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let release = root.join(&target).join("release");
    let program = release.join("rkube-bench");
    let mut bench = match arguments.first().map(String::as_str) {
        // Pods have a network, and nothing of it is this machine's.
        Some("node") => {
            let mut bench = Command::new("unshare");
            bench.args(["--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]).arg(program);
            bench
        }
        _ => Command::new(program),
    };
    // Data lies beside the build: a temporary directory may be in memory, where fsync costs nothing.
    bench.arg("run").arg("--rkube").arg(release.join("rkube")).arg("--directory").arg(root.join(target).join("bench"));
    // The tool takes this process's place, so that a signal to it ends all it started.
    let error = bench.args(arguments).exec();
    Err(error).context("cannot run rkube-bench")
}
