//! How the server reaches nodes: by whoever runs them in this process. Nobody does when the server starts; who comes says
//! so once.

use std::sync::{Arc, OnceLock};

use rkube_machinery::{Status, Value};

/// Somebody who has nodes.
pub trait NodeProvider: Send + Sync + 'static {
    /// Whether a node of this name is one of these.
    fn has(&self, node: &str) -> bool;

    /// What is said to a connection to one of them, or to a pod on it; None where the node is not one of these.
    fn connect(&self, connection: &Connection<'_>) -> Option<NodeAnswer>;

    /// What a node uses: an object of kind NodeMetrics without `kind` and `apiVersion`; None where it is not one of these.
    fn node_metrics(&self, name: &str) -> Option<Value>;

    /// What a pod uses: the same of kind PodMetrics; None where it does not run on one of these.
    fn pod_metrics(&self, namespace: &str, name: &str) -> Option<Value>;
}

/// What a client wants of a node.
pub struct Connection<'a> {
    pub node: &'a str,
    /// `log`, `exec`, `attach`, `portforward` or `proxy`.
    pub subresource: &'a str,
    /// The pod, or the node itself.
    pub object: &'a Value,
}

pub enum NodeAnswer {
    /// The whole of a log.
    Log(String),
    Refused(Status),
}

/// Where the server looks for one.
#[derive(Default)]
pub struct Nodes {
    provider: OnceLock<Arc<dyn NodeProvider>>,
}

impl Nodes {
    /// The first one stays.
    pub fn provide(&self, provider: Arc<dyn NodeProvider>) {
        if self.provider.set(provider).is_err() {
            tracing::error!("there are nodes already: others are left out");
        }
    }

    pub fn provider(&self) -> Option<&dyn NodeProvider> {
        self.provider.get().map(|provider| &**provider)
    }
}
