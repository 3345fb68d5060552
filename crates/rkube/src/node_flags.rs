//! The flags of the node that runs containers on this machine.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Upstream's.
const KUBELET_PORT: u16 = 10250;

/// Whether this machine is a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NodeChoice {
    /// Where containers can be run here, and no simulated nodes are asked for
    Auto,
    /// Yes, or fail and say why not
    Real,
    /// No
    None,
}

#[derive(Debug, Args)]
pub struct RealNodeFlags {
    /// Whether this machine runs containers: `auto` where it can and neither --sim-nodes nor a shared etcd says otherwise
    #[arg(long, value_name = "auto|real|none", default_value = "auto", hide_possible_values = true)]
    pub node: NodeChoice,

    /// The node's name [default: the host's, in lower case]
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,

    /// The node's address [default: that of the default route, or the pod network's gateway]
    #[arg(long, value_name = "ADDR")]
    pub node_ip: Option<IpAddr>,

    /// Further labels of the node
    #[arg(long, value_name = "NAME=VALUE,...", default_value = "", hide_default_value = true, value_parser = parse_labels)]
    pub node_labels: Labels,

    /// Where the node serves logs, exec and figures; 0 takes a free port
    #[arg(long, value_name = "PORT", default_value_t = KUBELET_PORT)]
    pub kubelet_port: u16,

    /// Where files say for registries which mirrors to ask and whom to trust, as DIR/docker.io/hosts.toml, in containerd's
    /// format
    #[arg(long, value_name = "DIR", default_value = rkube_runtime::images::REGISTRIES)]
    pub registry_config: PathBuf,

    /// How many pods it takes
    #[arg(long, value_name = "COUNT", default_value_t = 110)]
    pub max_pods: u32,

    /// A directory with pods that run without having been asked for by the API (static pods)
    #[arg(long, value_name = "DIR")]
    pub pod_manifest_path: Option<PathBuf>,

    /// Where logs of pods are
    #[arg(long, value_name = "DIR", default_value = "/var/log/pods")]
    pub pod_log_dir: PathBuf,

    /// The addresses of the cluster's DNS: what pods ask first
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',')]
    pub cluster_dns: Vec<IpAddr>,

    /// The domain of the cluster
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,
}

/// `name=value,name=value`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(pub BTreeMap<String, String>);

fn parse_labels(text: &str) -> Result<Labels, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let pair = |item: &str| match item.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("expected NAME=VALUE, not {item:?}")),
    };
    items.map(pair).collect::<Result<_, _>>().map(Labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_pairs() {
        assert_eq!(parse_labels("a=b, c=").unwrap().0.len(), 2);
        assert_eq!(parse_labels("").unwrap(), Labels::default());
        assert!(parse_labels("a").is_err());
    }
}
