//! The configuration of an image: what its containers are made with unless the pod says otherwise.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::bounds::MAX_LAYERS;
use super::digest::Digest;
use super::{Error, Result};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    /// As `PATH=/bin`.
    pub environment: Vec<String>,
    /// As `1000`, `1000:1000`, `www` or `www:www`; empty: root.
    pub user: String,
    /// Empty: `/`.
    pub working_directory: String,
    /// As `SIGTERM` or `15`; empty: that.
    pub stop_signal: String,
    /// Paths.
    pub volumes: BTreeSet<String>,
    pub labels: BTreeMap<String, String>,
    pub os: String,
    pub architecture: String,
}

/// The document as it is stored.
#[derive(Debug, Deserialize)]
struct Document {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    config: Option<Defaults>,
    rootfs: RootFilesystem,
}

#[derive(Debug, Deserialize)]
struct RootFilesystem {
    #[serde(default)]
    diff_ids: Option<Vec<Digest>>,
}

/// Written by Go: what is empty may be null.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Defaults {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
    volumes: Option<BTreeMap<String, serde_json::Value>>,
    labels: Option<BTreeMap<String, String>>,
}

/// The defaults, and the digests of the layers when they are unpacked, the lowest first.
pub(super) fn parse(content: &[u8]) -> Result<(ImageConfig, Vec<Digest>)> {
    let document: Document = serde_json::from_slice(content)
        .map_err(|error| Error::corrupt(format_args!("the image's configuration cannot be read: {error}")))?;
    let diff_ids = document.rootfs.diff_ids.unwrap_or_default();
    if diff_ids.len() > MAX_LAYERS {
        return Err(Error::refused(format_args!("{} layers are more than {MAX_LAYERS}", diff_ids.len())));
    }
    let defaults = document.config.unwrap_or_default();
    let config = ImageConfig {
        entrypoint: defaults.entrypoint.unwrap_or_default(),
        command: defaults.cmd.unwrap_or_default(),
        environment: defaults.env.unwrap_or_default(),
        user: defaults.user.unwrap_or_default(),
        working_directory: defaults.working_dir.unwrap_or_default(),
        stop_signal: defaults.stop_signal.unwrap_or_default(),
        volumes: defaults.volumes.unwrap_or_default().into_keys().collect(),
        labels: defaults.labels.unwrap_or_default(),
        os: document.os,
        architecture: document.architecture,
    };
    Ok((config, diff_ids))
}
