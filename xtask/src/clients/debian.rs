//! What a Debian carries: an old kubectl, and etcd. Unpacked beside the tests, not installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Workshop;
use crate::command::{exists, run_quietly, say};

pub(super) fn old_kubectl(workshop: &Workshop) -> Result<PathBuf> {
    unpack(workshop, "kubectl-1.20", "kubernetes-client", "usr/bin/kubectl")
}

pub(super) fn etcd(workshop: &Workshop) -> Result<PathBuf> {
    if exists("etcd") {
        return Ok("etcd".into());
    }
    unpack(workshop, "etcd", "etcd-server", "usr/bin/etcd")
}

fn unpack(workshop: &Workshop, name: &str, package: &str, program: &str) -> Result<PathBuf> {
    let directory = workshop.directory(name)?;
    let program = directory.join(program);
    if !program.is_file() {
        ensure!(exists("apt-get") && exists("dpkg"), "it comes from a Debian package, and this is no Debian");
        say(&format!("downloading {package}"));
        download(&directory, package).or_else(|_| {
            // The lists of packages may be absent or old; refreshing them takes rights that not everybody has.
            run_quietly(Command::new("apt-get").args(["update", "--quiet"]))?;
            download(&directory, package)
        })?;
        let archive = find_archive(&directory).context("apt-get left no package behind")?;
        run_quietly(Command::new("dpkg").arg("-x").arg(&archive).arg(&directory))?;
        std::fs::remove_file(&archive)?;
        ensure!(program.is_file(), "{package} holds no {}", program.display());
    }
    Ok(program)
}

fn download(directory: &Path, package: &str) -> Result<String> {
    run_quietly(Command::new("apt-get").current_dir(directory).args(["download", package]))
}

fn find_archive(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "deb"))
}
