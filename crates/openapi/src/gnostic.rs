//! Swagger 2.0 as the protobuf message that gnostic defines, which is how Go clients ask for it. Takes the document
//! as JSON, so that documents with custom resources in them go the same way.

use rkube_machinery::protobuf::wire::{write_nested, write_number_field, write_string_field};
use rkube_machinery::{Map, Value, json};

/// The media types by which clients ask for the document in protobuf: the old one, which is not well formed but which
/// they all send, and the one after it.
pub const V2_PROTOBUF_ACCEPTED: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// The media type of the answer. Go clients cannot parse the old one.
pub const V2_PROTOBUF_CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The entries of the document's map of paths.
pub(crate) fn write_paths(paths: &Map, out: &mut Vec<u8>) {
    named(2, paths, path_item, out);
}

/// The entries of the document's map of definitions.
pub(crate) fn write_definitions(definitions: &Map, out: &mut Vec<u8>) {
    named(1, definitions, schema, out);
}

/// What stands before so many bytes of paths, then before so many of definitions, then behind them. `document` has
/// everything else.
pub(crate) fn frame(document: &Value, paths_length: usize, definitions_length: usize) -> [Vec<u8>; 3] {
    let mut before_paths = Vec::new();
    text(1, document.get("swagger"), &mut before_paths);
    write_nested(2, &mut before_paths, |out| {
        let info = document.get("info");
        text(1, info.get("title"), out);
        text(2, info.get("version"), out);
        text(3, info.get("description"), out);
        extensions(7, info, out);
    });
    open_nested(8, paths_length, &mut before_paths);
    let mut before_definitions = Vec::new();
    open_nested(9, definitions_length, &mut before_definitions);
    let mut rest = Vec::new();
    if document.has("parameters") {
        write_nested(10, &mut rest, |out| named(1, document.map("parameters"), parameter, out));
    }
    for requirement in document.list("security") {
        write_nested(12, &mut rest, |out| named(1, requirement.as_map(), |value, out| texts(1, value, out), out));
    }
    if document.has("securityDefinitions") {
        write_nested(13, &mut rest, |out| named(1, document.map("securityDefinitions"), security_definition, out));
    }
    extensions(16, document, &mut rest);
    [before_paths, before_definitions, rest]
}

