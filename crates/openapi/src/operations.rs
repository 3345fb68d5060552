//! What can be asked of a kind: its paths and their operations, free of any OpenAPI version.

use rkube_kinds::{Kind, Subresource};
use rkube_machinery::protobuf::type_of;

use crate::names::{GroupVersionKind, capitalized, group_version_word, root_of, tag, with_article};
use crate::parameters::{Parameter, for_action, namespace, of_options, path};

pub(crate) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A path with its operations; `parameters` are those that all of them share.
pub(crate) struct Path {
    pub(crate) path: String,
    pub(crate) tag: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) operations: Vec<Operation>,
}

pub(crate) struct Operation {
    /// `get`, `post`, …
    pub(crate) method: &'static str,
    pub(crate) id: String,
    pub(crate) description: String,
    /// `list`, `connect`, …; none for discovery.
    pub(crate) action: Option<(&'static str, GroupVersionKind)>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    pub(crate) responses: Vec<(u16, Content)>,
    pub(crate) produces: Produces,
}

pub(crate) enum Body {
    Object(String),
    DeleteOptions,
    Patch,
}

#[derive(Clone)]
pub(crate) enum Content {
    Type(String),
    Text,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Produces {
    Json,
    /// JSON and YAML, taken and given: custom resources.
    Custom,
    Object,
    ObjectOrWatch,
    Log,
    Anything,
}

/// Kinds whose deletion answers with the object, not with a status.
const RETURNS_DELETED: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ResourceQuota",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "resource.k8s.io",
        &[
            "DeviceClass",
            "DeviceTaintRule",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourcePoolStatusRequest",
            "ResourceSlice",
        ],
    ),
    ("storage.k8s.io", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"]),
];

/// The discovery document of a group version and everything about its kinds.
pub(crate) fn paths_of(kinds: &[&Kind]) -> Vec<Path> {
    let mut paths = Vec::new();
    if let Some(first) = kinds.first() {
        let id = format!("get{}APIResources", group_version_word(&first.group, &first.version));
        let answer = format!("{META}.APIResourceList");
        let path = format!("/{}/", root_of(first));
        paths.push(discovery(path, tag(&first.group, &first.version), id, "get available resources", answer));
    }
    for kind in kinds {
        Resource { kind }.add_paths(&mut paths);
    }
    paths.sort_by(|left, right| left.path.cmp(&right.path));
    paths
}

/// A path that answers GET with one type.
pub(crate) fn discovery(path: String, tag: String, id: String, description: &str, answer: String) -> Path {
    let operation = Operation {
        method: "get",
        id,
        description: description.to_owned(),
        action: None,
        parameters: Vec::new(),
        body: None,
        responses: vec![(200, Content::Type(answer))],
        produces: Produces::Object,
    };
    Path { path, tag, parameters: Vec::new(), operations: vec![operation] }
}

struct Resource<'a> {
    kind: &'a Kind,
}

