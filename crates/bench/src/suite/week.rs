//! A week in virtual time. Whoever can move time is a program of its own, beside this one.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Suite, progress};
use crate::figures::{self, Work};

pub async fn run(suite: &mut Suite) -> Result<()> {
    let program = std::env::current_exe()?.with_file_name("examples").join("week");
    measure(suite, &figures::WEEK, &program, None, 30_000.0).await?;
    measure(suite, &figures::WEEK_OF_FAULTS, &program, Some("faults"), 120_000.0).await
}

async fn measure(
    suite: &mut Suite,
    work: &'static Work,
    program: &Path,
    argument: Option<&str>,
    limit_milliseconds: f64,
) -> Result<()> {
    if !suite.wants(work) {
        return Ok(());
    }
    if !program.exists() {
        progress("the week is left out: `cargo build --release -p rkube-testkit --example week`");
        return Ok(());
    }
    let mut command = Command::new(program);
    command.args(argument);
    let ran = tokio::task::spawn_blocking(move || command.output()).await??;
    ensure!(ran.status.success(), "the week failed: {}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8(ran.stdout)?;
    let (milliseconds, note) = said.trim().split_once(' ').context("the week says nothing")?;
    let milliseconds: f64 = milliseconds.parse()?;
    progress(&format!("{}: {milliseconds:.0} ms", work.name));
    suite.row(work, milliseconds, Some(limit_milliseconds), note.to_owned());
    Ok(())
}
