//! What is loaded is there, under its names.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rkube_runtime::images::Store;
use rkube_testkit::images::{ImageBuilder, Layer, Packing, gzip, oci};
use serde_json::json;

use crate::Place;

fn image() -> ImageBuilder {
    ImageBuilder::new()
        .layer(&Layer::new().directory("bin/", 0o755).file("bin/tool", 0o4755, b"one").symlink("bin/link", "tool"))
        .layer(&Layer::new().directory("etc/", 0o750).file("etc/motd", 0o644, b"hello"))
        .config("Entrypoint", json!(["/bin/tool"]))
        .config("Env", json!(["PATH=/bin"]))
        .config("User", json!("1000:1000"))
        .config("StopSignal", json!("SIGQUIT"))
        .config("Volumes", json!({"/data": {}}))
        .name("example.com/tool:v1")
}

#[test]
fn archives_of_all_kinds_are_the_same_image() {
    let Some(place) = Place::new() else { return };
    for archive in [
        image().archive(Packing::Docker),
        gzip(&image().archive(Packing::Docker)),
        image().archive(Packing::Oci),
        image().compressed().archive(Packing::Oci),
        image().compressed().archive(Packing::Docker),
    ] {
        let loaded = place.try_load(&archive).unwrap();
        assert_eq!(loaded[0].id, image().id());
        assert_eq!(loaded[0].tags, ["example.com/tool:v1"]);
        assert_eq!(loaded[0].size_bytes, 8);
        assert_eq!(loaded[0].user, "1000:1000");
    }
    assert_eq!(place.store.list().unwrap().len(), 1);
    let layers = std::fs::read_dir(place.store.directory().join("layers/diff")).unwrap().count();
    assert_eq!(layers, 2, "a layer is unpacked once");
    assert_eq!(std::fs::read_dir(place.store.directory().join("scratch")).unwrap().count(), 0);
}

#[test]
fn an_image_is_found_by_all_its_names() {
    let Some(place) = Place::new() else { return };
    let image = image().name("busybox");
    let loaded = place.try_load(&image.archive(Packing::Oci)).unwrap();
    let id = image.id();
    let digest = &loaded[0].digests[0];
    for name in
        ["example.com/tool:v1", "busybox", "docker.io/library/busybox:latest", &id, &id[7..], &id[7..20], digest]
    {
        assert_eq!(place.store.find(name).unwrap().map(|found| found.id), Some(id.clone()), "{name}");
    }
    for name in ["example.com/tool", "busybox:2", "", "sha256:", "0"] {
        assert_eq!(place.store.find(name).unwrap(), None, "{name}");
    }
    let config = place.store.config_of(&id).unwrap();
    assert_eq!(config.entrypoint, ["/bin/tool"]);
    assert_eq!(config.environment, ["PATH=/bin"]);
    assert_eq!(config.user, "1000:1000");
    assert_eq!(config.stop_signal, "SIGQUIT");
    assert!(config.volumes.contains("/data"));
}

#[test]
fn a_name_belongs_to_the_image_that_got_it_last() {
    let Some(place) = Place::new() else { return };
    let first = place.load(&image());
    let second = place.load(&image().config("User", json!("")));
    assert_ne!(first, second);
    assert_eq!(place.store.find("example.com/tool:v1").unwrap().unwrap().id, second);
    assert!(place.store.find(&first).unwrap().unwrap().tags.is_empty());
}

#[test]
fn of_an_index_ours_is_chosen() {
    let Some(place) = Place::new() else { return };
    let other = image().architecture("pdp11");
    let loaded = place.try_load(&oci(&[&other, &image()])).unwrap();
    assert_eq!(loaded.len(), 1);
    assert_eq!(loaded[0].id, image().id());

    let error = place.try_load(&oci(&[&other, &other.clone().config("User", json!("x"))])).unwrap_err();
    assert!(error.to_string().starts_with("no match for platform in manifest"), "{error}");
}

#[test]
fn another_process_sees_what_was_changed() {
    let Some(place) = Place::new() else { return };
    let other = Store::open(place.store.directory()).unwrap();
    assert!(other.list().unwrap().is_empty());
    let id = place.load(&image());
    assert_eq!(other.list().unwrap().len(), 1);
    other.remove(&id).unwrap();
    assert!(place.store.list().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(place.store.directory().join("layers/diff")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(place.store.directory().join("blobs/sha256")).unwrap().count(), 0);
}

#[test]
fn what_a_crash_left_behind_goes_at_the_next_start() {
    let Some(place) = Place::new() else { return };
    let left = place.store.directory().join("scratch/1-1/separate-0/fs/a/b");
    std::fs::create_dir_all(&left).unwrap();
    Store::open(place.store.directory()).unwrap();
    assert_eq!(std::fs::read_dir(place.store.directory().join("scratch")).unwrap().count(), 0);
}

#[test]
fn files_are_as_the_layer_says() {
    let Some(place) = Place::new() else { return };
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0, 0, 0, 0];
    let layer = Layer::new()
        .directory("./", 0o711)
        .directory("tmp/", 0o1777)
        .extended(&[("mtime", b"1600000000.25"), ("SCHILY.xattr.security.capability", &capability), ("uid", b"70000")])
        .file("tool", 0o755, b"x")
        .file("setuid", 0o6755, b"x")
        .hard_link("again", "tool")
        .fifo("pipe", 0o622)
        .symlink("absolute", "/etc/passwd")
        .file(&"long/".repeat(30), 0o644, b"")
        .file(&format!("{}file", "long/".repeat(30)), 0o640, b"deep");
    let id = place.load(&ImageBuilder::new().layer(&layer));
    let root = place.snapshots.prepare("one", &id).unwrap();
    let mode = |name: &str| std::fs::symlink_metadata(root.join(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("."), 0o711);
    assert_eq!(mode("tmp"), 0o1777);
    assert_eq!(mode("setuid"), 0o6755);
    assert_eq!(mode("pipe"), 0o622);
    let tool = std::fs::metadata(root.join("tool")).unwrap();
    assert_eq!((tool.uid(), tool.gid(), tool.mtime(), tool.mtime_nsec()), (70_000, 0, 1_600_000_000, 250_000_000));
    assert_eq!(tool.ino(), std::fs::metadata(root.join("again")).unwrap().ino());
    assert_eq!(std::fs::metadata(root.join("tmp")).unwrap().mtime(), 1_700_000_000);
    let mut found = [0; 32];
    let length = rustix::fs::getxattr(root.join("tool"), "security.capability", &mut found[..]).unwrap();
    assert_eq!(found[..length], capability);
    assert_eq!(std::fs::read_link(root.join("absolute")).unwrap().to_str(), Some("/etc/passwd"));
    assert_eq!(std::fs::read(root.join("long/".repeat(30)).join("file")).unwrap(), b"deep");
    assert_eq!(std::fs::metadata(root.join("long")).unwrap().permissions().mode() & 0o777, 0o755);
}