impl Resource<'_> {
    fn add_paths(&self, paths: &mut Vec<Path>) {
        let kind = self.kind;
        let root = format!("/{}", root_of(kind));
        let namespaced = kind.is_namespaced();
        let within = if namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{within}/{}", kind.resource);
        let mut operations = Vec::new();
        operations.extend(kind.allows("list").then(|| self.list(false)));
        operations.extend(kind.allows("create").then(|| self.create()));
        operations.extend(kind.allows("deletecollection").then(|| self.delete_collection()));
        self.push(paths, collection.clone(), operations, false);
        if namespaced && kind.allows("list") {
            self.push_for_all(paths, format!("{root}/{}", kind.resource), vec![self.list(true)]);
        }

        let object = format!("{collection}/{{name}}");
        let mut operations = Vec::new();
        operations.extend(kind.allows("get").then(|| self.read()));
        operations.extend(kind.allows("update").then(|| self.replace()));
        operations.extend(kind.allows("delete").then(|| self.delete()));
        operations.extend(kind.allows("patch").then(|| self.patch()));
        self.push(paths, object.clone(), operations, true);

        if kind.allows("watch") {
            let watched = format!("{root}/watch{within}/{}", kind.resource);
            self.push(paths, watched.clone(), vec![self.watch("watchlist", "List")], false);
            self.push(paths, format!("{watched}/{{name}}"), vec![self.watch("watch", "")], true);
            if namespaced {
                let operation = self.watch("watchlist", "ListForAllNamespaces");
                self.push_for_all(paths, format!("{root}/watch/{}", kind.resource), vec![operation]);
            }
        }
        for subresource in kind.subresources {
            self.add_subresource(paths, &object, subresource);
        }
    }

    fn push(&self, paths: &mut Vec<Path>, path_text: String, operations: Vec<Operation>, named: bool) {
        let mut shared = Vec::new();
        if named {
            shared.push(path("name", format!("name of the {}", self.kind.kind)));
        }
        if self.kind.is_namespaced() {
            shared.push(namespace());
        }
        push_path(paths, path_text, self.tag(), shared, operations);
    }

    fn push_for_all(&self, paths: &mut Vec<Path>, path: String, operations: Vec<Operation>) {
        push_path(paths, path, self.tag(), Vec::new(), operations);
    }

    fn tag(&self) -> String {
        tag(&self.kind.group, &self.kind.version)
    }

    fn own_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.kind.group, &self.kind.version, &self.kind.kind)
    }

    /// `createCoreV1NamespacedPod`.
    fn id(&self, verb: &str, before: &str, after: &str) -> String {
        let namespaced = if self.kind.is_namespaced() && after != "ForAllNamespaces" && after != "ListForAllNamespaces"
        {
            "Namespaced"
        } else {
            ""
        };
        let group_version = group_version_word(&self.kind.group, &self.kind.version);
        format!("{verb}{group_version}{before}{namespaced}{}{after}", self.kind.kind)
    }

    fn operation(&self, method: &'static str, action: &'static str, id: String, description: String) -> Operation {
        Operation {
            method,
            id,
            description,
            action: Some((action, self.own_kind())),
            parameters: for_action(action),
            body: None,
            responses: vec![(200, self.own_content())],
            produces: Produces::Object,
        }
    }

    fn own_content(&self) -> Content {
        Content::Type(self.kind.type_name.to_string())
    }

    fn list(&self, all_namespaces: bool) -> Operation {
        let watch = if self.kind.allows("watch") { " or watch" } else { "" };
        let description = format!("list{watch} objects of kind {}", self.kind.kind);
        let id = self.id("list", "", if all_namespaces { "ForAllNamespaces" } else { "" });
        let list_type = Content::Type(format!("{}List", self.kind.type_name));
        Operation {
            responses: vec![(200, list_type)],
            produces: Produces::ObjectOrWatch,
            ..self.operation("get", "list", id, description)
        }
    }

    fn watch(&self, action: &'static str, after: &str) -> Operation {
        let what = if action == "watch" { "changes to an object" } else { "individual changes to a list" };
        let description = format!(
            "watch {what} of {}{}. deprecated: use the 'watch' parameter with a list operation instead{}.",
            if action == "watch" { "kind " } else { "" },
            self.kind.kind,
            if action == "watch" { ", filtered to a single item with the 'fieldSelector' parameter" } else { "" },
        );
        Operation {
            responses: vec![(200, Content::Type(format!("{META}.WatchEvent")))],
            produces: Produces::ObjectOrWatch,
            ..self.operation("get", action, self.id("watch", "", after), description)
        }
    }

    fn create(&self) -> Operation {
        let description = format!("create {}", with_article(&self.kind.kind));
        Operation {
            body: Some(Body::Object(self.kind.type_name.to_string())),
            responses: [200, 201, 202].map(|code| (code, self.own_content())).to_vec(),
            ..self.operation("post", "post", self.id("create", "", ""), description)
        }
    }

    fn delete_collection(&self) -> Operation {
        let description = format!("delete collection of {}", self.kind.kind);
        Operation {
            body: Some(Body::DeleteOptions),
            responses: vec![(200, status())],
            ..self.operation("delete", "deletecollection", self.id("delete", "Collection", ""), description)
        }
    }

    fn read(&self) -> Operation {
        self.operation("get", "get", self.id("read", "", ""), format!("read the specified {}", self.kind.kind))
    }

    fn replace(&self) -> Operation {
        let description = format!("replace the specified {}", self.kind.kind);
        Operation {
            body: Some(Body::Object(self.kind.type_name.to_string())),
            responses: [200, 201].map(|code| (code, self.own_content())).to_vec(),
            ..self.operation("put", "put", self.id("replace", "", ""), description)
        }
    }

    fn patch(&self) -> Operation {
        let description = format!("partially update the specified {}", self.kind.kind);
        Operation {
            body: Some(Body::Patch),
            responses: [200, 201].map(|code| (code, self.own_content())).to_vec(),
            ..self.operation("patch", "patch", self.id("patch", "", ""), description)
        }
    }

    fn delete(&self) -> Operation {
        let returned = RETURNS_DELETED
            .iter()
            .any(|(group, kinds)| *group == self.kind.group && kinds.contains(&self.kind.kind.as_str()));
        let content = if returned { self.own_content() } else { status() };
        let description = format!("delete {}", with_article(&self.kind.kind));
        Operation {
            body: Some(Body::DeleteOptions),
            responses: [200, 202].map(|code| (code, content.clone())).to_vec(),
            ..self.operation("delete", "delete", self.id("delete", "", ""), description)
        }
    }

    fn add_subresource(&self, paths: &mut Vec<Path>, object: &str, subresource: &Subresource) {
        let (group, version) = subresource.group_version.unwrap_or((&self.kind.group, &self.kind.version));
        let body = GroupVersionKind::new(group, version, subresource.kind.unwrap_or(&self.kind.kind));
        let type_name = match subresource.kind {
            None => self.kind.type_name.to_string(),
            Some(kind) => type_of(&body.api_version(), kind).map_or(String::new(), |ty| ty.name.to_owned()),
        };
        let base = format!("{object}/{}", subresource.name);
        if body.kind.ends_with("Options") {
            self.add_connect(paths, base, subresource, &body, &type_name);
            return;
        }
        let operations =
            subresource.verbs.iter().filter_map(|verb| self.part(verb, subresource.name, &body, &type_name));
        let mut operations: Vec<Operation> = operations.collect();
        if subresource.name == "log" {
            for operation in &mut operations {
                operation.parameters.extend(of_options("io.k8s.api.core.v1.PodLogOptions"));
                operation.responses = vec![(200, Content::Text)];
                operation.produces = Produces::Log;
            }
        }
        self.push_subresource(paths, base, operations, &body.kind, false);
    }

    /// An operation on a part of the object: `status`, `scale`, …
    fn part(&self, verb: &str, name: &str, body: &GroupVersionKind, type_name: &str) -> Option<Operation> {
        let kind = self.kind.kind.as_str();
        let (method, word, text) = match verb {
            "get" => ("get", "read", format!("read {name} of the specified {kind}")),
            "update" => ("put", "replace", format!("replace {name} of the specified {kind}")),
            "patch" => ("patch", "patch", format!("partially update {name} of the specified {kind}")),
            "create" => ("post", "create", format!("create {name} of {}", with_article(kind))),
            _ => return None,
        };
        let codes: &[u16] = match method {
            "get" => &[200],
            "post" => &[200, 201, 202],
            _ => &[200, 201],
        };
        let content = Content::Type(type_name.to_owned());
        Some(Operation {
            method,
            id: self.id(word, "", &capitalized(name)),
            description: text,
            action: Some((method, body.clone())),
            parameters: for_action(method),
            body: match method {
                "get" => None,
                "patch" => Some(Body::Patch),
                _ => Some(Body::Object(type_name.to_owned())),
            },
            responses: codes.iter().map(|code| (*code, content.clone())).collect(),
            produces: Produces::Object,
        })
    }

    /// A stream through the server: `exec`, `proxy`, …
    fn add_connect(
        &self,
        paths: &mut Vec<Path>,
        base: String,
        subresource: &Subresource,
        body: &GroupVersionKind,
        type_name: &str,
    ) {
        let proxy = subresource.name == "proxy";
        let methods: &[&'static str] =
            if proxy { &["delete", "get", "head", "options", "patch", "post", "put"] } else { &["get", "post"] };
        let operations = |suffix: &str| -> Vec<Operation> {
            let one = |method: &&'static str| Operation {
                method,
                id: self.id("connect", &capitalized(method), &format!("{}{suffix}", capitalized(subresource.name))),
                description: format!(
                    "connect {} requests to {} of {}",
                    method.to_uppercase(),
                    subresource.name,
                    self.kind.kind
                ),
                action: Some(("connect", body.clone())),
                parameters: of_options(type_name),
                body: None,
                responses: vec![(200, Content::Text)],
                produces: Produces::Anything,
            };
            methods.iter().map(one).collect()
        };
        if proxy {
            self.push_subresource(paths, format!("{base}/{{path}}"), operations("WithPath"), &body.kind, true);
        }
        self.push_subresource(paths, base, operations(""), &body.kind, false);
    }

    fn push_subresource(
        &self,
        paths: &mut Vec<Path>,
        path_text: String,
        operations: Vec<Operation>,
        named_kind: &str,
        with_path: bool,
    ) {
        let mut shared = vec![path("name", format!("name of the {named_kind}"))];
        if self.kind.is_namespaced() {
            shared.push(namespace());
        }
        if with_path {
            shared.push(path("path", "The path behind the proxy.".to_owned()));
        }
        push_path(paths, path_text, self.tag(), shared, operations);
    }
}

pub(crate) fn status() -> Content {
    Content::Type(format!("{META}.Status"))
}

/// Moves parameters that all operations have to the path.
pub(crate) fn push_path(
    paths: &mut Vec<Path>,
    path: String,
    tag: String,
    mut shared: Vec<Parameter>,
    mut operations: Vec<Operation>,
) {
    let Some(first) = operations.first() else { return };
    let common: Vec<Parameter> = first
        .parameters
        .iter()
        .filter(|parameter| operations.iter().all(|operation| operation.parameters.contains(parameter)))
        .cloned()
        .collect();
    for operation in &mut operations {
        operation.parameters.retain(|parameter| !common.contains(parameter));
        operation.parameters.sort_by_key(|parameter| (parameter.name, parameter.place));
    }
    shared.extend(common);
    shared.sort_by_key(|parameter| (parameter.name, parameter.place));
    operations.sort_by_key(|operation| operation.method);
    paths.push(Path { path, tag, parameters: shared, operations });
}
