//! The field names in code that works on objects are real ones: a typo in a string would only be a field that is never
//! there, and so would the field of another type.
//!
//! Every literal that is handed to an accessor of values must be a field of a type that the code can have there. Where the
//! value comes from is followed through paths, variables and loops ([`scan`]) as far as that is plain to see; where it is
//! not, the field must be one of some type in reach: of the kinds that stand in the folder, or of those that the file
//! names on a line `// tidy: types Pod Namespace`. A key of a map, which is no field, says so on its line: `// tidy: key`.

mod scan;
mod table;
mod tokens;

use std::path::Path;

use anyhow::{Context, Result};

use super::{Source, Sources};
use scan::Scan;
use table::{Table, Types};

const TABLE: &str = "crates/machinery/schema/types.tsv";
/// The kinds stand here, each in a folder.
const KINDS: &str = "crates/kinds/src/";
/// Code that works on objects.
const ROOTS: &[&str] = &[
    KINDS,
    "crates/admission/src/",
    "crates/apiserver/src/allocation/",
    "crates/apiserver/src/default_range.rs",
    "crates/apiserver/src/repair/",
    "crates/extensions/src/",
];
/// Not of a kind: what customers define is in no table, and definitions are in another folder.
const CUSTOM: (&str, &str) = ("crates/kinds/src/custom/", "crates/kinds/src/apiextensions/");
const KEY: &str = "// tidy: key";
const TYPES: &str = "// tidy: types ";

pub(super) fn check(root: &Path, sources: &Sources) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    let table = Table::parse(&text);
    let checked =
        sources.0.iter().filter(|source| ROOTS.iter().any(|root| source.path.starts_with(root)) && !source.is_test());
    Ok(checked.flat_map(|source| findings(source, sources, &table)).collect())
}

fn findings(source: &Source, sources: &Sources, table: &Table) -> Vec<String> {
    let own = match own_types(source, sources, table) {
        Ok(own) => own,
        Err(finding) => return vec![finding],
    };
    let named: Vec<&str> = declared(source).collect();
    let mut reach = own.clone();
    for name in named {
        let types = table.named(name);
        if types.is_empty() {
            return vec![format!("{}: {TYPES:?} names {name:?}, which is no type", source.path)];
        }
        reach.extend(types);
    }
    let reach = if reach.is_empty() { table.all() } else { table.reach(&reach) };
    let text = without_tests(&source.text);
    let faults = Scan::new(text, table, own, reach).run();
    let is_key = |line: usize| text.lines().nth(line - 1).is_some_and(|line| line.contains(KEY));
    let faults = faults.into_iter().filter(|fault| !is_key(fault.line));
    faults.map(|fault| format!("{}:{}: {}; a map's key says `{KEY}`", source.path, fault.line, fault.what)).collect()
}

/// The types of the kinds that the file is about: those that the sources of its folder name, or of the folder above.
fn own_types<'t>(source: &Source, sources: &Sources, table: &Table<'t>) -> Result<Types<'t>, String> {
    let path = source.path.replacen(CUSTOM.0, CUSTOM.1, 1);
    if !path.starts_with(KINDS) {
        return Ok(Types::new());
    }
    let mut folder = path.as_str();
    while let Some((above, _)) = folder.trim_end_matches('/').rsplit_once('/') {
        folder = &path[..=above.len()];
        let within = sources.0.iter().filter(|source| source.path.starts_with(folder) && !source.is_test());
        let types: Types<'t> = within.flat_map(|source| table.mentioned(without_tests(&source.text))).collect();
        if !types.is_empty() {
            return Ok(types);
        }
    }
    Err(format!("{}: no kind stands in its folder or above", source.path))
}

fn declared(source: &Source) -> impl Iterator<Item = &str> {
    source.text.lines().filter_map(|line| line.strip_prefix(TYPES)).flat_map(str::split_whitespace)
}

/// Tests stand at the end, and may ask for what is not there.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]").next().unwrap_or(text)
}

#[cfg(test)]
mod tests;
