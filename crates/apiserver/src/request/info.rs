//! The path taken apart: `/apis/<group>/<version>/namespaces/<namespace>/<resource>/<name>/<subresource>`.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;
use rkube_access::authorize::{Attributes, ResourceAttributes};
use rkube_machinery::names;
use rkube_machinery::selector::fields;
use rkube_machinery::value::Text;
use smallvec::SmallVec;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An API object or a collection of them.
    Resource,
    /// Anything else: `/healthz`, `/openapi/v3`, discovery.
    Path,
}

/// Which object, collection or path a request is about, and what it wants to do to it.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    pub target: Target,
    pub verb: Cow<'static, str>,
    pub path: String,
    pub group: Text,
    pub version: Text,
    pub namespace: Text,
    pub resource: Text,
    pub subresource: Text,
    pub name: Text,
    /// Of a list, a watch or the deletion of a collection, as given.
    pub field_selector: String,
    /// The name of the only object that a list or a watch is about, by its field selector.
    pub selected_name: Text,
}

impl RequestInfo {
    /// `watch`: whether the query asks for one.
    pub fn new(method: &Method, path: &str, watch: bool) -> RequestInfo {
        let mut info = RequestInfo {
            target: Target::Path,
            verb: path_verb(method).into(),
            path: percent_decode_str(path).decode_utf8_lossy().into_owned(),
            group: Text::default(),
            version: Text::default(),
            namespace: Text::default(),
            resource: Text::default(),
            subresource: Text::default(),
            name: Text::default(),
            field_selector: String::new(),
            selected_name: Text::default(),
        };
        // Escapes stand for nothing but their letters: an escaped slash is a slash.
        let whole = info.path.clone();
        let parts: SmallVec<[&str; 8]> = whole.trim_matches('/').split('/').collect();
        let rest = match parts.first() {
            _ if whole.starts_with("//") => return info,
            Some(&"api") if parts.len() >= 3 => {
                info.version = Text::new(parts[1]);
                &parts[2..]
            }
            Some(&"apis") if parts.len() >= 4 => {
                info.group = Text::new(parts[1]);
                info.version = Text::new(parts[2]);
                &parts[3..]
            }
            _ => return info,
        };
        info.target = Target::Resource;
        info.take_resource(rest, method, watch);
        info
    }

    /// Takes note of which objects of a collection are meant: some rights are for these alone.
    pub fn select(&mut self, field_selector: &str) {
        if field_selector.is_empty() || self.target == Target::Path || !self.name.is_empty() {
            return;
        }
        match self.verb.as_ref() {
            "list" | "watch" => self.selected_name = selected_name(field_selector),
            "deletecollection" => {}
            _ => return,
        }
        self.field_selector = field_selector.to_owned();
    }

