//! A pod's sandbox: what its containers share.

use std::collections::BTreeMap;
use std::path::Path;

use rkube_machinery::Value;
use rkube_runtime::api::{DnsConfig, PortMapping, Protocol, SandboxConfig};

use super::{hostname, resources, security};
use crate::pod::spec::is_host_network;

/// What is found out elsewhere.
pub struct Found<'a> {
    pub attempt: u32,
    pub dns: DnsConfig,
    pub cluster_domain: &'a str,
    /// Where the logs of all pods are.
    pub logs: &'a Path,
    pub runtime_handler: String,
}

pub fn config(pod: &Value, found: Found<'_>) -> Result<SandboxConfig, String> {
    let metadata = pod.get("metadata");
    let on_host = is_host_network(pod);
    let hostname = match on_host {
        true => String::new(),
        false => hostname::of(pod, found.cluster_domain)?.for_kernel(pod)?,
    };
    Ok(SandboxConfig {
        pod_name: metadata.str("name").to_owned(),
        pod_namespace: metadata.str("namespace").to_owned(),
        pod_uid: metadata.str("uid").to_owned(),
        attempt: found.attempt,
        hostname,
        log_directory: found.logs.join(log_directory(pod)),
        dns: found.dns,
        ports: if on_host { Vec::new() } else { ports(pod) },
        cgroup_parent: resources::cgroup_parent(pod),
        resources: resources::of_pod(pod),
        namespaces: security::namespaces(pod),
        sysctls: sysctls(pod),
        security: security::of_sandbox(pod)?,
        runtime_handler: found.runtime_handler,
        // By which the pod is found again; whoever asks knows them.
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    })
}

/// The name of the directory of a pod's logs.
pub fn log_directory(pod: &Value) -> String {
    let metadata = pod.get("metadata");
    format!("{}_{}_{}", metadata.str("namespace"), metadata.str("name"), metadata.str("uid"))
}

/// Those of the host that lead to the pod.
fn ports(pod: &Value) -> Vec<PortMapping> {
    let ports = pod.get("spec").list("containers").iter().flat_map(|container| container.list("ports"));
    let mapped = ports.filter_map(|port| {
        let number = |field: &str| u16::try_from(port.int(field)).ok().filter(|number| *number > 0);
        Some(PortMapping {
            protocol: match port.str("protocol") {
                "UDP" => Protocol::Udp,
                "SCTP" => Protocol::Sctp,
                _ => Protocol::Tcp,
            },
            container_port: number("containerPort")?,
            host_port: number("hostPort")?,
            host_ip: port.str("hostIP").parse().ok(),
        })
    });
    mapped.collect()
}

fn sysctls(pod: &Value) -> BTreeMap<String, String> {
    let given = pod.get("spec").get("securityContext").list("sysctls");
    given.iter().map(|sysctl| (dotted(sysctl.str("name")), sysctl.str("value").to_owned())).collect()
}

/// `net/ipv4/conf/eth0.1/x` is `net.ipv4.conf.eth0/1.x`: what comes first separates.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(place) if name[place..].starts_with('/') => name
            .chars()
            .map(|letter| {
                if letter == '/' {
                    '.'
                } else if letter == '.' {
                    '/'
                } else {
                    letter
                }
            })
            .collect(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;
    use rkube_runtime::api::NamespaceMode;

    use super::*;

    fn of(spec: &str) -> SandboxConfig {
        let text = format!(
            r#"{{"metadata":{{"name":"web-0","namespace":"shop","uid":"u","labels":{{"a":"b"}}}},"spec":{spec}}}"#
        );
        let found = Found {
            attempt: 2,
            dns: DnsConfig::default(),
            cluster_domain: "cluster.local",
            logs: Path::new("/logs"),
            runtime_handler: String::new(),
        };
        config(&json::parse(text.as_bytes()).unwrap(), found).unwrap()
    }

    #[test]
    fn a_sandbox_is_made_of_the_pod() {
        let found = of(
            r#"{"shareProcessNamespace":true,"securityContext":{"sysctls":[{"name":"net/ipv4/conf/eth0.1/x","value":"1"}]},
                "containers":[{"ports":[{"containerPort":80,"hostPort":8080,"hostIP":"127.0.0.1"},{"containerPort":81},
                {"containerPort":53,"hostPort":53,"protocol":"UDP"}]}]}"#,
        );
        assert_eq!(found.hostname, "web-0");
        assert_eq!(found.log_directory, Path::new("/logs/shop_web-0_u"));
        assert_eq!(found.cgroup_parent, "besteffort/podu");
        assert_eq!(found.ports.len(), 2);
        assert_eq!(found.ports[0].host_ip, "127.0.0.1".parse().ok());
        assert_eq!(found.ports[1].protocol, Protocol::Udp);
        assert_eq!(found.namespaces.pid, NamespaceMode::Pod);
        assert_eq!(found.sysctls.keys().next().unwrap(), "net.ipv4.conf.eth0/1.x");
    }

    #[test]
    fn on_the_hosts_network_names_and_ports_are_the_hosts() {
        let found = of(r#"{"hostNetwork":true,"containers":[{"ports":[{"containerPort":80,"hostPort":80}]}]}"#);
        assert!(found.hostname.is_empty() && found.ports.is_empty());
        assert_eq!(found.namespaces.network, NamespaceMode::Node);
        assert_eq!(found.namespaces.pid, NamespaceMode::Container);
    }
}
