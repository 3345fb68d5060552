//! OpenAPI 3.0: one document per group version, and the index of them.

use std::collections::BTreeSet;

use rkube_kinds::Kind;
use rkube_machinery::{Map, TypeRef, Value, object};

use crate::definitions::{Dialect, PATCH, definitions, kind_extension, reachable, typed};
use crate::descriptions::Descriptions;
use crate::hash::Fnv;
use crate::names::{group_word, root_of};
use crate::operations::{Body, Content, META, Operation, Path, Produces, discovery, paths_of};
use crate::parameters::{Parameter, Place};
use crate::part::{Form, Part};

/// The paths below `/openapi/v3/` at which built-in documents lie, each with a hash that changes with its content:
/// `api`, `api/v1`, `apis`, `apis/apps`, `apis/apps/v1`, `version`, …
pub fn v3_paths(kinds: &[&Kind]) -> Vec<(String, String)> {
    let mut paths = BTreeSet::from(["apis".to_owned(), "version".to_owned()]);
    for kind in kinds {
        let root = root_of(kind);
        if let Some((parent, _)) = root.rsplit_once('/') {
            paths.insert(parent.to_owned());
        }
        paths.insert(root);
    }
    let table = table_hash();
    paths.into_iter().map(|path| (path.clone(), hash(table.clone(), kinds, &path))).collect()
}

/// The answer to `/openapi/v3`: where each document lies. Entries are paths with their hashes, those of
/// [`v3_paths`] and of others.
pub fn v3_index(entries: impl IntoIterator<Item = (String, String)>) -> Value {
    let paths = entries.into_iter().map(|(path, hash)| {
        let url = format!("/openapi/v3/{path}?hash={hash}");
        (path.as_str().into(), object! { "serverRelativeURL": url })
    });
    object! { "paths": Map::sorted(paths.collect()) }
}

/// The built-in part of the document at one of [`v3_paths`]; `None` where there is none. `shared`: types that others in
/// the document refer to.
pub fn v3_part(kinds: &[&Kind], path: &str, shared: &[&str]) -> Option<Part> {
    let of_path: Vec<&Kind> = kinds.iter().copied().filter(|kind| root_of(kind) == path).collect();
    let paths = match of_path.first() {
        Some(_) => paths_of(&of_path),
        None => vec![root_path(kinds, path)?],
    };
    let names = reachable(types_of(&paths).into_iter().chain(shared.iter().map(|name| (*name).to_owned())));
    let descriptions = Descriptions::read();
    let group_versions = of_path.iter().map(|kind| (kind.group.to_string(), kind.version.to_string())).collect();
    let schemas = definitions(&names, Dialect::V3, &descriptions, &group_versions);
    Some(Part::new(Form::V3, &path_items(&paths), &schemas))
}

pub(crate) fn path_items(paths: &[Path]) -> Map {
    Map::sorted(paths.iter().map(|path| (path.path.as_str().into(), path_item(path))).collect())
}

/// Discovery above the group versions, and the version.
pub(crate) fn root_path(kinds: &[&Kind], path: &str) -> Option<Path> {
    let at = format!("/{path}/");
    let known = |group: &str| kinds.iter().any(|kind| kind.group == group);
    Some(match path.strip_prefix("apis/") {
        _ if path == "api" && known("") => {
            let answer = format!("{META}.APIVersions");
            discovery(at, "core".into(), "getCoreAPIVersions".into(), "get available API versions", answer)
        }
        _ if path == "apis" => {
            let answer = format!("{META}.APIGroupList");
            discovery(at, "apis".into(), "getAPIVersions".into(), "get available API versions", answer)
        }
        _ if path == "version" => {
            let answer = "io.k8s.apimachinery.pkg.version.Info".to_owned();
            let text = "get the version information for this server";
            let mut version = discovery(at, "version".into(), "getCodeVersion".into(), text, answer);
            version.operations.iter_mut().for_each(|operation| operation.produces = Produces::Json);
            version
        }
        Some(group) if !group.is_empty() && known(group) => {
            let word = group_word(group);
            let id = format!("get{}APIGroup", crate::names::capitalized(&word));
            discovery(at, word, id, "get information of a group", format!("{META}.APIGroup"))
        }
        _ => return None,
    })
}

/// The types that operations name.
pub(crate) fn types_of(paths: &[Path]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for operation in paths.iter().flat_map(|path| &path.operations) {
        names.extend(operation.responses.iter().filter_map(|(_, content)| match content {
            Content::Type(name) => Some(name.clone()),
            Content::Text => None,
        }));
        match &operation.body {
            Some(Body::Object(name)) => names.insert(name.clone()),
            Some(Body::DeleteOptions) => names.insert(format!("{META}.DeleteOptions")),
            Some(Body::Patch) => names.insert(PATCH.to_owned()),
            None => false,
        };
    }
    names
}

