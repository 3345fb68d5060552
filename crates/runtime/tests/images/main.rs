//! The store of images, by its public face: archives go in, root directories come out. They run as root, as a node does:
//! files of an image have owners, and are stacked by the kernel.

#![allow(clippy::unwrap_used)]

mod hostile;
mod load;
mod program;
mod pull;
mod snapshots;

use rkube_runtime::images::{Snapshots, Store};
use rkube_testkit::images::{ImageBuilder, Packing};

/// A store in a directory that vanishes with it, and what was mounted there before it.
pub struct Place {
    pub store: Store,
    pub snapshots: Snapshots,
    pub directory: tempfile::TempDir,
}

impl Place {
    /// None, with a notice, where we are not root.
    pub fn new() -> Option<Place> {
        if !rustix::process::geteuid().is_root() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "tests of images run as root");
            eprintln!("skipped: only root can unpack images");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("images")).unwrap();
        Some(Place { snapshots: Snapshots::of(&store), store, directory })
    }

    pub fn try_load(&self, archive: &[u8]) -> rkube_runtime::images::Result<Vec<rkube_runtime::api::Image>> {
        let path = self.directory.path().join("archive.tar");
        std::fs::write(&path, archive).unwrap();
        self.store.load_archive(&path, &rkube_runtime::images::no_progress)
    }

    /// Loads one image and gives its id.
    pub fn load(&self, image: &ImageBuilder) -> String {
        let mut loaded = self.try_load(&image.archive(Packing::Docker)).unwrap();
        assert_eq!(loaded.len(), 1);
        loaded.remove(0).id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for container in self.snapshots.list().unwrap_or_default() {
            let _ = self.snapshots.remove(&container);
        }
    }
}
