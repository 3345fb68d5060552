//! The project's own rules, each in a file. A rule returns what it found, one line per finding.

mod direction;
mod fields;
mod files;
mod modules;
mod select;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::say;

pub fn run(root: &Path) -> Result<()> {
    say("tidy");
    let sources = Sources::read(root)?;
    let rules = [
        direction::check(root)?,
        modules::check(&sources),
        files::check(&sources),
        fields::check(root, &sources)?,
        select::check(&sources),
    ];
    let findings: Vec<String> = rules.into_iter().flatten().collect();
    for finding in &findings {
        eprintln!("  {finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy found 1 problem"),
        count => bail!("tidy found {count} problems"),
    }
}

/// The Rust files of the project.
struct Sources(Vec<Source>);

struct Source {
    /// From the root, with `/`.
    path: String,
    text: String,
}

impl Source {
    /// A file of unit tests, beside what it tests.
    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/src/tests/") || self.path.ends_with("_tests.rs")
    }
}

impl Sources {
    fn read(root: &Path) -> Result<Sources> {
        let mut sources = Vec::new();
        let mut directories: Vec<PathBuf> = ["crates", "xtask", "fuzz", "benches"].map(|name| root.join(name)).into();
        while let Some(directory) = directories.pop() {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            for entry in entries {
                let path = entry?.path();
                if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                    directories.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text =
                        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                    let path = path.strip_prefix(root)?.display().to_string();
                    sources.push(Source { path, text });
                }
            }
        }
        sources.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Sources(sources))
    }
}
