//! What can be asked of a custom resource.

use rkube_kinds::Kind;

use super::{SCALE, list_type};
use crate::names::{GroupVersionKind, capitalized, group_version_word, operation_word, root_of, tag, with_article};
use crate::operations::{Body, Content, Operation, Path, Produces, push_path, status};
use crate::parameters::{for_custom_action, namespace, path};

pub(super) fn paths_of(kind: &Kind) -> Vec<Path> {
    let resource = Resource { kind };
    let root = format!("/{}", root_of(kind));
    let mut paths = Vec::new();
    let mut collection = format!("{root}/{}", kind.resource);
    if kind.is_namespaced() {
        let mut list = resource.list();
        list.id = resource.id("list", &format!("{}ForAllNamespaces", kind.kind));
        push_path(&mut paths, collection, resource.tag(), Vec::new(), vec![list]);
        collection = format!("{root}/namespaces/{{namespace}}/{}", kind.resource);
    }
    let operations = vec![resource.list(), resource.create(), resource.delete_collection()];
    resource.push(&mut paths, collection.clone(), operations, false);
    let object = format!("{collection}/{{name}}");
    let [read, replace, patch] = resource.of_part("", &kind.type_name);
    resource.push(&mut paths, object.clone(), vec![read, replace, resource.delete(), patch], true);
    for subresource in kind.subresources {
        let type_name = if subresource.name == "scale" { SCALE } else { &kind.type_name };
        let operations = resource.of_part(subresource.name, type_name).into();
        resource.push(&mut paths, format!("{object}/{}", subresource.name), operations, true);
    }
    paths
}

struct Resource<'a> {
    kind: &'a Kind,
}

impl Resource<'_> {
    fn push(&self, paths: &mut Vec<Path>, path_text: String, operations: Vec<Operation>, named: bool) {
        let mut shared = Vec::new();
        shared.extend(named.then(|| path("name", format!("name of the {}", self.kind.kind))));
        shared.extend(self.kind.is_namespaced().then(namespace));
        push_path(paths, path_text, self.tag(), shared, operations);
    }

    fn tag(&self) -> String {
        tag(&self.kind.group, &self.kind.version)
    }

    /// `createExampleComV1NamespacedFoo`.
    fn id(&self, verb: &str, rest: &str) -> String {
        let group_version = group_version_word(&self.kind.group, &self.kind.version);
        format!("{verb}{group_version}{}", capitalized(&operation_word(rest)))
    }

    /// An operation on the resource or, where `part` is given, on that of it.
    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        (verb, before, part): (&str, &str, &str),
        description: String,
        responses: Vec<(u16, Content)>,
    ) -> Operation {
        let kind = self.kind;
        let namespaced = if kind.is_namespaced() { "Namespaced" } else { "" };
        Operation {
            method,
            id: self.id(verb, &format!("{before}{namespaced}{}{}", kind.kind, capitalized(part))),
            description,
            action: Some((action, GroupVersionKind::new(&kind.group, &kind.version, &kind.kind))),
            parameters: for_custom_action(action),
            body: None,
            responses,
            produces: Produces::Custom,
        }
    }

    fn own(&self) -> Content {
        Content::Type(self.kind.type_name.to_string())
    }

    fn list(&self) -> Operation {
        let description = format!("list objects of kind {}", self.kind.kind);
        self.operation("get", "list", ("list", "", ""), description, vec![(200, Content::Type(list_type(self.kind)))])
    }

    fn create(&self) -> Operation {
        let description = format!("create {}", with_article(&self.kind.kind));
        let responses = [200, 201, 202].map(|code| (code, self.own())).to_vec();
        Operation {
            body: Some(Body::Object(self.kind.type_name.to_string())),
            ..self.operation("post", "post", ("create", "", ""), description, responses)
        }
    }

    fn delete_collection(&self) -> Operation {
        let description = format!("delete collection of {}", self.kind.kind);
        let words = ("delete", "Collection", "");
        self.operation("delete", "deletecollection", words, description, vec![(200, status())])
    }

    fn delete(&self) -> Operation {
        let description = format!("delete {}", with_article(&self.kind.kind));
        let responses = [200, 202].map(|code| (code, status())).to_vec();
        Operation {
            body: Some(Body::DeleteOptions),
            ..self.operation("delete", "delete", ("delete", "", ""), description, responses)
        }
    }

    /// Reading, replacing and patching the object, or the subresource `part` of it.
    fn of_part(&self, part: &str, type_name: &str) -> [Operation; 3] {
        let of = if part.is_empty() { String::new() } else { format!(" {part} of") };
        let one = |method, verb, word: &str, codes: &[u16], body| {
            let description = format!("{word}{of} the specified {}", self.kind.kind);
            let content = || Content::Type(type_name.to_owned());
            let responses = codes.iter().map(|code| (*code, content())).collect();
            Operation { body, ..self.operation(method, method, (verb, "", part), description, responses) }
        };
        [
            one("get", "read", "read", &[200], None),
            one("put", "replace", "replace", &[200, 201], Some(Body::Object(type_name.to_owned()))),
            one("patch", "patch", "partially update", &[200], Some(Body::Patch)),
        ]
    }
}
