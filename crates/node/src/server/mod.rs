//! The node's own server, port 10250: logs, commands in containers, forwarded ports, figures.
//!
//! A request goes through [`connections`] (TLS, bounds), [`access`] (who asks, and whether they may), [`routes`] (what is
//! asked for) and ends in one of [`logs`], [`remote`], [`forward`], [`stats`] or a few lines in [`handlers`].
//!
//! What holds: nobody gets further than `access` without an answer from the API server or a certificate of the cluster's
//! authority; whatever a client does, what is held for it has a bound; a session ends when its client goes.
//!
//! What it does not do: it keeps no pods and runs nothing. Pods are asked of [`Pods`], containers of the runtime.

pub mod access;
mod answer;
mod connections;
mod find;
mod forward;
mod handlers;
pub mod logs;
mod query;
mod remote;
mod routes;
pub mod stats;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rkube_machinery::host::Clock;
use rkube_machinery::{Text, Value};
use rkube_runtime::api::Runtime;

pub use connections::serve;

use access::Access;

/// The pods of the node, as whoever runs them knows them.
pub trait Pods: Send + Sync + 'static {
    /// All that are bound to it, static ones too, with the status that the node would report now.
    fn pods(&self) -> Vec<Arc<Value>>;

    /// One of them by its name. Of a static pod what the API server has of it, if there is that.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let is_named = |pod: &Arc<Value>| {
            let metadata = pod.get("metadata");
            metadata.str("name") == name && metadata.str("namespace") == namespace
        };
        self.pods().into_iter().find(is_named)
    }

    /// Why the node does not get on with its pods; None: it does.
    fn problem(&self) -> Option<String> {
        None
    }
}

/// What the server is made of.
pub struct Config {
    pub node: Text,
    pub runtime: Arc<dyn Runtime>,
    pub pods: Arc<dyn Pods>,
    pub access: Arc<dyn Access>,
    pub clock: Arc<dyn Clock>,
    /// What `/configz` shows under `kubeletconfig`.
    pub configuration: Value,
}
