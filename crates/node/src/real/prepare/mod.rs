//! From a Pod to what a container runtime can run: volumes, environment, security context, resources, names.
//!
//! What is worked out from the pod alone is pure, a file for each ([`dns`], [`env`], [`fields`], [`hostname`], [`hosts`],
//! [`resources`], [`sandbox`], [`security`], [`services`], [`expansion`]); [`preparer`] asks the API and works on files.

mod dns;
mod env;
mod env_file;
pub(super) mod expansion;
pub(super) mod fields;
mod hostname;
mod hosts;
mod mounts;
mod preparer;
pub(super) mod resources;
mod sandbox;
mod security;
mod services;
mod storage;
mod volumes;
mod watches;

#[cfg(test)]
mod preparer_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use super::volumes as on_disk;

pub use preparer::{Config, Preparer};
pub(super) use storage::is_limited as limits_storage;

/// Takes away the volumes of all pods below a node's root, and says of how many. No container may be left, nor a node
/// that runs: for those who take a node off a machine. Blocks.
pub fn remove_pods(root: &Path) -> io::Result<usize> {
    let Ok(root) = root.canonicalize() else { return Ok(0) };
    let pods = on_disk::known_pods(&root);
    for uid in &pods {
        on_disk::tear_down(&root, uid)?;
    }
    Ok(pods.len())
}
