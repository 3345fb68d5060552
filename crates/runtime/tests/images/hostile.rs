//! What no image may do: reach outside, lie, or ask for too much. Nothing is left of one that tried.

use rkube_runtime::images::Error;
use rkube_testkit::images::{ImageBuilder, Layer, Packing, digest};
use serde_json::json;
use tar::EntryType;

use crate::Place;

/// Loads an image of these layers, and says what was wrong with it.
fn refusal(place: &Place, layers: &[Layer]) -> String {
    let image = layers.iter().fold(ImageBuilder::new(), |image, layer| image.layer(layer));
    let result = place.try_load(&image.archive(Packing::Docker));
    let error = result.map(|_| ()).expect_err("this image was to be refused");
    assert!(matches!(error, Error::Refused(_) | Error::Corrupt(_)), "{error:?}");
    nothing_is_left(place);
    error.to_string()
}

fn nothing_is_left(place: &Place) {
    assert!(place.store.list().unwrap().is_empty());
    for directory in ["scratch", "layers/diff", "layers/chain", "blobs/sha256"] {
        let left = std::fs::read_dir(place.store.directory().join(directory)).unwrap().count();
        assert_eq!(left, 0, "{directory}");
    }
}

#[test]
fn names_do_not_lead_out() {
    let Some(place) = Place::new() else { return };
    let outside = place.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let to_outside = outside.to_str().unwrap();
    for layer in [
        Layer::new().file("../outside/x", 0o644, b""),
        Layer::new().file("a/../../x", 0o644, b""),
        Layer::new().hard_link("x", "../../../../../etc/passwd"),
        Layer::new().symlink("a", "a").file("a/x", 0o644, b""),
        Layer::new().file("a", 0o644, b"").file("a/x", 0o644, b""),
    ] {
        refusal(&place, &[layer]);
    }
    // Links that lead out do so only for who is outside: here they lead to the same place below the root.
    let escape = Layer::new()
        .symlink("absolute", to_outside)
        .symlink("upwards", &format!("../../../../../../../../..{to_outside}"))
        .directory(to_outside, 0o755)
        .file("absolute/one", 0o644, b"1")
        .file("upwards/two", 0o644, b"2")
        .file("/absolute/three", 0o644, b"3");
    let later = Layer::new().file("absolute/four", 0o644, b"4").removed("absolute/one").opaque("upwards");
    let id = place.load(&ImageBuilder::new().layer(&escape).layer(&later));
    let root = place.snapshots.prepare("one", &id).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    let below = root.join(to_outside.trim_start_matches('/'));
    assert_eq!(std::fs::read_dir(below).unwrap().count(), 1);
}

#[test]
fn a_link_that_leads_nowhere_is_no_way_out() {
    let Some(place) = Place::new() else { return };
    let outside = place.directory.path().join("outside");
    let layer = Layer::new().symlink("a", outside.to_str().unwrap()).file("a", 0o644, b"replaced");
    let id = place.load(&ImageBuilder::new().layer(&layer));
    let root = place.snapshots.prepare("one", &id).unwrap();
    assert!(!outside.exists());
    assert_eq!(std::fs::read(root.join("a")).unwrap(), b"replaced");
}

#[test]
fn devices_are_refused_but_in_dev() {
    let Some(place) = Place::new() else { return };
    assert!(refusal(&place, &[Layer::new().device("sda", 8, 0)]).ends_with("is a device"));
    // What overlayfs would take for a removed name.
    refusal(&place, &[Layer::new().device("etc", 0, 0)]);
    let id = place.load(&ImageBuilder::new().layer(&Layer::new().directory("dev/", 0o755).device("dev/mem", 1, 1)));
    let root = place.snapshots.prepare("one", &id).unwrap();
    assert_eq!(std::fs::read_dir(root.join("dev")).unwrap().count(), 0);
}

#[test]
fn attributes_do_not_speak_to_the_kernel() {
    let Some(place) = Place::new() else { return };
    let layer = Layer::new()
        .extended(&[("SCHILY.xattr.trusted.overlay.redirect", b"/etc"), ("SCHILY.xattr.trusted.overlay.opaque", b"y")])
        .directory("a/", 0o755);
    let id = place.load(&ImageBuilder::new().layer(&Layer::new().directory("a/", 0o755)).layer(&layer));
    assert_eq!(place.store.find(&id).unwrap().unwrap().id, id);
    for entry in std::fs::read_dir(place.store.directory().join("layers/diff")).unwrap() {
        let path = entry.unwrap().path().join("fs/a");
        let mut buffer = [0; 256];
        let length = rustix::fs::listxattr(&path, &mut buffer[..]).unwrap();
        assert!(!String::from_utf8_lossy(&buffer[..length]).contains("trusted"));
    }
}

