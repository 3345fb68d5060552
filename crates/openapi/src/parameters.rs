//! The parameters that operations take.

use rkube_machinery::schema::Shape;
use rkube_machinery::{Type, TypeRef};

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

pub(crate) fn path(name: &'static str, description: String) -> Parameter {
    Parameter { name, place: Place::Path, kind: "string", description }
}
