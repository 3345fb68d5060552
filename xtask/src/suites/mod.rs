//! `cargo xtask suites`: test suites of other people's projects, with `KUBEBUILDER_ASSETS=$(rkube envtest)`.
//!
//! They take minutes, so they are no part of `cargo xtask test`, which has operators of our own writing. `--assets DIR` runs
//! them on other programs, such as a real kube-apiserver and etcd, to compare with.

mod controller_runtime;
mod kubebuilder;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::clients;
use crate::command::{self, cargo, run_quietly, say};

const SUITES: &[&str] = &["controller-runtime", "kubebuilder", "freshness"];

/// Where the programs are that suites run on.
struct Setting {
    root: PathBuf,
    rkube: PathBuf,
    /// `KUBEBUILDER_ASSETS`.
    assets: PathBuf,
    /// For the suites' own files.
    directory: PathBuf,
}

pub fn run(root: &Path, words: &[String]) -> Result<()> {
    let (mut rkube, mut assets, mut wanted) = (None, None, Vec::new());
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut file = || words.next().map(PathBuf::from).with_context(|| format!("{word} what?"));
        match word {
            "--rkube" => rkube = Some(std::path::absolute(file()?)?),
            "--assets" => assets = Some(std::path::absolute(file()?)?),
            suite if SUITES.contains(&suite) => wanted.push(suite),
            other => bail!("{other} is neither --rkube, --assets nor one of {}", SUITES.join(", ")),
        }
    }
    let rkube = rkube.map_or_else(|| release(root), Ok)?;
    let directory = clients::target(root).join("suites");
    std::fs::create_dir_all(&directory)?;
    let assets = match assets {
        Some(assets) => assets,
        None => {
            run_quietly(Command::new(&rkube).args(["envtest", "--dir"]).arg(directory.join("assets")))?.trim().into()
        }
    };
    let setting = Setting { root: root.to_owned(), rkube, assets, directory };
    for suite in if wanted.is_empty() { SUITES } else { &wanted } {
        say(&format!("{suite} on {}", setting.assets.display()));
        match *suite {
            "controller-runtime" => controller_runtime::run(&setting)?,
            "kubebuilder" => kubebuilder::run(&setting)?,
            _ => freshness(&setting)?,
        }
    }
    Ok(())
}

fn release(root: &Path) -> Result<PathBuf> {
    say("cargo build --release");
    command::run(cargo(root).args(["build", "--release", "--quiet", "--package", "rkube"]))?;
    Ok(clients::target(root).join("release/rkube"))
}

/// How often an operator's cache is behind its own writes: a figure, no verdict.
fn freshness(setting: &Setting) -> Result<()> {
    let program = clients::go_program(&setting.root, "freshness")?;
    let said = run_quietly(Command::new(program).env("KUBEBUILDER_ASSETS", &setting.assets))?;
    say(said.trim());
    Ok(())
}
