//! Root directories: layers on top of each other, and what containers write.

use std::path::Path;

use rkube_testkit::images::{ImageBuilder, Layer};

use crate::Place;

fn names(directory: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn layers_hide_and_remove_what_is_below() {
    let Some(place) = Place::new() else { return };
    let image = ImageBuilder::new()
        .layer(
            &Layer::new()
                .directory("kept/", 0o755)
                .file("kept/a", 0o644, b"a")
                .file("kept/b", 0o644, b"b")
                .directory("gone/", 0o755)
                .file("gone/x", 0o644, b"x")
                .directory("fresh/", 0o755)
                .file("fresh/old", 0o644, b"old")
                .directory("again/", 0o755)
                .file("again/old", 0o644, b"old")
                .directory("earlier/", 0o755)
                .file("earlier/old", 0o644, b"old")
                .file("file", 0o644, b"file"),
        )
        .layer(
            &Layer::new()
                .directory("kept/", 0o755)
                .removed("kept/a")
                .file("kept/c", 0o644, b"c")
                .removed("gone")
                .directory("fresh/", 0o755)
                .file("fresh/new", 0o644, b"new")
                .opaque("fresh")
                .removed("again")
                .directory("again/", 0o755)
                .file("again/new", 0o644, b"new")
                .directory("earlier/", 0o755)
                .file("earlier/new", 0o644, b"new")
                .removed("earlier")
                .directory("file/", 0o755),
        );
    let id = place.load(&image);
    let root = place.snapshots.prepare("one", &id).unwrap();
    assert_eq!(names(&root), ["again", "earlier", "file", "fresh", "kept"]);
    assert_eq!(names(root.join("kept")), ["b", "c"]);
    for directory in ["again", "earlier", "fresh"] {
        assert_eq!(names(root.join(directory)), ["new"], "{directory}");
    }
    assert!(names(root.join("file")).is_empty());
}

#[test]
fn layers_that_rely_on_those_below_find_them() {
    let Some(place) = Place::new() else { return };
    let image = ImageBuilder::new()
        .layer(
            &Layer::new()
                .directory("usr/", 0o755)
                .directory("usr/lib/", 0o755)
                .file("usr/lib/old", 0o644, b"old")
                .symlink("lib", "usr/lib")
                .directory("tmp/", 0o1777)
                .directory("opt/", 0o755)
                .file("opt/one", 0o644, b"one")
                .file("opt/two", 0o644, b"two"),
        )
        // Neither `lib` nor `tmp` nor `opt` is in it, and a link leads to a file of the other layer.
        .layer(
            &Layer::new()
                .file("lib/new", 0o644, b"new")
                .file("tmp/x", 0o644, b"x")
                .hard_link("linked", "usr/lib/old")
                .opaque("opt")
                .file("opt/three", 0o644, b"three"),
        )
        .layer(&Layer::new().removed("tmp/x").file("lib/newer", 0o644, b"newer"));
    let id = place.load(&image);
    let root = place.snapshots.prepare("one", &id).unwrap();
    assert_eq!(std::fs::read_link(root.join("lib")).unwrap().to_str(), Some("usr/lib"));
    assert_eq!(names(root.join("usr/lib")), ["new", "newer", "old"]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(root.join("tmp")).unwrap().permissions());
    assert_eq!(mode & 0o7777, 0o1777);
    assert!(names(root.join("tmp")).is_empty());
    assert_eq!(read(root.join("linked")), "old");
    assert_eq!(names(root.join("opt")), ["three"]);
    assert_eq!(names(place.store.directory().join("scratch")), Vec::<String>::new());

    // The same again: all is there.
    place.store.remove(&id).unwrap();
    assert_eq!(place.load(&image), id);
}

#[test]
fn a_layer_may_remove_all_there_is() {
    let Some(place) = Place::new() else { return };
    let image = ImageBuilder::new()
        .layer(&Layer::new().directory("a/", 0o755).file("a/x", 0o644, b"").file("b", 0o644, b""))
        .layer(&Layer::new().directory("a/", 0o755).file(".wh..wh..opq", 0o600, b"").file("c", 0o644, b""));
    let id = place.load(&image);
    let root = place.snapshots.prepare("one", &id).unwrap();
    assert_eq!(names(&root), ["a", "c"]);
    assert!(names(root.join("a")).is_empty());
}

#[test]
fn containers_do_not_see_each_others_files() {
    let Some(place) = Place::new() else { return };
    let id = place.load(&ImageBuilder::new().layer(&Layer::new().file("a", 0o644, b"image")));
    let one = place.snapshots.prepare("one", &id).unwrap();
    let two = place.snapshots.prepare("two", &id).unwrap();
    std::fs::write(one.join("a"), "one").unwrap();
    std::fs::write(one.join("b"), vec![1; 100_000]).unwrap();
    assert_eq!(read(two.join("a")), "image");
    assert_eq!(names(&two), ["a"]);
    let usage = place.snapshots.usage("one").unwrap();
    assert!(usage.bytes >= 100_000 && usage.inodes == 3, "{usage:?}");

    place.snapshots.remove("one").unwrap();
    place.snapshots.remove("one").unwrap();
    assert_eq!(place.snapshots.list().unwrap(), ["two"]);
    assert!(!one.exists());
}

#[test]
fn layers_stay_as_long_as_a_container_needs_them() {
    let Some(place) = Place::new() else { return };
    let id = place.load(&ImageBuilder::new().layer(&Layer::new().file("a", 0o644, b"image")));
    let root = place.snapshots.prepare("one", &id).unwrap();
    place.store.remove(&id).unwrap();
    assert!(place.store.list().unwrap().is_empty());
    assert_eq!(read(root.join("a")), "image");
    assert!(place.snapshots.prepare("two", &id).is_err());
    place.snapshots.remove("one").unwrap();
    assert!(names(place.store.directory().join("layers/diff")).is_empty());
}

#[test]
fn many_layers_are_stacked() {
    let Some(place) = Place::new() else { return };
    let mut image = ImageBuilder::new();
    for number in 0..150 {
        image = image.layer(&Layer::new().file(&format!("file-{number}"), 0o644, number.to_string().as_bytes()));
    }
    // Builders repeat an empty layer for every step that changes no file.
    image = image.layer(&Layer::new()).layer(&Layer::new()).layer(&Layer::new().file("last", 0o644, b""));
    let id = place.load(&image);
    let root = place.snapshots.prepare("one", &id).unwrap();
    assert_eq!(names(&root).len(), 151);
    assert_eq!(read(root.join("file-7")), "7");
}

#[test]
fn an_image_without_layers_is_an_empty_directory() {
    let Some(place) = Place::new() else { return };
    let id = place.load(&ImageBuilder::new());
    let root = place.snapshots.prepare("one", &id).unwrap();
    assert!(names(&root).is_empty());
    std::fs::write(root.join("a"), "x").unwrap();
    assert_eq!(place.snapshots.usage("one").unwrap().inodes, 2);
}

#[test]
fn what_a_container_wrote_is_measured_and_removed_however_deep() {
    let Some(place) = Place::new() else { return };
    let id = place.load(&ImageBuilder::new().layer(&Layer::new().file("a", 0o644, b"image")));
    let root = place.snapshots.prepare("one", &id).unwrap();
    let mut directory = rustix::fs::open(&root, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    const DEPTH: u64 = 5_000;
    for _ in 0..DEPTH {
        rustix::fs::mkdirat(&directory, "d", rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        directory = rustix::fs::openat(&directory, "d", flags, rustix::fs::Mode::empty()).unwrap();
    }
    drop(directory);
    assert_eq!(place.snapshots.usage("one").unwrap().inodes, DEPTH + 1);
    place.snapshots.remove("one").unwrap();
    assert!(names(place.store.directory().join("scratch")).is_empty());
}

#[test]
fn names_of_containers_are_names() {
    let Some(place) = Place::new() else { return };
    for name in ["", "..", "a/b", "."] {
        assert!(place.snapshots.prepare(name, "sha256:0").is_err(), "{name}");
        assert!(place.snapshots.remove(name).is_err(), "{name}");
    }
}

/// Mounted until it is dropped: a place on which overlayfs does not stack another.
struct Overlay(std::path::PathBuf);

impl Overlay {
    fn new(directory: &Path) -> Overlay {
        let paths = ["lower", "upper", "work", "merged"].map(|name| directory.join(name));
        paths.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let [lower, upper, work, merged] = &paths;
        let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        let options = std::ffi::CString::new(options).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("overlay", merged, "overlay", flags, Some(options.as_c_str())).unwrap();
        Overlay(merged.clone())
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn where_overlayfs_refuses_layers_are_copied() {
    let Some(place) = Place::new() else { return };
    let overlay = Overlay::new(place.directory.path());
    // Whiteouts cannot be made on an overlay either: what a layer removes is removed as it is copied.
    let store = rkube_runtime::images::Store::open(overlay.0.join("images")).unwrap();
    let snapshots = rkube_runtime::images::Snapshots::of(&store);
    let image = ImageBuilder::new()
        .layer(
            &Layer::new()
                .directory("kept/", 0o1777)
                .file("kept/a", 0o4755, b"a")
                .hard_link("kept/b", "kept/a")
                .file("kept/gone", 0o644, b"")
                .directory("fresh/", 0o755)
                .file("fresh/old", 0o644, b"")
                .symlink("link", "kept"),
        )
        .layer(&Layer::new().removed("kept/gone").opaque("fresh").file("fresh/new", 0o644, b""))
        .layer(&Layer::new().directory("more/", 0o755).fifo("more/pipe", 0o600).file("more/x", 0o600, b"x"))
        .layer(&Layer::new().file("link/c", 0o644, b"c"));
    let path = place.directory.path().join("archive.tar");
    image.write(rkube_testkit::images::Packing::Docker, &path);
    let loaded = store.load_archive(&path, &rkube_runtime::images::no_progress).unwrap();
    for container in ["one", "two"] {
        let root = snapshots.prepare(container, &loaded[0].id).unwrap();
        assert_eq!(names(&root), ["fresh", "kept", "link", "more"]);
        assert_eq!(names(root.join("fresh")), ["new"]);
        assert_eq!(names(root.join("kept")), ["a", "b", "c"]);
        assert_eq!(names(root.join("more")), ["pipe", "x"]);
        let metadata = |name: &str| std::fs::symlink_metadata(root.join(name)).unwrap();
        let mode = |name: &str| std::os::unix::fs::PermissionsExt::mode(&metadata(name).permissions()) & 0o7777;
        assert_eq!((mode("kept"), mode("kept/a")), (0o1777, 0o4755));
        assert_eq!(std::os::unix::fs::MetadataExt::nlink(&metadata("kept/b")), 2);
        assert_eq!(std::os::unix::fs::MetadataExt::mtime(&metadata("kept/a")), 1_700_000_000);
        std::fs::write(root.join("kept/a"), container).unwrap();
    }
    assert!(snapshots.usage("one").unwrap().inodes >= 7);
    for container in ["one", "two"] {
        snapshots.remove(container).unwrap();
    }
    assert!(snapshots.list().unwrap().is_empty());
}
