//! The committed examples: at least one valid object of every kind.

use std::path::Path;
use std::sync::OnceLock;

use rkube_kinds::{Kind, all};
use rkube_machinery::{Value, decode, yaml};

use crate::road;

/// A valid object of a kind.
pub struct Example {
    /// The group's file in which it stands, without its ending.
    pub file: String,
    pub kind: &'static Kind,
    /// As it is written: neither decoded nor defaulted.
    pub document: Value,
}

impl Example {
    pub fn name(&self) -> &str {
        self.document.get("metadata").str("name")
    }

    pub fn decoded(&self) -> Value {
        road::decoded(self.kind, self.document.clone()).unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }
}

/// The examples as the files have them, in their order.
pub fn written() -> &'static [Example] {
    static WRITTEN: OnceLock<Vec<Example>> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
        let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().flat_map(|path| read(path)).collect()
    })
}

/// The examples of a kind; of a version without any, those of another version, converted.
pub fn of(kind: &'static Kind) -> Vec<Example> {
    let own: Vec<Example> = written().iter().filter(|example| std::ptr::eq(example.kind, kind)).map(copy).collect();
    if !own.is_empty() {
        return own;
    }
    let same = |example: &&Example| example.kind.kind == kind.kind && example.kind.group == kind.group;
    written().iter().filter(same).map(|example| converted(example, kind)).collect()
}

fn read(path: &Path) -> Vec<Example> {
    let file = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let documents = text.split("\n---\n").map(|document| yaml::parse(document.as_bytes()));
    let example = |document: Value| {
        let (api_version, kind) = (document.str("apiVersion"), document.str("kind"));
        let found = all().iter().find(|row| row.kind == kind && row.api_version() == api_version);
        let kind = found.unwrap_or_else(|| panic!("{file}: no kind {kind} in {api_version}"));
        Example { file: file.clone(), kind, document }
    };
    documents.map(|document| example(document.unwrap_or_else(|error| panic!("{file}: {error}")))).collect()
}

fn copy(example: &Example) -> Example {
    Example { file: example.file.clone(), kind: example.kind, document: example.document.clone() }
}

fn converted(example: &Example, kind: &'static Kind) -> Example {
    let mut document = road::served(kind, road::stored(example.kind, example.decoded()));
    document.set("apiVersion", kind.api_version());
    let schema = kind.schema.table().unwrap();
    decode::complete(&mut document, schema);
    Example { file: example.file.clone(), kind, document }
}

#[test]
fn every_kind_has_an_example() {
    let missing: Vec<String> = all()
        .iter()
        .filter(|kind| of(kind).is_empty())
        .map(|kind| format!("{} {}", kind.api_version(), kind.kind))
        .collect();
    assert!(missing.is_empty(), "tests/examples has none of {missing:?}");
}

#[test]
fn examples_are_accepted() {
    // Reviews are answered and not stored: they need no name.
    for kind in all().iter().filter(|kind| kind.allows("get")) {
        for example in of(kind) {
            let created = road::create(kind, example.decoded());
            let errors = created.err().map(|errors| errors.summary()).unwrap_or_default();
            assert_eq!(errors, "", "{} {} {}", kind.api_version(), kind.kind, example.name());
        }
    }
}
