//! kubectl as people have it today: the one on the path, or one that we build.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::{Workshop, go};
use crate::command::run_quietly;

const MINOR_MIN: u32 = 30;
/// What the module in `tests/clients/kubectl` is; a build has to be told.
const BUILT_MINOR: u32 = 36;

pub(super) fn current(workshop: &Workshop) -> Result<PathBuf> {
    let version = run_quietly(Command::new("kubectl").args(["version", "--client", "-o", "json"]));
    if let Ok(version) = version
        && minor(&version).is_some_and(|minor| minor >= MINOR_MIN)
    {
        return Ok("kubectl".into());
    }
    let package = "k8s.io/component-base/version";
    let variables = format!(
        "-X {package}.gitVersion=v1.{BUILT_MINOR}.0 -X {package}.gitMajor=1 -X {package}.gitMinor={BUILT_MINOR}"
    );
    go::build(workshop, "kubectl", &variables)
}

/// Of `"gitVersion": "v1.32.4"`.
fn minor(version: &str) -> Option<u32> {
    let json: serde_json::Value = serde_json::from_str(version).ok()?;
    json["clientVersion"]["gitVersion"].as_str()?.strip_prefix("v1.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minor_version_is_read() {
        assert_eq!(minor(r#"{"clientVersion":{"minor":"32+","gitVersion":"v1.32.4-x"}}"#), Some(32));
        assert_eq!(minor("Client Version: v1.32"), None);
    }
}