#[test]
fn removing_more_than_a_name_is_refused() {
    let Some(place) = Place::new() else { return };
    let base = Layer::new().file("a", 0o644, b"");
    for name in [".wh.", ".wh...", ".wh.."] {
        refusal(&place, &[base.clone(), Layer::new().file(name, 0o600, b"")]);
    }
}

#[test]
fn sizes_that_lie_are_noticed() {
    let Some(place) = Place::new() else { return };
    let claims = |bytes: u64| {
        Layer::new()
            .changed(EntryType::Regular, "a", "", 0o644, b"short", &|header: &mut tar::Header| header.set_size(bytes))
    };
    for bytes in [10_000, 1 << 20, 1 << 40, u64::MAX, u64::MAX - 600] {
        refusal(&place, &[claims(bytes)]);
        refusal(&place, &[Layer::new().file("first", 0o644, b""), claims(bytes)]);
    }
    let header_without_end =
        Layer::new()
            .changed(EntryType::XHeader, "pax", "", 0, b"", &|header: &mut tar::Header| header.set_size(1 << 30));
    refusal(&place, &[header_without_end]);
    refusal(&place, &[Layer::new().extended(&[("size", b"18446744073709551615")]).file("a", 0o644, b"")]);
    refusal(&place, &[Layer::new().extended(&[("size", b"-1")]).file("a", 0o644, b"")]);
    refusal(&place, &[Layer::new().entry(EntryType::GNULongName, "x", "", 0, &vec![b'a'; 2 << 20])]);
    refusal(&place, &[Layer::new().file(&"a/".repeat(2_000), 0o644, b"")]);
    refusal(&place, &[Layer::new().file(&"a".repeat(300), 0o644, b"")]);
}

#[test]
fn links_do_not_lead_deeper_than_can_be_removed() {
    let Some(place) = Place::new() else { return };
    let deep = "d/".repeat(200);
    let mut layer = Layer::new().directory(&deep, 0o755).symlink("a", &deep);
    for _ in 0..3 {
        layer = layer
            .directory(&format!("a/{deep}"), 0o755)
            .symlink(&format!("a/{deep}a"), "d")
            .symlink("a", &format!("{deep}{deep}"));
    }
    let words = refusal(&place, &[layer]);
    assert!(words.contains("directories deep"), "{words}");
}

#[test]
fn content_has_the_digest_that_names_it() {
    let Some(place) = Place::new() else { return };
    let layer = Layer::new().file("a", 0o644, b"right").bytes();
    let wrong = Layer::new().file("a", 0o644, b"wrong").bytes();
    let image = ImageBuilder::new().layer_bytes(layer.clone()).name("tool");
    for packing in [Packing::Docker, Packing::Oci] {
        let archive = image.archive(packing);
        let at = archive.windows(layer.len()).position(|window| window == layer).unwrap();
        let mut broken = archive.clone();
        broken[at..at + layer.len()].copy_from_slice(&wrong);
        let error = place.try_load(&broken).unwrap_err().to_string();
        assert!(error.contains("has the digest"), "{error}");
        nothing_is_left(&place);
        for end in [0, 100, 512, 700, archive.len() / 2, archive.len() - 3_000] {
            place.try_load(&archive[..end]).unwrap_err();
            nothing_is_left(&place);
        }
    }
}

#[test]
fn documents_that_lie_are_refused() {
    let Some(place) = Place::new() else { return };
    let archive = |manifest: serde_json::Value, config: &[u8]| {
        Layer::new()
            .file("config.json", 0o644, config)
            .file("manifest.json", 0o644, manifest.to_string().as_bytes())
            .bytes()
    };
    let config = json!({"rootfs": {"diff_ids": [digest(b"x")]}}).to_string();
    for (manifest, config) in [
        (json!([]), config.as_str()),
        (json!({}), &config),
        (json!([{"Config": "config.json", "Layers": []}]), &config),
        (json!([{"Config": "config.json", "Layers": ["../../etc/passwd"]}]), &config),
        (json!([{"Config": "/etc/passwd", "Layers": []}]), &config),
        (json!([{"Config": "config.json", "Layers": ["config.json"]}]), &config),
        (json!([{"Config": "config.json", "RepoTags": ["../x"], "Layers": []}]), r#"{"rootfs": {}}"#),
        (json!([{"Config": "config.json", "Layers": []}]), "null"),
        (json!([{"Config": "config.json", "Layers": []}]), r#"{"rootfs": {"diff_ids": ["md5:1"]}}"#),
    ] {
        place.try_load(&archive(manifest, config.as_bytes())).unwrap_err();
        nothing_is_left(&place);
    }
    place.try_load(b"").unwrap_err();
    place.try_load(&[0; 1024]).unwrap_err();
    place.try_load(&vec![b'x'; 10_000]).unwrap_err();
}
