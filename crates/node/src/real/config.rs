//! What a real node is told about itself.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::{Text, Value};
use rkube_operator::Caches;
use rkube_operator::kube::Client;
use rkube_runtime::api::Runtime;

use super::machine::Machine;
use super::prepare_api::Prepare;

/// So many pods a node takes if nothing else is said, as upstream's.
pub const PODS_MAX: u32 = 110;

pub struct Config {
    pub name: Text,
    /// The caches of the node's own identity: it watches its pods and itself.
    pub caches: Caches,
    /// Acts as `system:node:NAME`.
    pub client: Client,
    pub runtime: Arc<dyn Runtime>,
    pub prepare: Arc<dyn Prepare>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// The node's own, the first one first; at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Beside those that every node has.
    pub labels: Vec<(Text, Text)>,
    /// With which the node registers.
    pub taints: Vec<Value>,
    pub machine: Machine,
    pub directories: Directories,
    pub pods_max: u32,
    /// Where the node serves logs, exec and the like.
    pub port: u16,
    /// Where its pods get their addresses from, if nobody else says it.
    pub pod_ranges: Vec<Text>,
}

#[derive(Clone, Debug)]
pub struct Directories {
    /// Where the logs of pods are: `/var/log/pods`.
    pub pod_logs: PathBuf,
    /// Where links to them are: `/var/log/containers`.
    pub container_logs: PathBuf,
    /// Where static pods are described.
    pub static_pods: Option<PathBuf>,
}
