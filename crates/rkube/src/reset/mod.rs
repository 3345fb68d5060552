//! `rkube reset`: ends the pods of this machine's node and removes what it made of the machine; with `--data` also what the
//! cluster holds.
//!
//! What holds: nothing is deleted below which something is still mounted, since that may be somebody else's files; and what
//! is no data directory of rkube is left alone. What fails is said, and the rest is done all the same: run again, it goes on.

mod cgroups;
mod processes;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use rkube_network::Network;
use rkube_runtime::api::{Error, Runtime, SandboxStatus};
use rkube_runtime::images::Registries;

use crate::cli::Reset;
use crate::lock::Lock;
use crate::mounts::{self, remove_tree};
use crate::real_node::{self, NETWORK_NAME, Places};

/// Something of ours that a data directory has from its first moments on.
const SIGNS: [&str; 5] = ["lock", "pki", "store", "images", "containers"];
/// So many pods are ended at once.
const ENDED_AT_ONCE: usize = 32;

pub fn run(options: &Reset) -> anyhow::Result<()> {
    let directory = options.data_directory.path()?;
    let is_there = directory.is_dir();
    if is_there && !SIGNS.iter().any(|sign| directory.join(sign).exists()) {
        bail!("{} is no data directory of rkube: say which with --data-dir DIR", directory.display());
    }
    let lock = is_there.then(|| Lock::take(&directory)).transpose()?;
    let places = Places::of(&directory);
    let mut report = Report::default();
    if is_node(&places) {
        ensure!(
            rustix::process::geteuid().is_root(),
            "pods may run here, and only root can end them: sudo rkube reset"
        );
        end_node(&places, options.data, &mut report);
    }
    if options.data && is_there && report.failures.is_empty() {
        report.note(remove_data(&directory), || format!("removed {}", directory.display()));
    }
    drop(lock);
    report.finish()
}

/// If a link leads to it, the link goes, too.
fn remove_data(directory: &Path) -> anyhow::Result<()> {
    let real = directory.canonicalize().with_context(|| format!("cannot find {}", directory.display()))?;
    remove_tree(&real)?;
    if directory.is_symlink() { remove_tree(directory) } else { Ok(()) }
}

/// Whether this machine was one, with that data directory.
fn is_node(places: &Places) -> bool {
    [&places.run, &places.containers, &places.kubelet].iter().any(|place| place.exists())
}

fn end_node(places: &Places, and_logs: bool, report: &mut Report) {
    let ended = end_pods(places);
    let sandboxes = report.note(ended, String::new).unwrap_or_default();
    if !sandboxes.is_empty() {
        report.say(format!("ended {} pods", sandboxes.len()));
    }
    // Whatever the runtime could not find again.
    report.note(processes::end_shims(&places.run), String::new);
    let network = match Network::tear_down(NETWORK_NAME, &places.network) {
        // Another data directory's node has it now, and removed what was this one's.
        Err(Error::WrongState(_)) => Ok(String::new()),
        result => result.map(|()| "removed the network of pods".to_owned()),
    };
    if let Some(text) = report.note(network.context("cannot remove the network of pods"), String::new) {
        report.say(text);
    }
    for place in [&places.run, &places.containers, &places.kubelet, &places.images, &places.volumes] {
        report.note(mounts::unmount_below(place), String::new);
    }
    for place in [&places.run, &places.containers, &places.kubelet] {
        report.note(remove_tree(place), String::new);
    }
    if !others_run(&places.run) {
        cgroups::remove_empty(real_node::CGROUP);
    }
    if and_logs {
        for sandbox in &sandboxes {
            remove_logs(&sandbox.config.log_directory);
        }
    }
}

