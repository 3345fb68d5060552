//! The tables that `kubectl get -o wide` prints of the examples, as golden files: a file for each file of examples.

use rkube_kinds::Kind;
use rkube_kinds::kind::ColumnView;
use rkube_machinery::{Value, json};

use crate::examples::{self, Example};
use crate::{golden, road};

/// How long after the examples were made the tables are looked at.
const AGE_SECONDS: i64 = 3600;

#[test]
fn tables_are_as_committed() {
    let mut files: Vec<&str> = examples::written().iter().map(|example| example.file.as_str()).collect();
    files.dedup();
    let problems: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let examples: Vec<&Example> = examples::written().iter().filter(|example| example.file == *file).collect();
            let text = tables(&examples);
            if text.is_empty() { None } else { golden::check(&format!("tables/{file}.txt"), &text).err() }
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// One table for each kind, in the order of the file.
fn tables(examples: &[&Example]) -> String {
    let mut kinds: Vec<&'static Kind> = Vec::new();
    for example in examples.iter().filter(|example| example.kind.allows("list")) {
        if !kinds.iter().any(|kind| std::ptr::eq(*kind, example.kind)) {
            kinds.push(example.kind);
        }
    }
    let table = |kind: &&'static Kind| {
        let rows = examples.iter().filter(|example| std::ptr::eq(example.kind, *kind));
        let columns: Vec<String> = named(kind).map(|column| column.name.to_uppercase()).collect();
        let rows = std::iter::once(columns).chain(rows.map(|example| cells(example)));
        format!("# {} {}\n{}", kind.api_version(), kind.kind, aligned(&rows.collect::<Vec<_>>()))
    };
    kinds.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// The cells of the example as it is made, with the status that it has since.
fn cells(example: &Example) -> Vec<String> {
    let kind = example.kind;
    let written = example.decoded();
    let created = road::create(kind, written.clone());
    let mut object = created.unwrap_or_else(|errors| panic!("{}: {}", example.name(), errors.summary()));
    if written.get("status").as_map().iter().any(|(_, field)| !field.is_empty()) {
        object.set("status", road::stored(kind, written.clone()).get("status").clone());
    }
    if written.get("metadata").has("deletionTimestamp") {
        let deleted = written.get("metadata").get("deletionTimestamp").clone();
        object.object_mut("metadata").set("deletionTimestamp", deleted);
    }
    named(kind).map(|column| shown(column.cell(&object, road::NOW + AGE_SECONDS))).collect()
}

/// kubectl shows no cell that has no column.
fn named(kind: &'static Kind) -> impl Iterator<Item = ColumnView<'static>> {
    kind.columns.iter().filter(|column| !column.name.is_empty())
}

fn shown(cell: Value) -> String {
    match cell {
        Value::String(text) => text.to_string(),
        Value::Null => "<none>".to_owned(),
        other => json::to_string(&other),
    }
}

/// Columns three blanks apart, as kubectl prints them.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let blanks = width(column).unwrap_or_default() - cell.chars().count() + 3;
            line.push_str(cell);
            line.push_str(&" ".repeat(blanks));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
