//! `cargo xtask conformance`: upstream's conformance tests against our binary.
//!
//! The tests are those of upstream's own `e2e.test`, which has to be there: in `E2E_TEST`, or on the path. They run in
//! shards, each with an rkube of its own, so that tests which need a cluster for themselves ([Serial]) have one. What is
//! asked for has to pass: a test that skips itself did not, and neither did one that does not exist.

mod arguments;
mod console;
mod group;
mod live;
mod machine;
mod outcome;
mod report;
mod shard;

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::clients;
use crate::command::{self, cargo, say};
use arguments::Options;
use console::Console;
use outcome::{Outcome, Verdict};
use shard::{Programs, Shard};

/// For cleaning up and the report.
const GRACE: Duration = Duration::from_secs(90);

pub fn run(root: &Path, words: &[String]) -> Result<()> {
    let options = arguments::parse(words)?;
    let programs = Programs {
        e2e: find_e2e()?,
        kubectl: clients::kubectl(root)?,
        rkube: options.rkube.clone().map_or_else(|| build(root), absolute)?,
        rkube_flags: options.flags.clone(),
        images: options.images.clone(),
    };
    let directory = prepare_directory(&clients::target(root).join("conformance"))?;
    let shards = split(&options, &directory);
    say(&format!("tests: {}, shards: {}, logs: {}", options.names.len(), shards.len(), directory.display()));
    let outcomes = run_shards(&shards, &programs, options.names.len());
    let passed = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Passed).count();
    if passed < outcomes.len() {
        bail!("{} of {} did not pass; logs are in {}", outcomes.len() - passed, outcomes.len(), directory.display());
    }
    // Nobody needs the logs of what passed.
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}

/// All shards at once; what they tell is printed as it comes.
fn run_shards(shards: &[Shard], programs: &Programs, total: usize) -> Vec<Outcome> {
    let mut console = Console::new(total);
    let (sender, events) = channel();
    std::thread::scope(|scope| {
        let running: Vec<_> = shards
            .iter()
            .map(|shard| {
                let sender = sender.clone();
                scope.spawn(move || shard.run(programs, &sender))
            })
            .collect();
        drop(sender);
        events.iter().for_each(|event| console.show(&event));
        let outcomes: Vec<Outcome> =
            running.into_iter().flat_map(|thread| thread.join().expect("a shard reports what goes wrong")).collect();
        console.summarise(&outcomes);
        outcomes
    })
}

/// Each test goes to one shard; neighbours in the list, which often take as long as each other, to different ones.
fn split(options: &Options, directory: &Path) -> Vec<Shard> {
    let count = options.shards.clamp(1, options.names.len());
    let shard = |number: usize| Shard {
        names: options.names.iter().skip(number).step_by(count).cloned().collect(),
        directory: directory.join(format!("shard-{number}")),
        limit: options.limit,
        grace: GRACE,
    };
    (0..count).map(shard).collect()
}

fn find_e2e() -> Result<PathBuf> {
    const NAME: &str = "e2e.test";
    if let Some(path) = std::env::var_os("E2E_TEST").map(PathBuf::from) {
        ensure!(path.is_file(), "E2E_TEST names {}, where no file is", path.display());
        return absolute(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(NAME)).find(|file| file.is_file());
    absolute(found.context("there is no e2e.test on the path: say where Kubernetes' e2e.test is with E2E_TEST=FILE")?)
}

fn build(root: &Path) -> Result<PathBuf> {
    say("cargo build --release");
    command::run(cargo(root).args(["build", "--release", "--quiet", "--package", "rkube"]))?;
    Ok(clients::target(root).join("release/rkube"))
}

/// Shards work in directories of their own.
fn absolute(path: PathBuf) -> Result<PathBuf> {
    std::path::absolute(&path).with_context(|| format!("cannot use {}", path.display()))
}

/// A directory for this run. Those of runs that are over go.
fn prepare_directory(parent: &Path) -> Result<PathBuf> {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let process = Path::new("/proc").join(entry.file_name());
        if !process.exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let directory = parent.join(std::process::id().to_string());
    // Left by a process that had this number before.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_is_in_one_shard() {
        for (count, shards, expected) in [(5, 2, 2), (5, 9, 5), (1, 0, 1), (88, 2, 2)] {
            let names: Vec<String> = (0..count).map(|number| format!("test {number}")).collect();
            let options = Options { names: names.clone(), shards, ..Options::default() };
            let found = split(&options, Path::new("/x"));
            assert_eq!(found.len(), expected);
            let mut all: Vec<String> = found.into_iter().flat_map(|shard| shard.names).collect();
            all.sort_by_key(|name| names.iter().position(|other| other == name));
            assert_eq!(all, names);
        }
    }
}