/// The tag and length of a message that follows. Numbers are below 16.
fn open_nested(number: u8, length: usize, out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    let mut rest = length;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Pairs of a name and a message.
fn named(number: u32, map: &Map, message: impl Fn(&Value, &mut Vec<u8>), out: &mut Vec<u8>) {
    for (name, value) in map.iter().filter(|(name, _)| !name.starts_with("x-")) {
        write_nested(number, out, |out| {
            write_string_field(1, name, out);
            write_nested(2, out, |out| message(value, out));
        });
    }
}

/// Vendor extensions: a name and YAML text. JSON is YAML.
fn extensions(number: u32, value: &Value, out: &mut Vec<u8>) {
    for (name, value) in value.as_map().iter().filter(|(name, _)| name.starts_with("x-")) {
        write_nested(number, out, |out| {
            write_string_field(1, name, out);
            any(2, value, out);
        });
    }
}

fn text(number: u32, value: &Value, out: &mut Vec<u8>) {
    if !value.as_str().is_empty() {
        write_string_field(number, value.as_str(), out);
    }
}

fn texts(number: u32, value: &Value, out: &mut Vec<u8>) {
    value.items().iter().for_each(|item| write_string_field(number, item.as_str(), out));
}

fn flag(number: u32, value: &Value, out: &mut Vec<u8>) {
    if *value == Value::Bool(true) {
        write_number_field(number, 1, out);
    }
}

fn number(number: u32, value: &Value, out: &mut Vec<u8>) {
    if let Some(value) = value.as_int().filter(|value| *value != 0) {
        write_number_field(number, value, out);
    }
}

/// A number of any kind. Field numbers are below 16.
fn float(number: u8, value: &Value, out: &mut Vec<u8>) {
    let value = match value {
        Value::Int(value) => *value as f64,
        Value::Float(value) => *value,
        _ => return,
    };
    if value != 0.0 {
        out.push(number << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// A value of any kind, as YAML.
fn any(number: u32, value: &Value, out: &mut Vec<u8>) {
    write_nested(number, out, |out| write_string_field(2, &(json::to_string(value) + "\n"), out));
}

fn given(number: u32, value: &Value, out: &mut Vec<u8>) {
    if !value.is_null() {
        any(number, value, out);
    }
}

fn path_item(item: &Value, out: &mut Vec<u8>) {
    const METHODS: [(u32, &str); 7] =
        [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (6, "options"), (7, "head"), (8, "patch")];
    for (number, method) in METHODS {
        if item.has(method) {
            write_nested(number, out, |out| operation(item.get(method), out));
        }
    }
    parameters(9, item, out);
    extensions(10, item, out);
}

fn operation(operation: &Value, out: &mut Vec<u8>) {
    texts(1, operation.get("tags"), out);
    text(2, operation.get("summary"), out);
    text(3, operation.get("description"), out);
    text(5, operation.get("operationId"), out);
    texts(6, operation.get("produces"), out);
    texts(7, operation.get("consumes"), out);
    parameters(8, operation, out);
    write_nested(9, out, |out| named(1, operation.map("responses"), response, out));
    texts(10, operation.get("schemes"), out);
    flag(11, operation.get("deprecated"), out);
    extensions(13, operation, out);
}

fn parameters(number: u32, owner: &Value, out: &mut Vec<u8>) {
    for item in owner.list("parameters") {
        write_nested(number, out, |out| {
            if item.has("$ref") {
                write_nested(2, out, |out| text(1, item.get("$ref"), out));
            } else {
                write_nested(1, out, |out| parameter(item, out));
            }
        });
    }
}

fn parameter(parameter: &Value, out: &mut Vec<u8>) {
    match parameter.str("in") {
        "body" => write_nested(1, out, |out| {
            text(1, parameter.get("description"), out);
            text(2, parameter.get("name"), out);
            text(3, parameter.get("in"), out);
            flag(4, parameter.get("required"), out);
            write_nested(5, out, |out| schema(parameter.get("schema"), out));
            extensions(6, parameter, out);
        }),
        place => write_nested(2, out, |out| match place {
            "path" => write_nested(4, out, |out| plain_parameter(parameter, false, out)),
            "header" => write_nested(1, out, |out| plain_parameter(parameter, false, out)),
            _ => write_nested(3, out, |out| plain_parameter(parameter, true, out)),
        }),
    }
}

/// Query parameters have one field more than those in paths and headers, in the middle.
fn plain_parameter(parameter: &Value, query: bool, out: &mut Vec<u8>) {
    let shift = u32::from(query);
    flag(1, parameter.get("required"), out);
    text(2, parameter.get("in"), out);
    text(3, parameter.get("description"), out);
    text(4, parameter.get("name"), out);
    text(5 + shift, parameter.get("type"), out);
    text(6 + shift, parameter.get("format"), out);
    flag(19 + shift, parameter.get("uniqueItems"), out);
    extensions(22 + shift, parameter, out);
}

fn response(response: &Value, out: &mut Vec<u8>) {
    write_nested(1, out, |out| {
        text(1, response.get("description"), out);
        if response.has("schema") {
            write_nested(2, out, |out| write_nested(1, out, |out| schema(response.get("schema"), out)));
        }
        extensions(5, response, out);
    });
}

fn schema(value: &Value, out: &mut Vec<u8>) {
    text(1, value.get("$ref"), out);
    text(2, value.get("format"), out);
    text(3, value.get("title"), out);
    text(4, value.get("description"), out);
    given(5, value.get("default"), out);
    float(6, value.get("multipleOf"), out);
    float(7, value.get("maximum"), out);
    flag(8, value.get("exclusiveMaximum"), out);
    float(9, value.get("minimum"), out);
    flag(10, value.get("exclusiveMinimum"), out);
    number(11, value.get("maxLength"), out);
    number(12, value.get("minLength"), out);
    text(13, value.get("pattern"), out);
    number(14, value.get("maxItems"), out);
    number(15, value.get("minItems"), out);
    flag(16, value.get("uniqueItems"), out);
    number(17, value.get("maxProperties"), out);
    number(18, value.get("minProperties"), out);
    texts(19, value.get("required"), out);
    value.list("enum").iter().for_each(|item| any(20, item, out));
    match value.get("additionalProperties") {
        Value::Bool(allowed) => write_nested(21, out, |out| write_number_field(2, i64::from(*allowed), out)),
        Value::Null => {}
        inner => write_nested(21, out, |out| write_nested(1, out, |out| schema(inner, out))),
    }
    if value.has("type") {
        write_nested(22, out, |out| match value.get("type") {
            Value::String(kind) => write_string_field(1, kind, out),
            kinds => texts(1, kinds, out),
        });
    }
    if value.has("items") {
        write_nested(23, out, |out| write_nested(1, out, |out| schema(value.get("items"), out)));
    }
    value.list("allOf").iter().for_each(|item| write_nested(24, out, |out| schema(item, out)));
    if value.has("properties") {
        write_nested(25, out, |out| properties(value.map("properties"), out));
    }
    if value.has("externalDocs") {
        write_nested(29, out, |out| {
            text(1, value.get("externalDocs").get("description"), out);
            text(2, value.get("externalDocs").get("url"), out);
        });
    }
    given(30, value.get("example"), out);
    extensions(31, value, out);
}

/// Unlike elsewhere, a property whose name begins with `x-` is a property.
fn properties(map: &Map, out: &mut Vec<u8>) {
    for (name, value) in map.iter() {
        write_nested(1, out, |out| {
            write_string_field(1, name, out);
            write_nested(2, out, |out| schema(value, out));
        });
    }
}

fn security_definition(definition: &Value, out: &mut Vec<u8>) {
    match definition.str("type") {
        "basic" => write_nested(1, out, |out| {
            text(1, definition.get("type"), out);
            text(2, definition.get("description"), out);
        }),
        _ => write_nested(2, out, |out| {
            text(1, definition.get("type"), out);
            text(2, definition.get("name"), out);
            text(3, definition.get("in"), out);
            text(4, definition.get("description"), out);
        }),
    }
}
