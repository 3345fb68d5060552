//! The clients that tests drive, made ready under `target/clients`: found on this machine, or fetched and built from
//! the package managers that the machine is set up for. What is there already is not made again.

mod debian;
mod go;
mod kubectl;
mod python;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;

/// A client, and how to tell the tests about it.
pub struct Client {
    pub name: &'static str,
    /// The environment variable in which tests look for it.
    pub variable: &'static str,
    pub outcome: Outcome,
}

pub enum Outcome {
    Found(PathBuf),
    Missing(String),
}

/// Never fails as a whole: what cannot be had is reported as missing.
pub fn prepare(root: &Path) -> Vec<Client> {
    let workshop = Workshop::of(root);
    let client = |name, variable, result: Result<PathBuf>| {
        let outcome = match result {
            Ok(path) => Outcome::Found(path),
            Err(error) => Outcome::Missing(format!("{error:#}")),
        };
        Client { name, variable, outcome }
    };
    vec![
        client("kubectl", "RKUBE_TEST_KUBECTL", kubectl::current(&workshop)),
        client("kubectl 1.20", "RKUBE_TEST_KUBECTL_OLD", debian::old_kubectl(&workshop)),
        client("etcd", "RKUBE_TEST_ETCD", debian::etcd(&workshop)),
        client("python", "RKUBE_TEST_PYTHON", python::environment(&workshop)),
        client("helm", "RKUBE_TEST_HELM", python::helm(&workshop)),
        client("go programs", "RKUBE_TEST_GO_PROGRAMS", go::programs(&workshop)),
    ]
}

/// The one that people have today.
pub fn kubectl(root: &Path) -> Result<PathBuf> {
    kubectl::current(&Workshop::of(root))
}

/// What makes projects of operators, and what keeps the programs of their test environments.
pub fn kubebuilder(root: &Path) -> Result<(PathBuf, PathBuf)> {
    let (workshop, module) = (Workshop::of(root), "kubebuilder");
    let kubebuilder = go::build_as(&workshop, "kubebuilder", module, "sigs.k8s.io/kubebuilder/v4", "")?;
    let package = "sigs.k8s.io/controller-runtime/tools/setup-envtest";
    Ok((kubebuilder, go::build_as(&workshop, "setup-envtest", module, package, "")?))
}

/// A program of `tests/clients`.
pub fn go_program(root: &Path, name: &str) -> Result<PathBuf> {
    go::build(&Workshop::of(root), name, "")
}

/// Where clients come from and where they go.
struct Workshop {
    sources: PathBuf,
    directory: PathBuf,
}

impl Workshop {
    fn of(root: &Path) -> Workshop {
        Workshop { sources: root.join("tests/clients"), directory: target(root).join("clients") }
    }

    /// A directory of the client's own, which exists.
    fn directory(&self, name: &str) -> Result<PathBuf> {
        let directory = self.directory.join(name);
        std::fs::create_dir_all(&directory)?;
        Ok(directory)
    }
}

/// Whether `made` is there and no file in `from` (a file or a folder) is newer.
fn is_fresh(made: &Path, from: &Path) -> bool {
    let Some(made) = modified(made) else { return false };
    let Ok(entries) = std::fs::read_dir(from) else { return modified(from).is_some_and(|from| from <= made) };
    entries.flatten().all(|entry| modified(&entry.path()).is_some_and(|from| from <= made))
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Where cargo builds.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target))
}
