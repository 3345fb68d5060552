//! `coverage/*.tsv` says the truth: what it maps upstream's functions to is in our code.
//!
//! A row has two columns: upstream's file, with a function behind a colon, and what we have for it. That is
//! `not needed: WHY`, `missing: WHY`, `elsewhere: WHERE`, or a list of paths, with a remark behind a semicolon if there is
//! more to say: `core::pod::update::validate, core::pod::PodRules::default; WHY`. A path begins at the root of this crate,
//! or with the name of one below it, and leads to a function; where upstream's file stands as a whole, to a module.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

const EXCUSES: &[&str] = &["not needed", "missing", "elsewhere"];
const CRATES_BELOW: &[&str] = &["rkube_cel", "rkube_machinery"];

#[test]
fn every_row_names_what_is_there() {
    let mut code = Code::default();
    let mut wrong = Vec::new();
    for (table, text) in tables() {
        for (number, row) in rows(&text) {
            wrong.extend(code.check(row).err().map(|why| format!("{table}:{number}: {why}: {row}")));
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_table_has_a_header_and_rows() {
    let tables = tables();
    assert!(tables.len() > 20, "{} tables", tables.len());
    for (table, text) in tables {
        assert_eq!(text.lines().next(), Some("upstream\tours"), "{table}");
        let mut rows: Vec<&str> = rows(&text).map(|(_, row)| row).collect();
        let count = rows.len();
        rows.sort_unstable();
        rows.dedup();
        assert!(count > 0 && rows.len() == count, "{table} is empty, or has a row twice");
    }
}

#[test]
fn wrong_rows_are_found() {
    let table = [
        ("a/b.go:F\tmeta::validate_annotations", ""),
        ("a/b.go:F\tmeta::validate_annotations; but later", ""),
        ("a/b.go:F\tcore::pod::PodRules::default, strategy::NameRule::Subdomain", ""),
        ("a/b.go:F\tnot needed: nobody asks", ""),
        ("a/b.go:F\trkube_machinery::decode::decode", ""),
        ("a/b.go\tcore::pod", ""),
        ("a/b.go:F\tcore::pod", "core::pod"),
        ("a/b.go:F", "two columns"),
        ("a/b.go:F\tmeta::validate_annotations\tmore", "two columns"),
        ("b:F\tmeta::validate_annotations", "file of Go"),
        ("a/b.go:F\tnot needed:", "why"),
        ("a/b.go:F\tsomewhere", "no path"),
        ("a/b.go:F\tvalidate, somehow else", "no path"),
        ("a/b.go:F\tmeta::validate_anotations", "meta::validate_anotations"),
        ("a/b.go:F\tcore::pod::PodRules::defaults", "core::pod::PodRules::defaults"),
        ("a/b.go:F\tcore::pod::NoRules::default", "core::pod::NoRules::default"),
        ("a/b.go:F\tcore::pot::validate", "core::pot::validate"),
        ("a/b.go:F\tmeta::validate_annotations, meta::nothing", "meta::nothing"),
    ];
    let mut code = Code::default();
    for (row, expected) in table {
        let found = code.check(row).err().unwrap_or_default();
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{row}: {found:?}");
    }
}

/// Names and texts.
fn tables() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("coverage");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<(String, String)> = files
        .map(|file| (file.file_name().unwrap().display().to_string(), std::fs::read_to_string(&file).unwrap()))
        .collect();
    tables.sort();
    tables
}

/// With their line numbers.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().skip(1).map(|(index, row)| (index + 1, row))
}

/// The text of modules, as it is asked for.
#[derive(Default)]
struct Code(HashMap<PathBuf, Option<String>>);

impl Code {
    fn check(&mut self, row: &str) -> Result<(), String> {
        let [upstream, ours] = row.split('\t').collect::<Vec<_>>()[..] else {
            return Err("not two columns".to_owned());
        };
        if !upstream.split([':', ' ']).next().is_some_and(|file| file.contains('/') && file.ends_with(".go")) {
            return Err("upstream is no file of Go".to_owned());
        }
        if let Some((_, why)) = ours.split_once(':').filter(|(excuse, _)| EXCUSES.contains(excuse)) {
            return if why.trim().is_empty() { Err("it does not say why".to_owned()) } else { Ok(()) };
        }
        let paths = ours.split(';').next().unwrap_or_default();
        let is_whole_file = !upstream.contains(':');
        paths.split(", ").try_for_each(|path| self.check_path(path, is_whole_file))
    }

    fn check_path(&mut self, path: &str, or_module: bool) -> Result<(), String> {
        let parts: Vec<&str> = path.split("::").collect();
        let is_name = |part: &&str| !part.is_empty() && part.chars().all(|one| one.is_alphanumeric() || one == '_');
        if parts.len() < 2 || !parts.iter().all(is_name) {
            return Err(format!("{path:?} is no path"));
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (root, parts) = match parts[0].strip_prefix("rkube_").filter(|_| CRATES_BELOW.contains(&parts[0])) {
            Some(name) => (here.with_file_name(name), &parts[1..]),
            None => (here.to_owned(), &parts[..]),
        };
        let source = root.join("src");
        let found = match parts {
            module if or_module && self.text(&source, module).is_some() => true,
            [module @ .., item] if self.text(&source, module).is_some_and(|text| declares(text, item)) => true,
            [module @ .., owner, item] => self.text(&source, module).is_some_and(|text| belongs(text, owner, item)),
            _ => false,
        };
        if found { Ok(()) } else { Err(format!("there is no {path}")) }
    }

    /// Of a module.
    fn text(&mut self, source: &Path, module: &[&str]) -> Option<&str> {
        let folder: PathBuf = source.join(module.iter().collect::<PathBuf>());
        let read = || {
            let file = if module.is_empty() { folder.join("lib.rs") } else { folder.with_extension("rs") };
            std::fs::read_to_string(file).or_else(|_| std::fs::read_to_string(folder.join("mod.rs"))).ok()
        };
        self.0.entry(folder.clone()).or_insert_with(read).as_deref()
    }
}

const KEYWORDS: &[&str] = &["fn", "struct", "enum", "trait", "const", "static", "type"];

/// Whether the text has an item of that name.
fn declares(text: &str, name: &str) -> bool {
    KEYWORDS.iter().any(|keyword| has_words(text, &format!("{keyword} {name}")))
}

/// Whether a type in the text has a function or a variant of that name.
fn belongs(text: &str, owner: &str, name: &str) -> bool {
    blocks(text).any(|(head, body)| {
        let is_enum = has_words(head, &format!("enum {owner}"));
        let is_implementation = head.trim_start().starts_with("impl") && has_words(head, owner);
        (is_enum && has_words(body, name)) || (is_implementation && has_words(body, &format!("fn {name}")))
    })
}

/// What stands at the left margin, up to its closing bracket, with its first line apart.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n}").filter_map(|block| {
        let heads = ["\nimpl", "\npub enum", "\nenum", "\npub(super) enum", "\npub(crate) enum"];
        let start = heads.iter().filter_map(|head| block.rfind(head)).max()? + 1;
        block[start..].split_once('{')
    })
}

fn has_words(text: &str, words: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(words)
        .any(|(index, _)| !text[..index].ends_with(is_part) && !text[index + words.len()..].starts_with(is_part))
}
