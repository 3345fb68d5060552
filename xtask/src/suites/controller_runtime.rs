//! controller-runtime's own integration tests, package by package.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Setting;
use crate::command::{run_quietly, say};

const MODULE: &str = "sigs.k8s.io/controller-runtime@v0.24.1";
/// Those that start a control plane, below `pkg/`.
const PACKAGES: &[&str] = &[
    "builder",
    "cache",
    "client",
    "cluster",
    "controller",
    "envtest",
    "manager",
    "manager/internal/integration",
    "source",
    "webhook",
    "internal/controller",
    "internal/recorder",
    "internal/source",
];

pub fn run(setting: &Setting) -> Result<()> {
    let sources = sources(&setting.directory)?;
    let (mut passed, mut failed, mut seconds) = (0, 0, 0.0);
    for package in PACKAGES {
        let tests = setting.directory.join(format!("{}.test", package.replace('/', "-")));
        let mut build = Command::new("go");
        run_quietly(
            build.current_dir(&sources).args(["test", "-c", "-o"]).arg(&tests).arg(format!("./pkg/{package}")),
        )?;
        let log = tests.with_extension("log");
        let mut command = Command::new(&tests);
        command.current_dir(sources.join("pkg").join(package)).arg("--ginkgo.no-color");
        command.env("KUBEBUILDER_ASSETS", &setting.assets);
        let output = command.output().with_context(|| format!("cannot run {}", tests.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        std::fs::write(&log, said.as_bytes())?;
        let (good, bad) = counts(&said).unwrap_or((0, 1));
        let took = seconds_of(&said).unwrap_or_default();
        say(&format!("{package}: {good} passed, {bad} failed, {took:.1} s"));
        if bad > 0 {
            say(&format!("see {}", log.display()));
        }
        (passed, failed, seconds) = (passed + good, failed + bad, seconds + took);
    }
    say(&format!("controller-runtime: {passed} passed, {failed} failed, {seconds:.0} s"));
    ensure!(failed == 0, "{failed} of controller-runtime's tests failed");
    Ok(())
}

/// A copy that can be written to: tests look for files beside them.
fn sources(directory: &Path) -> Result<PathBuf> {
    let copy = directory.join(MODULE.replace('/', "-"));
    if !copy.join("go.mod").is_file() {
        let downloaded =
            run_quietly(Command::new("go").current_dir(directory).args(["mod", "download", "-json", MODULE]))?;
        let described: serde_json::Value = serde_json::from_str(&downloaded)?;
        let from = described["Dir"].as_str().context("go says no directory")?;
        run_quietly(Command::new("cp").args(["-r", from]).arg(&copy))?;
        run_quietly(Command::new("chmod").args(["-R", "u+w"]).arg(&copy))?;
    }
    Ok(copy)
}

/// Of `SUCCESS! -- 72 Passed | 0 Failed | 0 Pending | 0 Skipped`.
fn counts(said: &str) -> Option<(usize, usize)> {
    let line = said.lines().find(|line| line.contains(" Passed | "))?;
    let before = |word: &str| line.split(word).next()?.trim_end().rsplit(' ').next()?.parse().ok();
    Some((before(" Passed")?, before(" Failed")?))
}

/// Of `Ran 72 of 72 Specs in 12.345 seconds`.
fn seconds_of(said: &str) -> Option<f64> {
    let (_, after) = said.split_once(" Specs in ")?;
    after.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ginkgo_says_is_understood() {
        let said = "Ran 5 of 6 Specs in 1.0 seconds\nFAIL! -- 4 Passed | 1 Failed | 1 Pending | 0 Skipped\nFAIL\n";
        assert_eq!((counts(said), seconds_of(said)), (Some((4, 1)), Some(1.0)));
        assert_eq!((counts("panic: no\n"), seconds_of("panic: no\n")), (None, None));
    }
}
