//! What a change must pass before anybody looks at it.

use std::path::Path;

use anyhow::Result;

use crate::command::{self, cargo, exists, say};
use crate::tidy;

pub fn run(root: &Path) -> Result<()> {
    say("rustfmt");
    command::run(cargo(root).args(["fmt", "--all", "--check"]))?;
    say("clippy");
    command::run(cargo(root).args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    if exists("cargo-deny") {
        say("cargo deny");
        command::run(cargo(root).args(["deny", "check", "bans", "licenses", "sources"]))?;
    }
    tidy::run(root)
}
