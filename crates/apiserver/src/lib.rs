//! The API server: the road of a request, from a client's bytes to the store and back to every watcher.
//!
//! The modules in the order in which a request meets them: [`serve`] (TLS, HTTP), [`stages`] with the lists of
//! `rkube-access`, [`content`], [`registry`] with `rkube-admission` and the life cycles of `rkube-kinds`, and its engine
//! over the store. Beside the road: [`discovery`], [`openapi`], [`health`], [`metrics`]. In the process, components call
//! [`ApiServer::handle`] without a socket, on the same road.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allocation;
mod apart;
mod bootstrap;
mod content;
mod default_range;
mod default_roles;
mod definitions;
mod discovery;
mod endpoints;
mod features;
mod health;
mod identity_lease;
mod in_process;
mod initial_config_maps;
mod internal_client;
mod kubelet;
mod legacy_tokens;
mod limits;
mod metrics;
mod node_metrics;
mod nodes;
mod openapi;
mod openid;
mod proxy;
mod registry;
mod repair;
mod request;
mod resource_metrics;
pub mod serve;
mod server;
mod stages;
#[cfg(test)]
mod test_server;
mod version;
mod warnings;

pub use content::Body;
pub use features::Features;
pub use health::Probe;
pub use in_process::{Followed, Scope};
pub use kubelet::KubeletClient;
pub use limits::InFlightMax;
pub use nodes::{Connection, NodeAnswer, NodeProvider};
pub use registry::Component;
pub use request::OfThisProcess;
pub use server::{ApiServer, Config, Error};
