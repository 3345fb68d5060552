//! Properties of unpacking: whatever a layer has, nothing changes outside, and what was unpacked can be removed.

use std::path::Path;

use proptest::prelude::*;
use rkube_testkit::images::Layer;

use super::*;

/// One entry of a layer, with a name and a target out of few, so that they meet.
#[derive(Clone, Debug)]
struct Made {
    kind: u8,
    name: String,
    target: String,
}

fn name() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => Just("a"), 4 => Just("b"), 2 => Just("c"), 1 => Just("."), 1 => Just(".."), 1 => Just(""),
        1 => Just(".wh.a"), 1 => Just(".wh.b"), 1 => Just(".wh..wh..opq"), 1 => Just(".wh...")
    ];
    proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        name(),
        name().prop_map(|name| format!("/{name}")),
        Just("..".to_owned()),
        Just("/".to_owned()),
        Just("../../outside".to_owned()),
        Just("../../../outside".to_owned()),
    ]
}

fn entries() -> impl Strategy<Value = Vec<Made>> {
    let entry = (0..6_u8, name(), target()).prop_map(|(kind, name, target)| Made { kind, name, target });
    proptest::collection::vec(entry, 0..20)
}

fn layer(entries: &[Made]) -> Vec<u8> {
    let made = entries.iter().fold(Layer::new(), |layer, entry| {
        let (name, target) = (entry.name.as_str(), entry.target.as_str());
        match entry.kind {
            0 | 1 => layer.file(name, 0o644, target.as_bytes()),
            2 => layer.directory(name, 0o755),
            3 => layer.symlink(name, target),
            4 => layer.hard_link(name, target),
            _ => layer.fifo(name, 0o600),
        }
    });
    made.bytes()
}

fn run(content: &[u8], root: &Path, onto: Onto) -> Result<Outcome> {
    unpack(content, &Digest::of(content), root, onto)
}

/// What a directory has, with all that would show a change.
fn picture(directory: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let describe = |path: &Path| {
        let metadata = std::fs::symlink_metadata(path).unwrap();
        let (mode, links, length) = (metadata.mode(), metadata.nlink(), metadata.len());
        format!("{} {mode:o} {links} {length} {}", path.display(), metadata.mtime_nsec())
    };
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| describe(&entry.unwrap().path()));
    entries.chain([describe(directory)]).collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_changes_outside(layers in proptest::collection::vec(entries(), 1..3)) {
        if !is_root() {
            return Ok(());
        }
        let place = tempfile::tempdir().unwrap();
        let (outside, root) = (place.path().join("outside"), place.path().join("inner/root"));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("a"), "outside").unwrap();
        let before = picture(&outside);
        for (index, entries) in layers.iter().enumerate() {
            let onto = if index == 0 { Onto::Lowest } else { Onto::Merged };
            // Whether it is one that can be unpacked is not the question.
            let _ = run(&layer(entries), &root, onto);
            let separate = place.path().join(format!("inner/separate-{index}"));
            std::fs::create_dir(&separate).unwrap();
            let _ = run(&layer(entries), &separate, Onto::Separate);
        }
        prop_assert_eq!(before, picture(&outside));
        let inner = rustix::fs::open(place.path(), rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        remove_below(std::os::fd::AsFd::as_fd(&inner), b"inner").unwrap();
    }

    /// Unpacked by itself or onto what is there: a name that was made is there, whatever removes the same in its layer.
    #[test]
    fn what_a_layer_makes_stays(names in proptest::collection::hash_set("[a-c]{1,2}", 1..5), first in any::<bool>()) {
        if !is_root() {
            return Ok(());
        }
        let mut made = Layer::new();
        for name in &names {
            made = if first { made.removed(name).file(name, 0o644, b"x") } else { made.file(name, 0o644, b"x").removed(name) };
        }
        let place = tempfile::tempdir().unwrap();
        for onto in [Onto::Lowest, Onto::Separate, Onto::Merged] {
            let root = place.path().join(format!("{onto:?}"));
            std::fs::create_dir(&root).unwrap();
            if onto == Onto::Merged {
                names.iter().for_each(|name| std::fs::create_dir_all(root.join(name).join("old")).unwrap());
            }
            prop_assert!(matches!(run(&made.bytes(), &root, onto), Ok(Outcome::Complete(_))));
            for name in &names {
                prop_assert_eq!(std::fs::read(root.join(name)).unwrap(), b"x");
            }
        }
    }

    /// A good archive of which some bytes are others, or some are missing.
    #[test]
    fn no_archive_makes_the_reader_panic(
        entries in entries(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        end in any::<prop::sample::Index>(),
    ) {
        let mut content = layer(&entries);
        for (at, byte) in changes {
            let length = content.len();
            content[at.index(length)] = byte;
        }
        let end = end.index(content.len() + 1);
        let _ = crate::images::count_entries(&content);
        let _ = crate::images::count_entries(&content[..end]);
    }
}
