//! `cargo xtask test`: the clients, then the tests, then a summary.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::clients::{self, Outcome};
use crate::command::{self, cargo, say};

/// `arguments` go to `cargo test`.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let clients = clients::prepare(root);
    let missing: Vec<_> = clients.iter().filter(|client| matches!(client.outcome, Outcome::Missing(_))).collect();
    let in_ci = std::env::var("CI").as_deref() == Ok("true");
    if in_ci && !missing.is_empty() {
        summarise(&clients);
        bail!("a client is missing, and CI tests with all of them");
    }
    say("cargo test");
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--quiet"]).args(arguments);
    for client in &clients {
        if let Outcome::Found(path) = &client.outcome {
            command.env(client.variable, path);
        }
    }
    let result = command::run(&mut command);
    summarise(&clients);
    result?;
    if arguments.is_empty() {
        outside(root)?;
    }
    say("all tests passed");
    Ok(())
}

/// The operator of somebody else, who has the test cluster as a dependency.
fn outside(root: &Path) -> Result<()> {
    say("cargo test in examples/outside");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut command = cargo(&root.join("examples/outside"));
    command::run(command.env("CARGO_TARGET_DIR", root.join(target)).args(["test", "--quiet"]))
}

fn summarise(clients: &[clients::Client]) {
    for client in clients {
        match &client.outcome {
            Outcome::Found(path) => say(&format!("  {:<12} {}", client.name, path.display())),
            Outcome::Missing(why) => say(&format!("  {:<12} missing, its tests were skipped: {why}", client.name)),
        }
    }
}
