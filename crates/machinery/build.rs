//! Turns `schema/types.tsv` into static tables, so that a running program parses nothing and allocates nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

#[allow(dead_code)]
#[path = "src/short_text.rs"]
mod short_text;

struct Field {
    name: String,
    shape: String,
    number: String,
    go_type: String,
    flags: String,
}

fn main() {
    println!("cargo::rerun-if-changed=schema/types.tsv");
    println!("cargo::rerun-if-changed=src/short_text.rs");
    let text = fs::read_to_string("schema/types.tsv").expect("the table is part of the crate");
    let mut types: BTreeMap<String, (bool, Vec<Field>)> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let mut cells = line.split('\t').map(str::to_owned).chain(std::iter::repeat(String::new()));
        let mut cell = || cells.next().unwrap_or_default();
        let first = cell();
        if first == "type" && line.split('\t').nth(1).is_some_and(|name| name.starts_with("io.k8s.")) {
            current = cell();
            types.insert(current.clone(), (cell() == "atomic", Vec::new()));
            continue;
        }
        let field = Field { name: first, shape: cell(), number: cell(), go_type: cell(), flags: cell() };
        types.get_mut(&current).expect("a type line comes first").1.push(field);
    }
    let index: BTreeMap<&str, usize> = types.keys().enumerate().map(|(index, name)| (name.as_str(), index)).collect();

    let mut out = String::new();
    writeln!(out, "pub(super) static TYPES: [Type; {}] = [", types.len()).expect("a String takes all");
    for (name, (atomic, fields)) in &types {
        let type_meta = fields.iter().any(|field| field.name == "-typemeta");
        writeln!(out, "Type {{ name: {name:?}, type_meta: {type_meta}, atomic: {atomic}, fields: &[").expect("fits");
        for field in fields.iter().filter(|field| field.name != "-typemeta") {
            write_field(&mut out, field, &index);
        }
        writeln!(out, "], json: &[").expect("fits");
        let mut flat = Vec::new();
        flatten(name, &types, &mut flat);
        for (_, owner, field) in &flat {
            writeln!(out, "(TypeRef({}), {field}),", index[owner.as_str()]).expect("fits");
        }
        let names: Vec<&str> = flat.iter().map(|(json, _, _)| json.as_str()).collect();
        let (places, seed) = places(&names);
        writeln!(out, "], places: &{places:?}, seed: {seed}, written_unset: OnceLock::new() }},").expect("fits");
    }
    writeln!(out, "];").expect("fits");
    let path = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("types.rs");
    fs::write(path, out).expect("the output directory takes files");
}

/// The fields as they stand in JSON, each with the struct that declares it and its index there.
fn flatten(name: &str, types: &BTreeMap<String, (bool, Vec<Field>)>, out: &mut Vec<(String, String, u16)>) {
    let fields = &types[name].1;
    for (index, field) in fields.iter().filter(|field| field.name != "-typemeta").enumerate() {
        if field.name == "-inline" {
            flatten(field.shape.trim_start_matches('@'), types, out);
        } else {
            out.push((field.name.clone(), name.to_owned(), index as u16));
        }
    }
}

/// A place for each name by its hash, and the seed with which no two have the same. Places without a name are empty.
fn places<'a>(names: &[&'a str]) -> (Vec<(&'a str, u16)>, u64) {
    let mut size = (2 * names.len()).next_power_of_two();
    loop {
        for seed in 0..1000 {
            let mut places = vec![("", 0); size];
            let free = names.iter().enumerate().all(|(position, name)| {
                let place = &mut places[short_text::hash(name, seed) as usize & (size - 1)];
                let free = place.0.is_empty();
                *place = (name, position as u16);
                free
            });
            if free {
                return (places, seed);
            }
        }
        size *= 2;
        assert!(size < 1 << 16, "two names look alike to the hash: {names:?}");
    }
}

fn write_field(out: &mut String, field: &Field, index: &BTreeMap<&str, usize>) {
    let flags: BTreeMap<&str, &str> = field
        .flags
        .split(' ')
        .filter(|flag| !flag.is_empty())
        .map(|flag| flag.split_once('=').unwrap_or((flag, "")))
        .collect();
    let inline = field.name == "-inline";
    let name = if inline { "" } else { &field.name };
    let (list, keys) = match flags.get("l").map(|list| list.split_once(':').unwrap_or((list, ""))) {
        Some(("map", keys)) => ("ListType::Map", keys.split(',').collect::<Vec<_>>()),
        Some(("set", _)) => ("ListType::Set", vec![]),
        _ => ("ListType::Atomic", vec![]),
    };
    let list_given = flags.contains_key("l");
    let strategy = flags.get("s").copied().unwrap_or_default();
    writeln!(
        out,
        "Field {{ name: {name:?}, key: key({name:?}), owned: {:?}, inline: {inline}, shape: {}, number: {}, go_type: {:?}, pointer: {}, required: {}, \
         omit_empty: {}, omit_zero: {}, list: {list}, list_given: {list_given}, list_keys: &{keys:?}, map_atomic: {}, patch_merge: {}, \
         patch_retain_keys: {}, patch_replace: {}, merge_key: {:?}, default: {} }},",
        format!("\"f:{name}\":{{}}"),
        shape(&field.shape, index),
        if field.number.is_empty() { "0" } else { &field.number },
        field.go_type.trim_start_matches('*'),
        field.go_type.starts_with('*'),
        flags.contains_key("r"),
        flags.contains_key("o"),
        flags.contains_key("z"),
        flags.get("m") == Some(&"atomic"),
        strategy.split(',').any(|part| part == "merge"),
        strategy.split(',').any(|part| part == "retainKeys"),
        strategy.split(',').any(|part| part == "replace"),
        flags.get("k").copied().unwrap_or_default(),
        flags.get("d").map_or("None".to_owned(), |default| format!("Some({default:?})")),
    )
    .expect("fits");
}

fn shape(text: &str, index: &BTreeMap<&str, usize>) -> String {
    if let Some(item) = text.strip_prefix("[]") {
        return format!("Shape::List(&{})", shape(item, index));
    }
    if let Some(item) = text.strip_prefix("{}") {
        return format!("Shape::Map(&{})", shape(item, index));
    }
    if let Some(name) = text.strip_prefix('@') {
        let position = index.get(name).unwrap_or_else(|| panic!("no type {name}"));
        return format!("Shape::Struct(TypeRef({position}))");
    }
    let name = match text {
        "string" => "String",
        "bool" => "Bool",
        "int32" => "Int32",
        "int64" => "Int64",
        "double" => "Double",
        "bytes" => "Bytes",
        "time" => "Time",
        "microtime" => "MicroTime",
        "duration" => "Duration",
        "quantity" => "Quantity",
        "intorstring" => "IntOrString",
        "fields" => "FieldsV1",
        "raw" => "RawExtension",
        "json" => "Json",
        "schema-or-bool" => "SchemaOrBool",
        "schema-or-array" => "SchemaOrArray",
        "schema-or-strings" => "SchemaOrStrings",
        "wrapped" => "WrappedStrings",
        other => panic!("no shape {other}"),
    };
    format!("Shape::{name}")
}