/// Stops and removes every sandbox with its containers. Who they were.
fn end_pods(places: &Places) -> anyhow::Result<Vec<SandboxStatus>> {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = threads.block_on(async {
        // The network goes as a whole afterwards.
        let runtime = real_node::runtime(places, Registries::default(), None).await?;
        let sandboxes = runtime.sandboxes().await?;
        let ends = sandboxes.iter().map(|sandbox| async {
            runtime.stop_sandbox(&sandbox.id).await?;
            runtime.remove_sandbox(&sandbox.id).await
        });
        let outcomes: Vec<_> = futures::stream::iter(ends).buffer_unordered(ENDED_AT_ONCE).collect().await;
        for container in runtime.containers().await? {
            runtime.remove_container(&container.id).await?;
        }
        outcomes.into_iter().collect::<Result<Vec<()>, _>>()?;
        anyhow::Ok(sandboxes)
    });
    threads.shutdown_background();
    ended.context("cannot end all pods")
}

/// Whether another data directory's node has something on this machine.
fn others_run(run: &Path) -> bool {
    let Some(parent) = run.parent() else { return false };
    std::fs::read_dir(parent).into_iter().flatten().flatten().any(|entry| entry.path() != run)
}

/// Of one pod, with the links by which log agents find them. What cannot be removed is only a log.
fn remove_logs(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
    let links = directory.parent().and_then(Path::parent).map(|log| log.join("containers"));
    for entry in links.iter().flat_map(std::fs::read_dir).flatten().flatten() {
        let leads_there = std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(directory));
        if leads_there {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// What was done, and what could not be.
#[derive(Default)]
struct Report {
    done: Vec<String>,
    failures: Vec<anyhow::Error>,
}

impl Report {
    /// Keeps what went wrong for the end. An empty text is not worth a line.
    fn note<T, E: Into<anyhow::Error>>(&mut self, result: Result<T, E>, done: impl FnOnce() -> String) -> Option<T> {
        match result {
            Ok(value) => {
                self.say(done());
                Some(value)
            }
            Err(error) => {
                self.failures.push(error.into());
                None
            }
        }
    }

    fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.done.push(text);
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        if self.done.is_empty() && self.failures.is_empty() {
            writeln!(stdout, "there was nothing to reset")?;
        }
        for line in &self.done {
            writeln!(stdout, "{line}")?;
        }
        if self.failures.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = self.failures.iter().map(|error| format!("{error:#}")).collect();
        bail!("{}; run it again when that is mended", texts.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Arguments;
    use clap::Parser;

    fn reset(arguments: &[&str]) -> anyhow::Result<()> {
        let line = ["rkube", "reset"].iter().chain(arguments);
        match Arguments::try_parse_from(line).unwrap().command {
            crate::cli::Command::Reset(options) => run(&options),
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn what_is_no_data_directory_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_str().unwrap();
        let file = directory.path().join("precious");
        std::fs::write(&file, "x").unwrap();
        let error = reset(&["--data", "--data-dir", place]).unwrap_err().to_string();
        assert!(error.contains("is no data directory of rkube"), "{error}");
        assert_eq!(std::fs::read_dir(place).unwrap().count(), 1);
        reset(&["--data", "--data-dir", &format!("{place}/nothing")]).unwrap();
    }

    #[test]
    fn one_that_is_in_use_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_str().unwrap();
        let lock = Lock::take(directory.path()).unwrap();
        let error = reset(&["--data", "--data-dir", place]).unwrap_err().to_string();
        assert!(error.contains("in use by another rkube"), "{error}");
        drop(lock);
        std::fs::create_dir(directory.path().join("store")).unwrap();
        reset(&["--data-dir", place]).unwrap();
        assert!(directory.path().join("store").exists());
        reset(&["--data", "--data-dir", place]).unwrap();
        assert!(!directory.path().exists());
    }

    #[test]
    fn logs_go_with_their_links() {
        let directory = tempfile::tempdir().unwrap();
        let (pods, links) = (directory.path().join("pods"), directory.path().join("containers"));
        for pod in ["a", "b"] {
            std::fs::create_dir_all(pods.join(pod)).unwrap();
            std::fs::create_dir_all(&links).unwrap();
            std::os::unix::fs::symlink(pods.join(pod).join("0.log"), links.join(pod)).unwrap();
        }
        remove_logs(&pods.join("a"));
        assert!(!pods.join("a").exists() && pods.join("b").exists());
        assert!(links.join("a").symlink_metadata().is_err() && links.join("b").symlink_metadata().is_ok());
    }
}
