//! `log`, `exec`, `attach`, `portforward`, `proxy`: answered by the node that runs the pod, by the pod, or by one of a
//! service's. Nodes that somebody in this process has answer for themselves; all others are connected to.

mod options;
mod target;
#[cfg(test)]
mod tests;

use http::{Method, StatusCode};
use rkube_access::authorize::Decision;
use rkube_machinery::{GroupResource, Status, Value};

use super::super::Registry;
use super::super::admit::Admission;
use super::super::reply::Reply;
use super::super::request::Request;
use super::super::write::Write;
use crate::content::{Answer, Body, body_answer};
use crate::health;
use crate::nodes::{Connection, NodeAnswer};
use crate::proxy::{self, Id, Location, Security, Visit, backend_path};
use options::ConnectQuery;

/// Which requests can be passed on to pods, services and nodes.
const PROXY_METHODS: [Method; 7] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];
/// So much of what a node says against a log is shown.
const REFUSAL_BYTES_MAX: usize = 50_000;

/// Where a log comes from.
enum Log {
    At(Location),
    Known(Result<Answer, Status>),
}

impl Registry {
    /// Passes a request on; see [`Request::connects`].
    pub async fn connect(&self, request: &Request<'_>, visit: Visit<'_>) -> Reply {
        let is_proxy = request.info.subresource == "proxy" && PROXY_METHODS.contains(&visit.parts.method);
        if !is_proxy && let Err(status) = request.check_verb() {
            return Reply { answer: Err(status), warnings: Vec::new() };
        }
        let mut write = Write::new(self, request, Vec::new());
        let answer = write.connect(visit).await;
        Reply { answer, warnings: write.warnings }
    }
}