fn path_item(path: &Path) -> Value {
    let mut out = Map::new();
    if !path.parameters.is_empty() {
        out.insert("parameters", parameters(&path.parameters));
    }
    for item in &path.operations {
        out.insert(item.method, operation(item, &path.tag));
    }
    Value::Object(out)
}

fn operation(operation: &Operation, tag: &str) -> Value {
    let mut out = Map::new();
    out.insert("description", operation.description.as_str());
    out.insert("operationId", operation.id.as_str());
    if !operation.parameters.is_empty() {
        out.insert("parameters", parameters(&operation.parameters));
    }
    if let Some(body) = &operation.body {
        out.insert("requestBody", request_body(body, operation.produces));
    }
    let mut responses = Map::new();
    for (code, answer) in &operation.responses {
        let media_types = media_types(operation.produces);
        let content: Map = media_types.iter().map(|kind| (*kind, object! { "schema": schema(answer) })).collect();
        let text = response_text(*code);
        responses.insert(code.to_string(), object! { "content": content, "description": text });
    }
    responses.insert("401", object! { "description": "Unauthorized" });
    out.insert("responses", responses);
    out.insert("tags", vec![Value::from(tag)]);
    if let Some((action, kind)) = &operation.action {
        out.insert("x-kubernetes-action", *action);
        out.insert("x-kubernetes-group-version-kind", kind_extension(kind));
    }
    Value::Object(out)
}

fn parameters(parameters: &[Parameter]) -> Value {
    let one = |parameter: &Parameter| {
        let mut out = Map::new();
        out.insert("description", parameter.description.as_str());
        out.insert("in", parameter.place.name());
        out.insert("name", parameter.name);
        if parameter.place == Place::Path {
            out.insert("required", true);
        }
        let mut schema = typed(parameter.kind, "");
        schema.insert("uniqueItems", true);
        out.insert("schema", schema);
        Value::Object(out)
    };
    Value::Array(parameters.iter().map(one).collect())
}

fn request_body(body: &Body, produces: Produces) -> Value {
    let (name, media_types, required) = match body {
        Body::Object(name) => (name.clone(), taken(produces), true),
        Body::DeleteOptions => (format!("{META}.DeleteOptions"), taken(produces), false),
        Body::Patch => (PATCH.to_owned(), patches(produces), true),
    };
    let reference = || object! { "schema": Dialect::V3.reference(&name) };
    let content: Map = media_types.iter().map(|media_type| (*media_type, reference())).collect();
    let mut out = Map::new();
    out.insert("content", content);
    if required {
        out.insert("required", true);
    }
    Value::Object(out)
}

/// The media types of bodies that are not patches.
fn taken(produces: Produces) -> &'static [&'static str] {
    match produces {
        Produces::Custom => media_types(produces),
        _ => &["*/*"],
    }
}

/// The media types of patches, in order. Custom resources have no strategic ones.
fn patches(produces: Produces) -> &'static [&'static str] {
    let all = &[
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ];
    match produces {
        Produces::Custom => &all[..3],
        _ => all,
    }
}

pub(crate) fn media_types(produces: Produces) -> &'static [&'static str] {
    match produces {
        Produces::Json => &["application/json"],
        Produces::Custom => &["application/json", "application/yaml"],
        Produces::Object => &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"],
        Produces::ObjectOrWatch => &[
            "application/json",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf",
            "application/vnd.kubernetes.protobuf;stream=watch",
            "application/yaml",
        ],
        Produces::Log => &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml", "text/plain"],
        Produces::Anything => &["*/*"],
    }
}

fn schema(content: &Content) -> Value {
    match content {
        Content::Type(name) => Dialect::V3.reference(name),
        Content::Text => Value::Object(typed("string", "")),
    }
}

pub(crate) fn response_text(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        _ => "OK",
    }
}

/// The hash of a document: of what all are made from, and of the kinds at its path.
fn hash(mut hash: Fnv, kinds: &[&Kind], path: &str) -> String {
    hash.add(path.as_bytes());
    for kind in kinds.iter().filter(|kind| root_of(kind).starts_with(path)) {
        for text in [&kind.group, &kind.version, &kind.kind, &kind.resource, &kind.type_name] {
            hash.add(text.as_bytes());
        }
        kind.verbs.iter().for_each(|verb| hash.add(verb.as_bytes()));
        for subresource in kind.subresources {
            hash.add(subresource.name.as_bytes());
            subresource.verbs.iter().for_each(|verb| hash.add(verb.as_bytes()));
        }
    }
    hash.text()
}

/// What all documents are made from: our version and the schema table.
fn table_hash() -> Fnv {
    let mut hash = Fnv::new();
    hash.add(env!("CARGO_PKG_VERSION").as_bytes());
    for ty in TypeRef::all().map(TypeRef::get) {
        hash.add(ty.name.as_bytes());
        for field in ty.fields {
            hash.add(field.name.as_bytes());
            hash.add(field.go_type.as_bytes());
            hash.add(field.default.unwrap_or_default().as_bytes());
        }
    }
    hash
}
