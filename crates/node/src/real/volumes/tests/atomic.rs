//! The atomic writer.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use crate::real::volumes::atomic_writer::{version_name, write};
use crate::real::volumes::payload::{File, Payload};

fn payload(files: &[(&str, &str)]) -> Payload {
    files.iter().map(|(path, text)| ((*path).to_owned(), File::new(*text, 0o644))).collect()
}

/// What people see: all files that can be reached by names that do not begin with two dots.
fn visible(target: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(directory: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if prefix.is_empty() && name.starts_with("..") {
                continue;
            }
            let path = format!("{prefix}{name}");
            if fs::metadata(entry.path()).unwrap().is_dir() {
                walk(&entry.path(), &format!("{path}/"), found);
            } else {
                found.insert(path, fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(target, "", &mut found);
    found
}

fn hidden(target: &Path) -> usize {
    let names = fs::read_dir(target).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("..")).count()
}

fn contents(payload: &Payload) -> BTreeMap<String, Vec<u8>> {
    payload.iter().map(|(path, file)| (path.clone(), file.bytes.clone())).collect()
}

#[test]
fn versions_are_named_by_time() {
    assert_eq!(version_name(1_454_338_805, 12_345_678_901), "..2016_02_01_15_00_05.2345678901");
}

#[test]
fn nothing_is_written_where_nothing_is_new() {
    let target = tempfile::tempdir().unwrap();
    let files = payload(&[("a", "1"), ("d/b", "2")]);
    assert!(write(target.path(), files.clone(), "..2v1", || Ok(())).unwrap());
    assert_eq!(fs::read_link(target.path().join("d")).unwrap(), Path::new("..data/d"));
    assert!(!write(target.path(), files, "..2v2", || panic!("nothing is published")).unwrap());
    assert_eq!(fs::read_link(target.path().join("..data")).unwrap(), Path::new("..2v1"));
}

#[test]
fn links_that_people_removed_are_made_again() {
    let target = tempfile::tempdir().unwrap();
    let files = payload(&[("a", "1")]);
    write(target.path(), files.clone(), "..2v1", || Ok(())).unwrap();
    fs::remove_file(target.path().join("a")).unwrap();
    write(target.path(), files.clone(), "..2v2", || Ok(())).unwrap();
    assert_eq!(visible(target.path()), contents(&files));
}

#[test]
fn who_has_a_file_open_reads_the_old_one_to_its_end() {
    use std::io::Read as _;

    let target = tempfile::tempdir().unwrap();
    write(target.path(), payload(&[("a", "old")]), "..2v1", || Ok(())).unwrap();
    let mut open = fs::File::open(target.path().join("a")).unwrap();
    write(target.path(), payload(&[("a", "new")]), "..2v2", || Ok(())).unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), fs::read_to_string(target.path().join("a")).unwrap().as_str()), ("old", "new"));
}

#[test]
fn a_failed_write_changes_nothing_and_a_crash_leaves_nothing_for_long() {
    let target = tempfile::tempdir().unwrap();
    let old = payload(&[("a", "old"), ("b", "x")]);
    write(target.path(), old.clone(), "..2v1", || Ok(())).unwrap();
    let failed = write(target.path(), payload(&[("a", "new")]), "..2v2", || Err(io::Error::other("no")));
    assert_eq!(failed.unwrap_err().to_string(), "no");
    assert_eq!((visible(target.path()), hidden(target.path())), (contents(&old), 2));
    // As if we had been killed between two steps.
    fs::create_dir(target.path().join("..2v3")).unwrap();
    fs::write(target.path().join("..2v3/a"), b"half").unwrap();
    symlink("..2v3", target.path().join("..data_tmp")).unwrap();
    let new = payload(&[("a", "new")]);
    write(target.path(), new.clone(), "..2v4", || Ok(())).unwrap();
    assert_eq!((visible(target.path()), hidden(target.path())), (contents(&new), 2));
}

#[test]
fn paths_that_lead_out_are_refused() {
    let target = tempfile::tempdir().unwrap();
    for path in ["../a", "/a", "a/../../b", "..data/a"] {
        assert!(write(target.path(), payload(&[(path, "x")]), "..2v1", || Ok(())).is_err(), "{path}");
    }
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

/// Paths of which none is above another one: a path is a file or a directory, by its name.
fn paths() -> impl Strategy<Value = String> {
    let directory = prop::sample::select(vec!["", "d1/", "d2/", "d1/d3/"]);
    let file = prop::sample::select(vec!["f1", "f2", "f3"]);
    (directory, file).prop_map(|(directory, file)| format!("{directory}{file}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn people_see_what_was_written_last(
        versions in prop::collection::vec(prop::collection::btree_map(paths(), "[ab]{0,2}", 0..6), 1..6),
    ) {
        let target = tempfile::tempdir().unwrap();
        for (number, files) in versions.iter().enumerate() {
            let payload: Payload =
                files.iter().map(|(path, text)| (path.clone(), File::new(text.as_str(), 0o600))).collect();
            let before = (number > 0).then(|| visible(target.path()));
            let written = write(target.path(), payload.clone(), &format!("..2v{number}"), || {
                // Nobody sees anything before it is published.
                assert!(before.as_ref().is_none_or(|before| *before == visible(target.path())));
                Ok(())
            });
            let is_new = before.as_ref() != Some(&contents(&payload));
            prop_assert_eq!(written.unwrap(), is_new);
            prop_assert_eq!(visible(target.path()), contents(&payload));
            prop_assert_eq!(hidden(target.path()), 2);
        }
    }
}