impl Write<'_> {
    async fn connect(&mut self, visit: Visit<'_>) -> Result<Answer, Status> {
        if !self.request.query.dry_run.is_empty() {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let info = self.request.info;
        let (resource, subresource) = (self.request.served.kind.resource.as_str(), info.subresource.as_str());
        if subresource == "log" {
            return match self.locate_log()? {
                Log::At(location) => self.registry.proxy.upgrade(&location, visit).await,
                Log::Known(answer) => answer,
            };
        }
        let (prefix, below) = proxied_path(&info.path, !info.namespace.is_empty());
        let query = ConnectQuery(&self.request.query.others);
        let mut options = options::object_of(resource, subresource, &query, below)?;
        let kind = options.str("kind").to_owned();
        let admission = Admission::connect(&info.name).of_kind("v1", &kind);
        self.admit(admission, &mut options).await?;
        self.check_admitted(admission, &options).await?;
        if subresource == "proxy" {
            let mut location = match resource {
                "pods" => self.locate_pod()?,
                "services" => self.locate_service()?,
                _ => self.locate_node().await?,
            };
            location.path = backend_path(below);
            location.query = visit.parts.uri.query().unwrap_or_default().to_owned();
            return self.registry.proxy.forward(&location, visit, prefix).await;
        }
        self.check_may_create()?;
        let location = self.locate_stream(subresource, &options)?;
        self.registry.proxy.upgrade(&location, visit).await
    }

    pub(in crate::registry) async fn log(&mut self) -> Result<Answer, Status> {
        let location = match self.locate_log()? {
            Log::At(location) => location,
            Log::Known(answer) => return answer,
        };
        let answer = self.registry.proxy.get(&location, "*/*").await?;
        if !(200..=206).contains(&answer.status().as_u16()) {
            return Err(refusal_of_log(answer, &self.request.info.name).await);
        }
        Ok(body_answer(StatusCode::OK, "text/plain", answer.into_body()))
    }

    /// Where a log is. Of a pod that has no node yet it is empty.
    fn locate_log(&self) -> Result<Log, Status> {
        let query = ConnectQuery(&self.request.query.others);
        query.check_log(&self.request.info.name)?;
        let entry = self.request.find()?;
        let pod = entry.object.value(entry.revision);
        let container = target::container(&pod, query.first("container").unwrap_or_default())?;
        let node = pod.get("spec").str("nodeName");
        if node.is_empty() {
            let mut nothing = Answer::new(Body::Empty);
            *nothing.status_mut() = StatusCode::NO_CONTENT;
            return Ok(Log::Known(Ok(nothing)));
        }
        if let Some(answer) = self.ask_provider(node, "log", &pod) {
            return Ok(Log::Known(answer));
        }
        let metadata = pod.get("metadata");
        let mut location = self.kubelet(node)?;
        location.path = format!("/containerLogs/{}/{}/{container}", metadata.str("namespace"), metadata.str("name"));
        location.query = query.log_query();
        if query.is_true("insecureSkipTLSVerifyBackend") {
            location.security = Security::UnverifiedKubelet;
        }
        Ok(Log::At(location))
    }

    /// Whoever may read a connection is not allowed to make one: WebSockets begin with a GET.
    fn check_may_create(&self) -> Result<(), Status> {
        let info = self.request.info;
        if info.verb == "create" {
            return Ok(());
        }
        let verdict = self.registry.authorizers.verdict(self.request.user, &info.creation());
        match verdict.decision {
            Decision::Allow => Ok(()),
            _ => Err(Status::forbidden(&self.request.served.group_resource, &info.name, verdict.reason)),
        }
    }

    /// `exec`, `attach` and `portforward`: where the pod runs.
    fn locate_stream(&self, subresource: &str, options: &Value) -> Result<Location, Status> {
        let name = &self.request.info.name;
        let entry = self.request.find()?;
        let pod = entry.object.value(entry.revision);
        let container = match subresource {
            "portforward" => "",
            _ => target::container(&pod, options.str("container"))?,
        };
        let node = pod.get("spec").str("nodeName");
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
        if let Some(answer) = self.ask_provider(node, subresource, &pod) {
            return Err(refused(answer));
        }
        let (namespace, name) = (pod.get("metadata").str("namespace"), pod.get("metadata").str("name"));
        let mut location = self.kubelet(node)?;
        location.path = match subresource {
            "portforward" => format!("/portForward/{namespace}/{name}"),
            _ => format!("/{subresource}/{namespace}/{name}/{container}"),
        };
        location.query = options::node_query(options);
        Ok(location)
    }

    /// `pods/proxy`: the pod's own address.
    fn locate_pod(&self) -> Result<Location, Status> {
        let id = self.id("pod")?;
        let pod = self.find_beside("", "pods", id.name)?;
        let port = if id.port.is_empty() { target::first_port(&pod) } else { id.port.to_owned() };
        let host = target::pod_address(&pod)?.to_owned();
        let node = pod.get("spec").str("nodeName");
        if let Some(answer) = self.ask_provider(node, "proxy", &pod) {
            return Err(refused(answer));
        }
        Ok(Location { security: id.security(), host, port, path: String::new(), query: String::new() })
    }

    /// `services/proxy`: any of the pods behind it.
    fn locate_service(&self) -> Result<Location, Status> {
        let id = self.id("service")?;
        let service = match id.port.parse::<i64>() {
            Ok(_) => self.find_beside("", "services", id.name)?,
            Err(_) => target::nothing(),
        };
        let port_name = target::service_port(&service, id.name, id.port)?;
        let endpoints = self.find_beside("", "endpoints", id.name)?;
        let none = |name: &str| Status::service_unavailable(format!("no endpoints available for service \"{name}\""));
        if endpoints.list("subsets").is_empty() {
            return Err(none(id.name));
        }
        let pod_of = |target: &Value| {
            let is_here = target.str("namespace") == self.request.info.namespace;
            is_here.then(|| self.find_beside("", "pods", target.str("name")).ok()).flatten()
        };
        let chosen = target::endpoint(&endpoints, port_name, self.registry.entropy.next_u64(), pod_of);
        let (host, port, pod) = chosen.ok_or_else(|| none(&self.request.info.name))?;
        if let Some(answer) = self.ask_provider(pod.get("spec").str("nodeName"), "proxy", &pod) {
            return Err(refused(answer));
        }
        let port = port.to_string();
        Ok(Location { security: id.security(), host, port, path: String::new(), query: String::new() })
    }

    /// `nodes/proxy`: the node's own port, or another one on it.
    async fn locate_node(&self) -> Result<Location, Status> {
        let id = self.id("node")?;
        let node = self.find_beside("", "nodes", id.name)?;
        if let Some(answer) = self.ask_provider(id.name, "proxy", &node) {
            return Err(refused(answer));
        }
        let location = self.kubelet(id.name)?;
        let found = tokio::net::lookup_host((location.host.as_str(), 0)).await;
        let lost = |error| Status::bad_request(format!("lookup {}: {error}", location.host));
        let is_allowed = found.map_err(lost)?.all(|address| target::is_global_unicast(address.ip()));
        if !is_allowed {
            return Err(target::not_allowed());
        }
        match id.port {
            "" => Ok(location),
            port if port == location.port => Ok(location),
            port => Ok(Location { security: id.security(), port: port.to_owned(), ..location }),
        }
    }

    /// The node's own port.
    fn kubelet(&self, name: &str) -> Result<Location, Status> {
        let node = self.find_beside("", "nodes", name)?;
        let kubelet = &self.registry.kubelet;
        let Some(host) = kubelet.address_of(&node) else { return Err(proxy::failed(target::no_address(&node))) };
        let (host, port) = (host.to_owned(), kubelet.port_of(&node).to_string());
        Ok(Location { security: Security::Kubelet, host, port, path: String::new(), query: String::new() })
    }

    /// The name of what is to be passed on to, with its scheme and port.
    fn id(&self, what: &str) -> Result<Id<'_>, Status> {
        let name = &self.request.info.name;
        Id::parse(name).ok_or_else(|| Status::bad_request(format!("invalid {what} request \"{name}\"")))
    }

    /// Another object in the namespace of the request. One that is not there is missed under the name of what was asked for,
    /// as upstream's storage does.
    fn find_beside(&self, group: &str, resource: &str, name: &str) -> Result<Value, Status> {
        let objects = self.registry.catalog.resource(group, "v1", resource);
        let namespace = if resource == "nodes" { "" } else { self.request.info.namespace.as_str() };
        let found = objects.and_then(|objects| objects.find(namespace, name));
        let missing = || Status::not_found(&self.request.served.group_resource, name);
        found.map(|entry| entry.object.value(entry.revision)).ok_or_else(missing)
    }

    /// What somebody in this process answers who has the node.
    fn ask_provider(&self, node: &str, subresource: &str, object: &Value) -> Option<Result<Answer, Status>> {
        let connection = Connection { node, subresource, object };
        match self.registry.nodes.provider().and_then(|provider| provider.connect(&connection))? {
            NodeAnswer::Log(text) => Some(Ok(health::text(StatusCode::OK, text))),
            NodeAnswer::Refused(status) => Some(Err(status)),
        }
    }
}

