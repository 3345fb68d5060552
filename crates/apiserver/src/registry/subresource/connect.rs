//! `log`, `exec`, `attach`, `portforward`, `proxy`: answered by the node that runs the pod, if somebody in this process has it.
//! Otherwise the answer says that nobody does.

use std::net::IpAddr;

use http::StatusCode;
use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::{GroupResource, Status, Value, object, time};

use super::super::admit::Admission;
use super::super::write::Write;
use crate::content::{Answer, Body};
use crate::health;
use crate::nodes::{Connection, NodeAnswer};
use crate::request::number;

impl Write<'_> {
    /// The log of a pod that has no node yet is empty. For all else: why the connection cannot be made.
    pub(in crate::registry) async fn connect(&mut self, subresource: &str) -> Result<Answer, Status> {
        let name = &self.request.info.name;
        if subresource == "log" {
            ConnectQuery(&self.request.query.others).check_log(name)?;
        } else {
            if !self.request.query.dry_run.is_empty() {
                return Err(Status::bad_request("dryRun is not supported"));
            }
            let object = self.connect_options(subresource)?;
            let kind = object.str("kind").to_owned();
            self.admit_as_is(Admission::connect(name).of_kind("v1", &kind), object).await?;
        }
        let query = ConnectQuery(&self.request.query.others);
        let entry = self.request.find()?;
        let object = entry.object.value(entry.revision);
        let node = match (self.request.served.kind.resource.as_str(), subresource) {
            ("pods", "proxy") => {
                check_address(&object)?;
                object.get("spec").str("nodeName")
            }
            ("pods", "portforward") => object.get("spec").str("nodeName"),
            ("pods", _) => {
                check_container(&object, query.first("container").unwrap_or_default())?;
                object.get("spec").str("nodeName")
            }
            ("nodes", _) => name,
            _ => return Err(Status::service_unavailable(format!("no endpoints available for service \"{name}\""))),
        };
        if node.is_empty() && subresource == "log" {
            let mut nothing = Answer::new(Body::Empty);
            *nothing.status_mut() = StatusCode::NO_CONTENT;
            return Ok(nothing);
        }
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
        self.check_node(node)?;
        let connection = Connection { node, subresource, object: &object };
        match self.registry.nodes.provider().and_then(|provider| provider.connect(&connection)) {
            Some(NodeAnswer::Log(text)) => return Ok(health::text(StatusCode::OK, text)),
            Some(NodeAnswer::Refused(status)) => return Err(status),
            None => {}
        }
        Err(Status::service_unavailable(format!(
            "node \"{node}\" is not connected to this API server: its pods cannot be reached"
        )))
    }

    /// What is asked of the connection, as an object.
    fn connect_options(&self, subresource: &str) -> Result<Value, Status> {
        let query = ConnectQuery(&self.request.query.others);
        let mut object = object! { "apiVersion": "v1" };
        match (self.request.served.kind.resource.as_str(), subresource) {
            (resource, "proxy") => {
                let kind = match resource {
                    "pods" => "PodProxyOptions",
                    "services" => "ServiceProxyOptions",
                    _ => "NodeProxyOptions",
                };
                object.set("kind", kind);
                let (_, path) = self.request.info.path.split_once("/proxy").unwrap_or_default();
                object.set("path", path);
            }
            (_, "portforward") => {
                object.set("kind", "PodPortForwardOptions");
                object.set("ports", query.ports()?);
            }
            (_, subresource) => {
                let executes = subresource == "exec";
                object.set("kind", if executes { "PodExecOptions" } else { "PodAttachOptions" });
                for field in ["stdin", "stdout", "stderr", "tty"] {
                    if query.first(field).is_some_and(|text| !matches!(text, "false" | "0")) {
                        object.set(field, true);
                    }
                }
                if let Some(container) = query.first("container") {
                    object.set("container", container);
                }
                if executes {
                    object.set("command", query.all("command").map(Value::from).collect::<Vec<_>>());
                }
            }
        }
        Ok(object)
    }

    /// A node that is not there is missed under the name of what was asked for.
    fn check_node(&self, node: &str) -> Result<(), Status> {
        let nodes = self.registry.catalog.resource("", "v1", "nodes");
        match nodes {
            Some(nodes) if nodes.get(&nodes.key("", node)).is_none() => {
                Err(Status::not_found(&self.request.served.group_resource, node))
            }
            _ => Ok(()),
        }
    }
}

/// The query of a connection.
struct ConnectQuery<'a>(&'a [(String, String)]);