    /// What is to be allowed.
    pub fn attributes(&self) -> Attributes<'_> {
        match self.target {
            Target::Path => Attributes::Path { verb: &self.verb, path: &self.path },
            Target::Resource => Attributes::Resource(ResourceAttributes {
                verb: &self.verb,
                group: &self.group,
                version: &self.version,
                resource: &self.resource,
                subresource: &self.subresource,
                namespace: &self.namespace,
                name: if self.name.is_empty() { &self.selected_name } else { &self.name },
                field_selector: &self.field_selector,
            }),
        }
    }

    /// What is to be allowed where the request makes something, and its verb does not say so.
    pub fn creation(&self) -> Attributes<'_> {
        Attributes::Resource(ResourceAttributes {
            verb: "create",
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            ..ResourceAttributes::default()
        })
    }

    /// Whether the request lasts as long as the client wants.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch" || matches!(self.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward")
    }

    /// Whether the path has an escape that is none.
    pub fn is_malformed(path: &str) -> bool {
        let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
        let bytes = path.as_bytes();
        let mut escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
        escapes.any(|(place, _)| !is_hex(bytes.get(place + 1)) || !is_hex(bytes.get(place + 2)))
    }

    fn take_resource(&mut self, parts: &[&str], method: &Method, watch: bool) {
        let mut parts = parts;
        let mut watch = watch;
        // The deprecated `/watch/` prefix still works.
        if parts[0] == "watch" && parts.len() > 1 && *method == Method::GET {
            watch = true;
            parts = &parts[1..];
        }
        // `/namespaces/x/pods` is about pods; `/namespaces/x`, `/namespaces/x/status` and `/finalize` about the namespace.
        if parts[0] == "namespaces" && parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
            self.namespace = Text::new(parts[1]);
            parts = &parts[2..];
        } else if parts[0] == "namespaces" && parts.len() > 1 {
            self.namespace = Text::new(parts[1]);
        }
        self.resource = Text::new(parts[0]);
        self.name = parts.get(1).map(Text::new).unwrap_or_default();
        self.subresource = parts.get(2).map(Text::new).unwrap_or_default();
        // What the query of a subresource means is the subresource's own business.
        let watch = watch && self.subresource.is_empty();
        self.verb = resource_verb(method, self.name.is_empty(), watch).into();
        if parts.len() > 3 && !matches!(self.subresource.as_str(), "proxy") {
            // Deeper than anything that is served.
            self.target = Target::Path;
        }
    }
}

/// The name of the only object that a field selector selects; empty where it may be any.
pub fn selected_name(field_selector: &str) -> Text {
    let selector = fields::Selector::parse(field_selector);
    let name = selector.ok().and_then(|selector| selector.exact("metadata.name").map(Text::new)).unwrap_or_default();
    if names::path_segment_name(&name).is_empty() { name } else { Text::default() }
}

fn path_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "unknown",
    }
}

fn resource_verb(method: &Method, collection: bool, watch: bool) -> &'static str {
    match (method.as_str(), collection) {
        ("POST", _) => "create",
        ("GET" | "HEAD", _) if watch => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let cases = [
            ("GET", "/api/v1/namespaces/a/configmaps/b", "get", "", "a", "configmaps", "b", ""),
            ("GET", "/api/v1/configmaps", "list", "", "", "configmaps", "", ""),
            ("GET", "/api/v1/namespaces", "list", "", "", "namespaces", "", ""),
            ("GET", "/api/v1/namespaces/a", "get", "", "a", "namespaces", "a", ""),
            ("PUT", "/api/v1/namespaces/a/finalize", "update", "", "a", "namespaces", "a", "finalize"),
            ("PUT", "/api/v1/namespaces/a/pods/b/status", "update", "", "a", "pods", "b", "status"),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection",
                "apps",
                "a",
                "deployments",
                "",
                "",
            ),
            ("GET", "/api%2Fv1/namespaces/a%2fpods/b", "get", "", "a", "pods", "b", ""),
            ("GET", "/api/v1/watch/namespaces/a/pods", "watch", "", "a", "pods", "", ""),
        ];
        for (method, path, verb, group, namespace, resource, name, subresource) in cases {
            let info = RequestInfo::new(&method.parse().unwrap(), path, false);
            assert_eq!(info.target, Target::Resource, "{path}");
            assert_eq!(
                (
                    info.verb.as_ref(),
                    info.group.as_str(),
                    info.namespace.as_str(),
                    info.resource.as_str(),
                    info.name.as_str()
                ),
                (verb, group, namespace, resource, name),
                "{path}"
            );
            assert_eq!(info.subresource, subresource, "{path}");
        }
        for path in ["/", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "//api/v1/pods"] {
            assert_eq!(RequestInfo::new(&Method::GET, path, false).target, Target::Path, "{path}");
        }
        for (path, want) in [("/a%2Fb", false), ("/%", true), ("/%2", true), ("/%zz", true), ("/a", false)] {
            assert_eq!(RequestInfo::is_malformed(path), want, "{path}");
        }
    }
}
