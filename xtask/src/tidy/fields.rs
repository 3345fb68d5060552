//! The field names in the rules of the kinds are real ones: a typo in a string would only be a field that is never there.
//!
//! Every literal that a rule hands to an accessor of values must be a field of some type in the schema table. A key of
//! a map, which is no field, says so on its line: `// tidy: key`.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Source, Sources};

const TABLE: &str = "crates/machinery/schema/types.tsv";
const RULES: &str = "crates/kinds/src/";
const MARKER: &str = "// tidy: key";

const ACCESSORS: &[&str] = &[
    "array_mut",
    "bool",
    "find_mut",
    "get",
    "get_mut",
    "has",
    "int",
    "list",
    "list_mut",
    "map",
    "object_mut",
    "remove",
    "set",
    "set_default",
    "set_if_absent",
    "str",
];

pub(super) fn check(root: &Path, sources: &Sources) -> Result<Vec<String>> {
    let table = std::fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    let names = field_names(&table);
    let rules = sources.0.iter().filter(|source| source.path.starts_with(RULES) && !source.is_test());
    Ok(rules.flat_map(|source| findings(source, &names)).collect())
}

fn field_names(table: &str) -> HashSet<&str> {
    let fields = table.lines().filter(|line| !line.starts_with('#') && !line.starts_with('-'));
    let names = fields.filter_map(|line| line.split_once('\t')).map(|(name, _)| name).filter(|name| *name != "type");
    // What stands in every object, or has a field of the name of the table's own keyword.
    names.chain(["apiVersion", "kind", "metadata", "type"]).collect()
}

fn findings(source: &Source, names: &HashSet<&str>) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        if line.trim() == "#[cfg(test)]" {
            break; // Tests stand at the end, and may ask for what is not there.
        }
        if line.trim_start().starts_with("//") || line.contains(MARKER) {
            continue;
        }
        let unknown = literals(line).filter(|literal| could_be_field(literal) && !names.contains(literal));
        found.extend(unknown.map(|name| {
            format!("{}:{}: no type has a field {name:?}; a map's key says `{MARKER}`", source.path, index + 1)
        }));
    }
    found
}

/// With a dot, a slash or a dash in it, it can only be a key.
fn could_be_field(literal: &str) -> bool {
    literal.chars().all(|character| character.is_ascii_alphanumeric())
}

/// The literals in `.accessor("literal"`.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("(\"").filter_map(move |(open, _)| {
        let before = &line[..open];
        let accessor = before.rsplit_once('.')?.1;
        let literal = line[open + 2..].split_once('"')?.0;
        ACCESSORS.contains(&accessor).then_some(literal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# a comment\ntype\tio.k8s.api.core.v1.Pod\n-typemeta\nspec\t@x\t2\tv1.PodSpec\n";

    fn count(text: &str) -> usize {
        let source = Source { path: "crates/kinds/src/x.rs".to_owned(), text: text.to_owned() };
        findings(&source, &field_names(TABLE)).len()
    }

    #[test]
    fn names_come_from_the_table() {
        let names = field_names(TABLE);
        assert!(names.contains("spec") && names.contains("type") && !names.contains("io.k8s.api.core.v1.Pod"));
    }

    #[test]
    fn typos_are_found() {
        let table = [
            (r#"value.get("spec")"#, 0),
            (r#"value.get("spce")"#, 1),
            (r#"value.get("spec").get("spce").str("x")"#, 2),
            (r#"labels.get("app") // tidy: key"#, 0),
            (r#"labels.get("example.com/app")"#, 0),
            (r#"// value.get("spce")"#, 0),
            (r#"other("spce"); value.starts_with("spce")"#, 0),
            (r#"value.set("spce", 1)"#, 1),
            ("#[cfg(test)]\nvalue.get(\"spce\")", 0),
        ];
        for (text, expected) in table {
            assert_eq!(count(text), expected, "{text}");
        }
    }
}
