//! A node with real containers, driven by the clients that people use. Each test has an rkube in a network namespace of its
//! own; when it is over nothing of it is left, or the test fails.

#![allow(clippy::unwrap_used)]

mod changes;
mod healing;
mod operators;
mod restart;
mod run;
mod volumes;

use std::path::PathBuf;
use std::sync::OnceLock;

use rkube_testkit::images::{Packing, test_image};
use rkube_testkit::{Rkube, Tool, eventually};

/// A cluster of this machine, with the image that tests use, and kubectl. None: that is not there.
fn start(arguments: &[&str]) -> Option<(Rkube, Tool)> {
    let rkube = Rkube::start_node(env!("CARGO_BIN_EXE_rkube"), &[archive()], arguments);
    let kubectl = rkube.kubectl()?;
    kubectl.run(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=30s"]);
    Some((rkube, kubectl))
}

/// The image that tests use.
fn archive() -> &'static PathBuf {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("test-image.tar");
        let written = file.with_extension(std::process::id().to_string());
        std::fs::write(&written, test_image().archive(Packing::Docker)).unwrap();
        std::fs::rename(&written, &file).unwrap();
        file
    })
}

fn ready(kubectl: &Tool, what: &str) {
    kubectl.run(&["wait", "--for=condition=Ready", what, "--timeout=50s"]);
}

/// What kubectl says is at last this.
fn wait_for(kubectl: &Tool, arguments: &[&str], expected: &str) {
    eventually(expected, || {
        let found = kubectl.attempt(arguments);
        if found.stdout.trim() == expected { Ok(()) } else { Err(format!("{}{}", found.stdout, found.stderr)) }
    });
}
