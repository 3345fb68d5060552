//! Which crate may depend on which. Every loop closes through the API: no component reaches into another sideways.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::{cargo, run_quietly};

/// A crate, and the crates of this workspace that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("machinery", &[]),
    ("cel", &["machinery"]),
    ("kinds", &["cel", "machinery"]),
    ("quota", &["machinery"]),
    ("store", &[]),
    ("catalog", &["kinds", "machinery", "store"]),
    ("access", &["catalog", "kinds", "machinery"]),
    ("admission", &["access", "catalog", "cel", "extensions", "kinds", "machinery", "quota"]),
    ("extensions", &["catalog", "kinds", "machinery"]),
    ("operator", &["machinery"]),
    ("openapi", &["kinds", "machinery"]),
    (
        "apiserver",
        &["access", "admission", "catalog", "extensions", "kinds", "machinery", "openapi", "operator", "store"],
    ),
    ("controllers", &["cel", "kinds", "machinery", "operator", "quota"]),
    ("scheduler", &["machinery", "operator"]),
    ("runtime", &[]),
    ("streaming", &[]),
    ("node", &["machinery", "operator", "runtime", "streaming"]),
    ("network", &["machinery", "operator", "runtime"]),
    ("console", &["machinery", "operator"]),
    (
        "cluster",
        &[
            "access",
            "apiserver",
            "catalog",
            "controllers",
            "kinds",
            "machinery",
            "network",
            "node",
            "operator",
            "runtime",
            "scheduler",
            "store",
        ],
    ),
    ("testkit", &["access", "apiserver", "cluster", "kinds", "machinery", "operator", "store"]),
    ("testimage", &[]),
    ("bench", &["kinds", "machinery", "operator", "testkit"]),
    ("xtask", &[]),
];

/// What a crate may use in its tests, beyond that.
const ALLOWED_IN_TESTS: &[(&str, &str)] = &[
    ("admission", "store"),
    ("extensions", "store"),
    ("kinds", "streaming"),
    ("testkit", "node"),
    ("testkit", "scheduler"),
];

/// The binary may use all of these.
const BINARY: &str = "rkube";
/// These serve tests and development only: nothing ships with them.
const DEVELOPMENT: &[&str] = &["testkit", "testimage", "bench", "xtask"];

pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let text = run_quietly(cargo(root).args(["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is no JSON")?;
    Ok(findings(&dependencies(&metadata)))
}

#[derive(Debug)]
struct Dependency {
    from: String,
    to: String,
    for_tests: bool,
}

/// The dependencies between crates of the workspace, under their short names; a crate without any leads to itself.
fn dependencies(metadata: &Value) -> Vec<Dependency> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for package in list(&metadata["packages"]) {
        let from = short(package["name"].as_str().unwrap_or_default());
        found.push(Dependency { from: from.clone(), to: from.clone(), for_tests: false });
        for dependency in list(&package["dependencies"]).iter().filter(|dependency| dependency["path"].is_string()) {
            let to = short(dependency["name"].as_str().unwrap_or_default());
            found.push(Dependency { from: from.clone(), to, for_tests: dependency["kind"] == "dev" });
        }
    }
    found
}

fn findings(dependencies: &[Dependency]) -> Vec<String> {
    dependencies.iter().filter_map(finding).collect()
}

fn finding(Dependency { from, to, for_tests }: &Dependency) -> Option<String> {
    let row = ALLOWED.iter().find(|(name, _)| name == from);
    if from == to {
        let known = from == BINARY || row.is_some();
        return (!known).then(|| format!("{from} is not in the table of crates in xtask/src/tidy/direction.rs"));
    }
    if DEVELOPMENT.contains(&to.as_str()) && !DEVELOPMENT.contains(&from.as_str()) {
        return (!for_tests).then(|| format!("{from} may depend on {to} for its tests only"));
    }
    let in_tests = *for_tests && ALLOWED_IN_TESTS.contains(&(from.as_str(), to.as_str()));
    let allowed = from == BINARY || in_tests || row.is_some_and(|(_, allowed)| allowed.contains(&to.as_str()));
    (!allowed).then(|| format!("{from} may not depend on {to}: see the code map in ARCHITECTURE.md"))
}

fn short(name: &str) -> String {
    name.strip_prefix("rkube-").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_decides() {
        let table = [
            ("apiserver", "store", false, true),
            ("kinds", "store", false, false),
            ("extensions", "store", true, true),
            ("extensions", "store", false, false),
            ("controllers", "scheduler", false, false),
            ("scheduler", "apiserver", true, false),
            ("rkube", "apiserver", false, true),
            ("rkube", "testkit", true, true),
            ("rkube", "testkit", false, false),
            ("gadgets", "gadgets", false, false),
            ("machinery", "machinery", false, true),
        ];
        for (from, to, for_tests, allowed) in table {
            let dependency = Dependency { from: from.to_owned(), to: to.to_owned(), for_tests };
            assert_eq!(finding(&dependency).is_none(), allowed, "{dependency:?}");
        }
    }

    #[test]
    fn metadata_is_read() {
        let metadata = serde_json::json!({"packages": [{"name": "rkube-kinds", "dependencies": [
            {"name": "serde_json", "kind": null},
            {"name": "rkube-machinery", "kind": null, "path": "/x"},
            {"name": "rkube-testkit", "kind": "dev", "path": "/x"},
        ]}]});
        let found: Vec<_> = dependencies(&metadata).into_iter().map(|one| (one.to, one.for_tests)).collect();
        let expected = [("kinds", false), ("machinery", false), ("testkit", true)];
        assert_eq!(found, expected.map(|(name, for_tests)| (name.to_owned(), for_tests)));
    }
}
