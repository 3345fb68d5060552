//! Reads `coverage/controllers.tsv`, the table that says where each controller of Kubernetes is, and compares it with what
//! is there.

use std::collections::BTreeMap;
use std::path::Path;

use crate::selection::KNOWN;

const TABLE: &str = include_str!("../coverage/controllers.tsv");
const START: &str = include_str!("lib.rs");
const NOT_YET: &str = "not yet: ";
const NOT_NEEDED: &str = "not needed: ";

#[test]
fn every_controller_of_kubernetes_is_somewhere_or_has_a_reason() {
    let mut rows: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().unwrap_or_default();
        rows.entry(cell()).or_default().push((cell(), cell()));
    }
    let mut problems: Vec<String> = Vec::new();
    for (name, _) in KNOWN {
        match rows.remove(name).unwrap_or_default().as_slice() {
            [(folder, reason)] => problems.extend(problem(name, folder, reason)),
            [] => problems.push(format!("{name}: add a line: {name}<TAB>FOLDER, or {name}<TAB>-<TAB>{NOT_NEEDED}WHY")),
            _ => problems.push(format!("{name}: has several lines, keep one")),
        }
    }
    problems.extend(rows.keys().map(|name| format!("{name:?}: Kubernetes has no such controller, remove the line")));
    assert!(problems.is_empty(), "in crates/controllers/coverage/controllers.tsv:\n{}", problems.join("\n"));
}

fn problem(name: &str, folder: &str, reason: &str) -> Option<String> {
    let started_in = started_in(name);
    if folder == "-" {
        return match started_in {
            Some(folder) => Some(format!("{name}: it runs, write: {name}<TAB>{folder}")),
            None if reason.starts_with(NOT_YET) || reason.starts_with(NOT_NEEDED) => None,
            None => {
                Some(format!("{name}: say why there is none: {name}<TAB>-<TAB>{NOT_NEEDED}WHY (or {NOT_YET}FOLDER)"))
            }
        };
    }
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder).is_dir() {
        return Some(format!("{name}: there is no folder src/{folder}; name its folder, or write - and why"));
    }
    match started_in {
        Some(found) if found == folder => None,
        Some(found) => Some(format!("{name}: it runs from src/{found}, write: {name}<TAB>{found}")),
        None => Some(format!("{name}: add it to `start` in src/lib.rs, or write - and why")),
    }
}

/// The folder that `start` runs a controller from: of the path that follows its name there.
fn started_in(name: &str) -> Option<&'static str> {
    let (_, rest) = START.split_once("pub fn start(")?;
    let (_, rest) = rest.split_once(&format!("\"{name}\""))?;
    let (call, _) = rest.split_once("starter.").unwrap_or((rest, ""));
    let is_word = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let mut paths = call.split("::").map(|before| {
        let start = before.rfind(|letter| !is_word(letter)).map_or(0, |place| place + 1);
        &before[start..]
    });
    paths.find(|word| !word.is_empty() && START.contains(&format!("\nmod {word};")))
}
