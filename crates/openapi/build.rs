//! Writes down what `k8s-openapi` says of types and fields, deflated: the words are a tenth of the code that makes
//! schemas of them.

#[path = "build/roots.rs"]
mod roots;

use std::io::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use k8s_openapi::schemars::generate::SchemaSettings;
use k8s_openapi::serde_json;

/// Between types, and between what is said of one: its name, its text, then each field and its text.
const TYPE_END: char = '\u{1e}';
const PART_END: char = '\u{1f}';

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/roots.rs");
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    roots::ROOTS.iter().for_each(|add| add(&mut generator));
    let mut table = String::new();
    for (name, schema) in generator.take_definitions(false) {
        let mut parts = vec![name.as_str(), text(schema.get("description"))];
        let properties = schema.get("properties").and_then(|value| value.as_object());
        for (field, property) in properties.into_iter().flatten() {
            parts.extend([field.as_str(), text(property.get("description"))]);
        }
        assert!(parts.iter().all(|part| !part.contains([TYPE_END, PART_END])), "{name} has what separates texts");
        table.push_str(&parts.join(&PART_END.to_string()));
        table.push(TYPE_END);
    }
    let mut deflating = DeflateEncoder::new(Vec::new(), Compression::best());
    deflating.write_all(table.as_bytes()).expect("memory takes all");
    let path = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("descriptions.deflate");
    fs::write(path, deflating.finish().expect("memory takes all")).expect("the output directory takes files");
}

/// Empty, if there is none.
fn text(description: Option<&serde_json::Value>) -> &str {
    description.and_then(|text| text.as_str()).unwrap_or_default()
}
