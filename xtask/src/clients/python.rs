//! A Python environment with the packages of `tests/clients/python/requirements.txt`, helm among them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Workshop, is_fresh};
use crate::command::{exists, run_quietly, say};

/// Its interpreter.
pub(super) fn environment(workshop: &Workshop) -> Result<PathBuf> {
    let directory = workshop.directory("python")?;
    let requirements = workshop.sources.join("python/requirements.txt");
    let (interpreter, stamp) = (directory.join("bin/python"), directory.join("complete"));
    if !is_fresh(&stamp, &requirements) || !interpreter.exists() {
        ensure!(exists("python3"), "there is no python3 on the path");
        say("making a python environment");
        run_quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
        let install = ["-m", "pip", "install", "--quiet", "--requirement"];
        run_quietly(Command::new(&interpreter).args(install).arg(&requirements))?;
        std::fs::write(&stamp, "").context("cannot mark the environment as complete")?;
    }
    Ok(interpreter)
}

/// From the same environment.
pub(super) fn helm(workshop: &Workshop) -> Result<PathBuf> {
    let helm = environment(workshop)?.with_file_name("helm");
    ensure!(helm.is_file(), "the python environment has no helm");
    Ok(helm)
}
