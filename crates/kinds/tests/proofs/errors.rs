//! What clients are told about broken objects, as golden files: a file for each file of examples.
//!
//! A question is a line: `create` or `update`, a place in the example (a JSON pointer), and what becomes of it. The
//! answer stands indented below. New questions are written into the files; `UPDATE_GOLDEN=1` fills in the answers.

use rkube_kinds::Kind;
use rkube_kinds::kind::Part;
use rkube_machinery::field::Errors;
use rkube_machinery::{Status, Value, json};

use crate::examples::{self, Example};
use crate::{golden, road};

#[test]
fn errors_are_as_committed() {
    let mut files: Vec<_> =
        std::fs::read_dir(golden::path("errors")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut problems = Vec::new();
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = answered(&std::fs::read_to_string(&path).unwrap());
        problems.extend(golden::check(&format!("errors/{name}"), &text).err());
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The file with our answers to its questions.
fn answered(text: &str) -> String {
    let mut example: Option<&Example> = None;
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.starts_with("  ")) {
        out.push_str(line);
        out.push('\n');
        if let Some(title) = line.strip_prefix("# ") {
            example = Some(find(title));
        } else if !line.is_empty() {
            let example = example.unwrap_or_else(|| panic!("a question before any example: {line}"));
            out.push_str(&format!("  {}\n", answer(example, line)));
        }
    }
    out
}

/// The example that a title names: `v1 Pod web`.
fn find(title: &str) -> &'static Example {
    let mut found = examples::written().iter().filter(|example| {
        format!("{} {} {}", example.kind.api_version(), example.kind.kind, example.name()).trim_end() == title
    });
    found.next().unwrap_or_else(|| panic!("no example is {title}"))
}

fn answer(example: &Example, question: &str) -> String {
    let (verb, change) = question.split_once(' ').unwrap_or_else(|| panic!("{question}: not a question"));
    let kind = example.kind;
    let value = match road::decoded(kind, changed(&example.document, change)) {
        Ok(value) => value,
        Err(error) => return error,
    };
    let name = value.get("metadata").str("name").to_owned();
    let errors = match verb {
        "create" => road::create(kind, value).err(),
        "update" => update(example, value),
        _ => panic!("{question}: neither create nor update"),
    };
    errors.map_or_else(|| "accepted".to_owned(), |errors| Status::invalid(&kind.group_kind(), &name, &errors).message)
}

fn update(example: &Example, mut value: Value) -> Option<Errors> {
    let kind: &Kind = example.kind;
    let old = road::create(kind, example.decoded());
    let mut old = old.unwrap_or_else(|errors| panic!("{}: {}", example.name(), errors.summary()));
    old.object_mut("metadata").set("resourceVersion", "1");
    let metadata = value.object_mut("metadata");
    for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
        if old.get("metadata").has(field) {
            metadata.set(field, old.get("metadata").get(field).clone());
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(field);
    }
    kind.rules.default(&mut value);
    road::update(kind, Part::Main, road::stored(kind, value), &old).err()
}

/// The document after `/a/0/b = JSON` or `/a/0/b removed`.
fn changed(document: &Value, change: &str) -> Value {
    let (pointer, new) = match change.split_once(" = ") {
        Some((pointer, text)) => {
            (pointer, Some(json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{change}: {error}"))))
        }
        None => (change.strip_suffix(" removed").unwrap_or_else(|| panic!("{change}: neither = nor removed")), None),
    };
    let steps: Vec<String> =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let mut document = document.clone();
    place(&mut document, &steps, new);
    document
}

fn place(value: &mut Value, steps: &[String], new: Option<Value>) {
    let [first, rest @ ..] = steps else { panic!("an empty place") };
    match value {
        Value::Array(items) => {
            let index: usize = first.parse().unwrap_or_else(|_| panic!("{first} is no index"));
            match (rest, new) {
                ([], Some(new)) => items[index] = new,
                ([], None) => drop(items.remove(index)),
                (rest, new) => place(&mut items[index], rest, new),
            }
        }
        value => match (rest, new) {
            ([], Some(new)) => value.set(first, new),
            ([], None) => drop(value.remove(first)),
            (rest, new) => place(value.get_mut(first), rest, new),
        },
    }
}
