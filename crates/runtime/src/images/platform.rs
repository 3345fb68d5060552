//! Which of the images of an index is ours.

use serde::Deserialize;

use super::digest::Digest;
use super::{Error, Result};

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Descriptor {
    pub digest: Digest,
    /// Of a layer as it is sent.
    #[serde(default)]
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Platform>,
    #[serde(default)]
    pub annotations: std::collections::BTreeMap<String, String>,
}

/// A manifest, or an index of some.
#[derive(Deserialize)]
pub(super) struct Document {
    pub config: Option<Descriptor>,
    pub layers: Option<Vec<Descriptor>>,
    pub manifests: Option<Vec<Descriptor>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
}

/// As images name what this was built for.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// The first that says it is ours; where none says anything, the only one.
pub(super) fn choose(manifests: &[Descriptor]) -> Result<&Descriptor> {
    let ours = |platform: &Platform| platform.os == "linux" && platform.architecture == architecture();
    let found = manifests.iter().find(|manifest| manifest.platform.as_ref().is_some_and(ours));
    let silent = || match manifests {
        [only] if only.platform.as_ref().is_none_or(|platform| platform.architecture.is_empty()) => Some(only),
        _ => None,
    };
    found.or_else(silent).ok_or_else(|| {
        Error::NotFound(format!("no match for platform in manifest: not found (this is linux/{})", architecture()))
    })
}
