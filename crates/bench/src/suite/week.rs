//! A week in virtual time. Whoever can move time is a program of its own, beside this one.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Suite, progress};
use crate::figures;

const LIMIT_MILLISECONDS: f64 = 30_000.0;

pub async fn run(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::WEEK) {
        return Ok(());
    }
    let program = std::env::current_exe()?.with_file_name("examples").join("week");
    if !program.exists() {
        progress("the week is left out: `cargo build --release -p rkube-testkit --example week`");
        return Ok(());
    }
    let ran = tokio::task::spawn_blocking(move || Command::new(program).output()).await??;
    ensure!(ran.status.success(), "the week failed: {}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8(ran.stdout)?;
    let (milliseconds, note) = said.trim().split_once(' ').context("the week says nothing")?;
    let milliseconds: f64 = milliseconds.parse()?;
    progress(&format!("{}: {milliseconds:.0} ms", figures::WEEK.name));
    suite.row(&figures::WEEK, milliseconds, Some(LIMIT_MILLISECONDS), note.to_owned());
    Ok(())
}
