//! A node with real containers, driven by the clients that people use. Each test has an rkube in a network namespace of its
//! own; when it is over nothing of it is left, or the test fails.

#![allow(clippy::unwrap_used)]

mod run;

use std::path::PathBuf;
use std::sync::OnceLock;

use rkube_testkit::images::{Packing, test_image};
use rkube_testkit::{Rkube, Tool, eventually};

/// A cluster of this machine, with the image that tests use, and kubectl. None: that is not there.
fn start(arguments: &[&str]) -> Option<(Rkube, Tool)> {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    let archive = ARCHIVE.get_or_init(|| {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("test-image-{}.tar", std::process::id()));
        std::fs::write(&file, test_image().archive(Packing::Docker)).unwrap();
        file
    });
    let rkube = Rkube::start_node(env!("CARGO_BIN_EXE_rkube"), &[archive], arguments);
    let kubectl = rkube.kubectl()?;
    Some((rkube, kubectl))
}

/// What kubectl says is at last this.
fn wait_for(kubectl: &Tool, arguments: &[&str], expected: &str) {
    eventually(expected, || {
        let found = kubectl.attempt(arguments);
        if found.stdout.trim() == expected { Ok(()) } else { Err(format!("{}{}", found.stdout, found.stderr)) }
    });
}
