//! What a runtime asks of whoever connects sandboxes.

use std::net::IpAddr;
use std::path::PathBuf;

use futures::future::BoxFuture;

use super::{PortMapping, Result};

/// The network of pods on this node.
pub trait PodNetwork: Send + Sync + 'static {
    /// Why pods can have no network of their own here; None: they can.
    fn problem(&self) -> Option<String>;

    /// Connects a sandbox, and says its addresses, the first one first. The loopback interface is up afterwards.
    fn attach(&self, attachment: Attachment) -> BoxFuture<'_, Result<Vec<IpAddr>>>;

    /// Takes away what was made for it, also by an earlier life of this process, and also where its namespace is gone.
    fn detach<'a>(&'a self, sandbox: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Tells which sandboxes there still are, once at the start: what belongs to others is removed.
    fn retain(&self, sandboxes: Vec<String>) -> BoxFuture<'_, Result<()>>;
}

/// A sandbox to be connected.
#[derive(Clone, Debug)]
pub struct Attachment {
    pub sandbox: String,
    /// As `/proc/PID/ns/net` or a file that it is bound to.
    pub network_namespace: PathBuf,
    pub ports: Vec<PortMapping>,
}