impl ConnectQuery<'_> {
    fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let mut bad = None;
        let value = self.first(name).and_then(|text| number(text, &mut bad));
        bad.map_or(Ok(value), |why| Err(Status::bad_request(why)))
    }

    /// What can be said of the options of a log without the pod.
    fn check_log(&self, name: &str) -> Result<(), Status> {
        let since_seconds = self.number("sinceSeconds")?;
        let since_time = self.first("sinceTime");
        if let Some(text) = since_time.filter(|text| !matches!(*text, "" | "null")) {
            time::parse(text).map_err(Status::bad_request)?;
        }
        let tail_lines = self.number("tailLines")?;
        let limit_bytes = self.number("limitBytes")?;
        let mut errors = Errors::new();
        if let Some(lines) = tail_lines.filter(|lines| *lines < 0) {
            errors.invalid(Path::new("tailLines"), lines, "must be greater than or equal to 0");
        }
        if let Some(bytes) = limit_bytes.filter(|bytes| *bytes < 1) {
            errors.invalid(Path::new("limitBytes"), bytes, "must be greater than 0");
        }
        match (since_seconds, since_time) {
            (Some(_), Some(_)) => {
                errors.forbidden(Path::new("[]"), "at most one of `sinceTime` or `sinceSeconds` may be specified");
            }
            (Some(seconds), None) if seconds < 1 => {
                errors.invalid(Path::new("sinceSeconds"), seconds, "must be greater than 0");
            }
            _ => {}
        }
        if self.first("stream").is_some() {
            errors.forbidden(Path::new("stream"), "may not be specified");
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&GroupResource::new("", "PodLogOptions"), name, &errors))
    }

    fn ports(&self) -> Result<Vec<Value>, Status> {
        let mut ports = Vec::new();
        for text in self.all("ports").flat_map(|texts| texts.split(',')) {
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(bad_port(text, "invalid syntax"));
            }
            let port: u16 = text.parse().map_err(|_| bad_port(text, "value out of range"))?;
            ports.push(i64::from(port).into());
        }
        Ok(ports)
    }
}

fn bad_port(text: &str, why: &str) -> Status {
    Status::bad_request(format!("cannot convert to []int32: strconv.ParseUint: parsing {}: {why}", quote(text)))
}

/// The container must be one of the pod's; without a name there must be only one.
fn check_container(pod: &Value, container: &str) -> Result<(), Status> {
    let name = pod.get("metadata").str("name");
    let spec = pod.get("spec");
    let lists = ["initContainers", "containers", "ephemeralContainers"].map(|list| spec.list(list));
    let all: Vec<&str> = lists.into_iter().flatten().map(|container| container.str("name")).collect();
    match (container, spec.list("containers").len()) {
        ("", 1) => Ok(()),
        ("", 0) => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (container, _) if all.contains(&container) => Ok(()),
        (container, _) => Err(Status::bad_request(format!("container {container} is not valid for pod {name}"))),
    }
}

/// Only addresses of the network are asked for: none of this machine, none of a group.
fn check_address(pod: &Value) -> Result<(), Status> {
    let status = pod.get("status");
    let address = status.list("podIPs").first().map_or_else(|| status.str("podIP"), |one| one.str("ip"));
    let is_reachable = address.parse().is_ok_and(|address: IpAddr| {
        let is_local = match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        !(is_local || address.is_unspecified() || address.is_loopback() || address.is_multicast())
    });
    if is_reachable { Ok(()) } else { Err(Status::bad_request("address not allowed")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Vec<(String, String)> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn options_of_logs_are_checked_without_the_pod() {
        let invalid = |what: &str| format!("PodLogOptions \"p\" is invalid: {what}");
        for (text, want) in [
            ("", String::new()),
            ("tailLines=0&limitBytes=1&sinceSeconds=1&follow=maybe", String::new()),
            ("sinceTime=", String::new()),
            ("tailLines=-1", invalid("tailLines: Invalid value: -1: must be greater than or equal to 0")),
            ("limitBytes=0", invalid("limitBytes: Invalid value: 0: must be greater than 0")),
            ("sinceSeconds=0", invalid("sinceSeconds: Invalid value: 0: must be greater than 0")),
            (
                "sinceSeconds=0&sinceTime=2020-01-01T00:00:00Z",
                invalid("[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"),
            ),
            ("stream=Stdout", invalid("stream: Forbidden: may not be specified")),
            ("tailLines=", "strconv.ParseInt: parsing \"\": invalid syntax".to_owned()),
            (
                "limitBytes=99999999999999999999",
                "strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned(),
            ),
            (
                "sinceTime=bad",
                "parsing time \"bad\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"bad\" as \"2006\"".to_owned(),
            ),
        ] {
            let got = ConnectQuery(&query(text)).check_log("p").err().map(|status| status.message).unwrap_or_default();
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn ports_are_numbers() {
        assert!(ConnectQuery(&query("ports=1,65535&ports=2")).ports().is_ok());
        let why = ConnectQuery(&query("ports=1,x")).ports().unwrap_err().message;
        assert_eq!(why, "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax");
    }

    #[test]
    fn a_container_is_chosen_where_there_is_a_choice() {
        let named = |name: &str| object! { "name": name };
        let pod = |containers: Vec<Value>| {
            object! {
                "metadata": named("p"),
                "spec": object! { "initContainers": vec![named("i")], "containers": containers },
            }
        };
        let (one, two) = (pod(vec![named("a")]), pod(vec![named("a"), named("b")]));
        assert!(check_container(&one, "").is_ok() && check_container(&one, "i").is_ok());
        assert_eq!(check_container(&one, "b").unwrap_err().message, "container b is not valid for pod p");
        let why = check_container(&two, "").unwrap_err().message;
        assert_eq!(why, "a container name must be specified for pod p, choose one of: [i a b]");
    }

    #[test]
    fn only_addresses_of_the_network_are_asked() {
        for (address, want) in
            [("", false), ("10.0.0.1", true), ("127.0.0.1", false), ("169.254.0.1", false), ("fe80::1", false)]
        {
            assert_eq!(check_address(&object! { "status": object! { "podIP": address } }).is_ok(), want, "{address}");
        }
    }
}
