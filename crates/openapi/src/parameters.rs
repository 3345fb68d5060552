//! The parameters that operations take.

use rkube_machinery::schema::Shape;
use rkube_machinery::{Map, Type, TypeRef, Value, json, object};

use crate::definitions::typed;
use crate::hash::Fnv;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    /// `string`, `boolean`, `integer`.
    pub(crate) kind: &'static str,
    pub(crate) description: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Path,
    Query,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Path => "path",
            Place::Query => "query",
        }
    }
}

/// The query parameters of an action, as upstream names and types them.
pub(crate) fn for_action(action: &str) -> Vec<Parameter> {
    let names: &[&str] = match action {
        "list" | "watch" | "watchlist" => &[
            "allowWatchBookmarks",
            "continue",
            "fieldSelector",
            "labelSelector",
            "limit",
            "resourceVersion",
            "resourceVersionMatch",
            "sendInitialEvents",
            "shardSelector",
            "timeoutSeconds",
            "watch",
        ],
        "deletecollection" => &[
            "continue",
            "dryRun",
            "fieldSelector",
            "gracePeriodSeconds",
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "labelSelector",
            "limit",
            "orphanDependents",
            "propagationPolicy",
            "resourceVersion",
            "resourceVersionMatch",
            "sendInitialEvents",
            "shardSelector",
            "timeoutSeconds",
        ],
        "delete" => &[
            "dryRun",
            "gracePeriodSeconds",
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "orphanDependents",
            "propagationPolicy",
        ],
        "post" | "put" => &["dryRun", "fieldManager", "fieldValidation"],
        "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
        _ => &[],
    };
    let mut parameters: Vec<Parameter> = names.iter().filter_map(|name| query(name)).collect();
    if action != "connect" {
        parameters.extend(query("pretty"));
    }
    parameters
}

/// The query parameters of an action on custom resources: those of the options that it takes, with nothing left out and
/// nothing added.
pub(crate) fn for_custom_action(action: &str) -> Vec<Parameter> {
    match action {
        "deletecollection" => for_action("list"),
        "get" => for_action("get").into_iter().chain(query("resourceVersion")).collect(),
        _ => for_action(action),
    }
}

/// The parameters of every action, with what they do.
const QUERY: &[(&str, &str, &str)] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "Asks a watch for bookmarks: events that carry nothing but how far it has come.",
    ),
    ("continue", "string", "The token that an earlier part of the list ended with; the answer is the next part."),
    ("dryRun", "string", "With the value All, the request goes all the way but nothing is stored."),
    (
        "fieldManager",
        "string",
        "Who makes the change, for the object's managed fields; up to 128 printable characters.",
    ),
    (
        "fieldValidation",
        "string",
        "What to do about unknown and repeated fields: Ignore drops them, Warn (the default) also says so in a \
         warning, Strict refuses the request.",
    ),
    ("fieldSelector", "string", "Only objects whose fields are as this selector says."),
    ("force", "boolean", "Apply takes over fields that others own. Only for apply patches."),
    ("gracePeriodSeconds", "integer", "How long an object may take to end; zero deletes at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Deletes an object that cannot be read from the store, without finalizers and preconditions.",
    ),
    ("labelSelector", "string", "Only objects whose labels are as this selector says."),
    ("limit", "integer", "How many objects an answer holds at most; a token to continue comes with it."),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy. Whether dependents stay."),
    ("pretty", "string", "With the value true, the answer is indented."),
    ("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
    ("resourceVersion", "string", "How recent the answer must be, or where a watch begins."),
    ("resourceVersionMatch", "string", "How resourceVersion is applied to a list: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "A watch begins with the objects that are there, followed by a bookmark."),
    ("shardSelector", "string", "Only objects in this part of the keys, for clients that share the work."),
    ("timeoutSeconds", "integer", "How long a list or watch may last."),
    ("watch", "boolean", "Instead of a list, a stream of changes to it."),
];

fn query(name: &str) -> Option<Parameter> {
    let (name, kind, description) = QUERY.iter().find(|entry| entry.0 == name)?;
    Some(Parameter { name, place: Place::Query, kind, description: (*description).to_owned() })
}

/// The fields of an options type as query parameters (`PodExecOptions`, `PodLogOptions`).
pub(crate) fn of_options(type_name: &str) -> Vec<Parameter> {
    let Some(ty): Option<&'static Type> = TypeRef::find(type_name).map(TypeRef::get) else { return Vec::new() };
    let mut parameters: Vec<Parameter> = ty
        .json_fields()
        .filter_map(|field| {
            let kind = scalar(&field.shape)?;
            let description = format!("The option {} of {}.", field.name, ty.short_name());
            Some(Parameter { name: field.name, place: Place::Query, kind, description })
        })
        .collect();
    parameters.sort_by_key(|parameter| parameter.name);
    parameters
}

fn scalar(shape: &Shape) -> Option<&'static str> {
    match shape {
        Shape::String => Some("string"),
        Shape::Bool => Some("boolean"),
        Shape::Int32 | Shape::Int64 => Some("integer"),
        Shape::List(inner) => scalar(inner),
        _ => None,
    }
}

/// Parameters that swagger has once for all operations. The two that are left out are looked for by older kubectls, who
/// follow no references.
pub(crate) fn shared() -> Map {
    let queries = QUERY.iter().filter_map(|entry| query(entry.0)).chain([namespace()]);
    let entries = queries.filter_map(|parameter| Some((shared_name(&parameter)?.into(), written_in_v2(&parameter))));
    Map::sorted(entries.collect())
}

/// The parameter in swagger: a reference where it is [shared].
pub(crate) fn in_v2(parameter: &Parameter) -> Value {
    match shared_name(parameter) {
        Some(name) => object! { "$ref": format!("#/parameters/{name}") },
        None => written_in_v2(parameter),
    }
}

fn written_in_v2(parameter: &Parameter) -> Value {
    let mut out = typed(parameter.kind, "");
    out.insert("description", parameter.description.as_str());
    out.insert("in", parameter.place.name());
    out.insert("name", parameter.name);
    if parameter.place == Place::Path {
        out.insert("required", true);
    }
    out.insert("uniqueItems", true);
    Value::Object(out)
}

/// The name of a shared parameter: its own with a mark of its content.
fn shared_name(parameter: &Parameter) -> Option<String> {
    let is_known = match parameter.place {
        Place::Query => query(parameter.name).as_ref() == Some(parameter),
        Place::Path => namespace() == *parameter,
    };
    if !is_known || matches!(parameter.name, "dryRun" | "fieldValidation") {
        return None;
    }
    let mut hash = Fnv::new();
    hash.add(json::to_string(&written_in_v2(parameter)).as_bytes());
    Some(format!("{}-{}", parameter.name, &hash.text()[..8]))
}

pub(crate) fn namespace() -> Parameter {
    path("namespace", "The namespace of the object.".to_owned())
}

pub(crate) fn path(name: &'static str, description: String) -> Parameter {
    Parameter { name, place: Place::Path, kind: "string", description }
}
