//! The image that tests of a node run: its program needs nothing but itself.

use std::process::Command;

use rkube_testkit::images::{Packing, TEST_IMAGE, test_image};

use crate::Place;

#[test]
fn the_test_image_runs_in_an_empty_root() {
    let Some(place) = Place::new() else { return };
    place.try_load(&test_image().archive(Packing::Docker)).unwrap();
    let image = place.store.find(TEST_IMAGE).unwrap().unwrap();
    let root = place.snapshots.prepare("one", &image.id).unwrap();
    let run = |arguments: &[&str]| {
        // A root of its own is all that it takes of a container.
        let mut command = Command::new("chroot");
        let output =
            command.arg(&root).args(arguments).env_clear().env("PATH", "/bin:/usr/bin:/usr/sbin").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        (text, output.status.code())
    };
    assert_eq!(run(&["/bin/echo", "a", "b"]), ("a b\n".to_owned(), Some(0)));
    assert_eq!(run(&["/bin/tool", "exit", "7"]).1, Some(7));
    assert!(run(&["/bin/id"]).0.starts_with("uid=0 gid=0 "));
    // There is no /proc: only what needs no other process works in a shell.
    assert_eq!(run(&["/bin/sh", "-c", "cd /tmp && exit 4"]).1, Some(4));
}
