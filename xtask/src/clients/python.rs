//! A Python environment with the packages of `tests/clients/python/requirements.txt`, helm among them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Workshop;
use crate::command::{exists, run_quietly, say};

/// Its interpreter.
pub(super) fn environment(workshop: &Workshop) -> Result<PathBuf> {
    let directory = workshop.directory("python")?;
    let requirements = workshop.sources.join("python/requirements.txt");
    let (interpreter, stamp) = (directory.join("bin/python"), directory.join("complete"));
    let wanted = std::fs::read_to_string(&requirements).context("cannot read what python packages are wanted")?;
    // Not by their times: a checkout that is newer wants the same.
    let is_complete = std::fs::read_to_string(&stamp).is_ok_and(|made_of| made_of == wanted);
    if !is_complete || !interpreter.exists() {
        ensure!(exists("python3"), "there is no python3 on the path");
        say("making a python environment");
        run_quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
        let install = ["-m", "pip", "install", "--quiet", "--requirement"];
        run_quietly(Command::new(&interpreter).args(install).arg(&requirements))?;
        std::fs::write(&stamp, wanted).context("cannot mark the environment as complete")?;
    }
    Ok(interpreter)
}

/// From the same environment.
pub(super) fn helm(workshop: &Workshop) -> Result<PathBuf> {
    let helm = environment(workshop)?.with_file_name("helm");
    ensure!(helm.is_file(), "the python environment has no helm");
    Ok(helm)
}
