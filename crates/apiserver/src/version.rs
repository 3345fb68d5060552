//! `/version`: which Kubernetes clients find here.

use rkube_machinery::{Value, object};

/// The Kubernetes version whose API is served.
pub const GIT_VERSION: &str = "v1.36.4";

pub fn version() -> Value {
    let platform = format!(
        "linux/{}",
        match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    );
    object! {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": format!("{GIT_VERSION}+rkube.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform,
    }
}
