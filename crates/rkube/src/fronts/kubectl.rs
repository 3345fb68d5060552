//! `kubectl` is the real one, from the path. rkube has none of its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use super::Front;

/// Those of ours that have been here already, as paths: there may be several on the path.
const TRIED: &str = "RKUBE_KUBECTL_TRIED";

pub fn run(arguments: Vec<OsString>) -> anyhow::Result<()> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize).context("cannot find this program")?;
    let mut tried: Vec<PathBuf> = std::env::var_os(TRIED).iter().flat_map(std::env::split_paths).collect();
    tried.push(own);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&path).map(|directory| directory.join(Front::Kubectl.name()));
    // Called by the name that it has on the path: it may be one of those who go by it.
    let is_another = |path: PathBuf| path.is_file() && !tried.contains(&path);
    let real = candidates.into_iter().find(|candidate| std::fs::canonicalize(candidate).is_ok_and(is_another));
    let Some(real) = real else {
        bail!("there is no kubectl on the path: install one, rkube does not bring its own");
    };
    let tried: OsString = std::env::join_paths(tried).unwrap_or_default();
    let error = Command::new(&real).args(arguments).env(TRIED, tried).exec();
    Err(error).with_context(|| format!("cannot run {}", real.display()))
}
