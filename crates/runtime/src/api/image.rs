//! Images: what is here of them.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The digest of its configuration, `sha256:…`.
    pub id: String,
    /// As `docker.io/library/busybox:1.36`.
    pub tags: Vec<String>,
    /// As `docker.io/library/busybox@sha256:…`.
    pub digests: Vec<String>,
    pub size_bytes: u64,
    /// The number or name of the user that it runs as, as the image says it; empty: root.
    pub user: String,
    /// Not to be collected.
    pub pinned: bool,
}

/// By which a registry knows us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: String,
    /// A token that is shown as it is, instead of the two.
    pub registry_token: String,
    /// A token for which the registry gives another one.
    pub identity_token: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFilesystem {
    /// Where it is.
    pub mountpoint: String,
    /// By images and containers' own files.
    pub used_bytes: u64,
    pub used_inodes: u64,
    /// Of the whole file system.
    pub capacity_bytes: u64,
    pub available_bytes: u64,
}

/// How far a pull is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    pub layers_total: usize,
    pub layers_done: usize,
    pub bytes_total: u64,
    pub bytes_done: u64,
}
