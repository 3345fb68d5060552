//! Formats that nobody checks: they are warned of.

use rkube_machinery::Value;
use rkube_machinery::field::quote;

use super::internal::Internal;
use super::search;

/// The formats of strings that are known, without their dashes.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// A warning for each format that is not known and was not there before.
pub fn warnings(spec: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(unrecognized).unwrap_or_default();
    let new = unrecognized(spec).into_iter().filter(|format| !known.contains(format));
    new.map(|format| format!("unrecognized format {}", quote(format))).collect()
}

/// Each once.
fn unrecognized(spec: &Value) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for schema in Internal::of(spec).schemas() {
        search::each(schema, &mut |schema| {
            let format = schema.str("format");
            if !format.is_empty() && !is_recognized(schema.str("type"), format) && !found.contains(&format) {
                found.push(format);
            }
        });
    }
    found
}

fn is_recognized(json_type: &str, format: &str) -> bool {
    match json_type {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}
