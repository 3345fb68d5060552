//! Go programs, built from modules in `tests/clients`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use super::{Workshop, is_fresh};
use crate::command::{exists, run_quietly, say};

/// What tests run besides kubectl: the module in `tests/clients`, and the package, if it is not that module's own.
const PROGRAMS: &[(&str, &str)] = &[
    ("dynamic-client", "."),
    ("freshness", "."),
    ("go-client", "."),
    ("operator", "."),
    ("operator-2021", "."),
    ("sample-controller", "k8s.io/sample-controller"),
    ("streams", "."),
];

/// The directory that holds them.
pub(super) fn programs(workshop: &Workshop) -> Result<PathBuf> {
    let directory = workshop.directory("go-static")?;
    for (name, package) in PROGRAMS {
        build_package(workshop, name, package, "")?;
    }
    Ok(directory)
}

/// Builds one, unless it is newer than its sources. The linker sets what `variables` says.
pub(super) fn build(workshop: &Workshop, name: &str, variables: &str) -> Result<PathBuf> {
    build_package(workshop, name, ".", variables)
}

fn build_package(workshop: &Workshop, name: &str, package: &str, variables: &str) -> Result<PathBuf> {
    build_as(workshop, name, name, package, variables)
}

/// `program`: what it is called, if not as its module in `tests/clients`.
pub(super) fn build_as(
    workshop: &Workshop,
    program: &str,
    module: &str,
    package: &str,
    variables: &str,
) -> Result<PathBuf> {
    let name = program;
    let program = workshop.directory("go-static")?.join(program);
    let sources = workshop.sources.join(module);
    if !is_fresh(&program, &sources) {
        ensure!(exists("go"), "there is no go on the path");
        say(&format!("building {name} with go (a few minutes the first time)"));
        run_quietly(
            Command::new("go")
                .current_dir(&sources)
                // Some run in containers, where nothing else is.
                .env("CGO_ENABLED", "0")
                .args(["build", "-ldflags", variables, "-o"])
                .arg(&program)
                .arg(package),
        )?;
    }
    Ok(program)
}