/// What is said where a node in this process has nothing to connect to.
fn refused(answer: Result<Answer, Status>) -> Status {
    answer.err().unwrap_or_else(|| Status::bad_request("there is nothing to connect to"))
}

/// A path up to and with `proxy`, and what follows. Names before it may be anything, `proxy` too.
fn proxied_path(path: &str, in_namespace: bool) -> (&str, &str) {
    let steps = if in_namespace { 7 } else { 5 };
    let end = path.match_indices('/').nth(steps).map_or(path.len(), |(place, _)| place);
    path.split_at(end)
}

/// Why a node has no log to show.
async fn refusal_of_log(answer: Answer, name: &str) -> Status {
    let code = answer.status().as_u16();
    let body = http_body_util::Limited::new(answer.into_body(), REFUSAL_BYTES_MAX);
    let text = match http_body_util::BodyExt::collect(body).await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(error) => return Status::internal(error.to_string()),
    };
    let (reason, words) = match code {
        500 => return Status::internal(text),
        400 => return Status::bad_request(text),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials".to_owned()),
        403 => ("Forbidden", text),
        404 => ("NotFound", "the server could not find the requested resource".to_owned()),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource".to_owned()),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later".to_owned(),
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request".to_owned()),
        other => ("", format!("the server responded with the status code {other} but did not return more information")),
    };
    let resource = GroupResource::new("", "pods/log");
    let mut status = Status::not_found(&resource, name);
    (status.code, status.reason) = (code, reason);
    status.message = format!("{words} ( pods/log {name})");
    status
}

#[cfg(test)]
mod path_tests {
    use super::*;

    #[test]
    fn what_follows_proxy_is_the_backends() {
        for (path, namespaced, prefix, below) in [
            (
                "/api/v1/namespaces/proxy/pods/p/proxy/a/proxy/",
                true,
                "/api/v1/namespaces/proxy/pods/p/proxy",
                "/a/proxy/",
            ),
            (
                "/api/v1/namespaces/n/services/https:s:web/proxy",
                true,
                "/api/v1/namespaces/n/services/https:s:web/proxy",
                "",
            ),
            ("/api/v1/nodes/n:10250/proxy/", false, "/api/v1/nodes/n:10250/proxy", "/"),
        ] {
            assert_eq!(proxied_path(path, namespaced), (prefix, below), "{path}");
        }
    }
}
