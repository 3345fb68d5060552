//! Swagger 2.0: one document for everything.

use std::collections::BTreeSet;

use rkube_kinds::Kind;
use rkube_machinery::{Map, Value, object};

use crate::definitions::{Dialect, PATCH, definitions, kind_extension, reachable, texts, typed};
use crate::descriptions::Descriptions;
use crate::names::root_of;
use crate::operations::{Body, Content, META, Operation, Path, Produces, paths_of};
use crate::parameters;
use crate::part::{Form, Part};
use crate::v3::{response_text, root_path, types_of, v3_paths};

/// The built-in part of the answer to `/openapi/v2`. `shared`: types that others in the document refer to.
pub fn v2_part(kinds: &[&Kind], form: Form, shared: &[&str]) -> Part {
    let mut paths = Vec::new();
    for (root, _) in v3_paths(kinds) {
        let of_path: Vec<&Kind> = kinds.iter().copied().filter(|kind| root_of(kind) == root).collect();
        if of_path.is_empty() { paths.extend(root_path(kinds, &root)) } else { paths.extend(paths_of(&of_path)) }
    }
    let names = reachable(types_of(&paths).into_iter().chain(shared.iter().map(|name| (*name).to_owned())));
    let descriptions = Descriptions::read();
    let group_versions: BTreeSet<(String, String)> =
        kinds.iter().map(|kind| (kind.group.to_string(), kind.version.to_string())).collect();
    let definitions = definitions(&names, Dialect::V2, &descriptions, &group_versions);
    Part::new(form, &path_items(&paths), &definitions)
}

pub(crate) fn path_items(paths: &[Path]) -> Map {
    Map::sorted(paths.iter().map(|path| (path.path.as_str().into(), path_item(path))).collect())
}

fn path_item(path: &Path) -> Value {
    let mut out = Map::new();
    if !path.parameters.is_empty() {
        out.insert("parameters", Value::Array(path.parameters.iter().map(parameters::in_v2).collect()));
    }
    for item in &path.operations {
        out.insert(item.method, operation(item, &path.tag));
    }
    Value::Object(out)
}

fn operation(operation: &Operation, tag: &str) -> Value {
    let mut out = Map::new();
    out.insert("consumes", texts(consumes(operation)));
    out.insert("description", operation.description.as_str());
    out.insert("operationId", operation.id.as_str());
    let mut parameters: Vec<Value> = operation.body.iter().map(body_parameter).collect();
    parameters.extend(operation.parameters.iter().map(parameters::in_v2));
    if !parameters.is_empty() {
        out.insert("parameters", parameters);
    }
    out.insert("produces", texts(produces(operation.produces)));
    let mut responses = Map::new();
    for (code, content) in &operation.responses {
        let schema = match content {
            Content::Type(name) => Dialect::V2.reference(name),
            Content::Text => Value::Object(typed("string", "")),
        };
        responses.insert(code.to_string(), object! { "description": response_text(*code), "schema": schema });
    }
    responses.insert("401", object! { "description": "Unauthorized" });
    out.insert("responses", responses);
    out.insert("schemes", texts(&["https"]));
    out.insert("tags", vec![Value::from(tag)]);
    if let Some((action, kind)) = &operation.action {
        out.insert("x-kubernetes-action", *action);
        out.insert("x-kubernetes-group-version-kind", kind_extension(kind));
    }
    Value::Object(out)
}

fn consumes(operation: &Operation) -> &'static [&'static str] {
    match (&operation.body, &operation.action) {
        (Some(Body::Patch), _) if operation.produces == Produces::Custom => {
            &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"]
        }
        (Some(Body::Patch), _) => &[
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ],
        _ if operation.produces == Produces::Custom => produces(operation.produces),
        (_, None) => produces(operation.produces),
        _ => &["*/*"],
    }
}

fn produces(produces: Produces) -> &'static [&'static str] {
    match produces {
        Produces::Json => &["application/json"],
        Produces::Custom => &["application/json", "application/yaml"],
        Produces::Object => &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"],
        Produces::ObjectOrWatch => &[
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ],
        Produces::Log => &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"],
        Produces::Anything => &["*/*"],
    }
}

fn body_parameter(body: &Body) -> Value {
    let (name, required) = match body {
        Body::Object(name) => (name.clone(), true),
        Body::DeleteOptions => (format!("{META}.DeleteOptions"), false),
        Body::Patch => (PATCH.to_owned(), true),
    };
    let mut out = Map::new();
    out.insert("in", "body");
    out.insert("name", "body");
    if required {
        out.insert("required", true);
    }
    out.insert("schema", Dialect::V2.reference(&name));
    Value::Object(out)
}
