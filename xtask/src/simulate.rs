//! `cargo xtask simulate`: a run of a seed with everything that goes wrong, for as long as it is told.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo, say};

const USAGE: &str = "--seed N, --seeds N, --days N, --hours N or --trace FILE";

pub fn run(root: &Path, words: &[String]) -> Result<()> {
    let mut command = cargo(root);
    command.args(["test", "--release", "-p", "rkube-testkit", "--test", "faults", "--"]);
    command.args(["--exact", "seeds::one_seed", "--nocapture"]);
    let mut hours: u64 = 0;
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} what?"))?;
        let number = || value.parse::<u64>().with_context(|| format!("{word} {value} is no number"));
        match word {
            "--seed" => drop(command.env("RKUBE_SEED", number()?.to_string())),
            "--seeds" => drop(command.env("RKUBE_SEEDS", number()?.to_string())),
            "--days" => hours += 24 * number()?,
            "--hours" => hours += number()?,
            "--trace" => drop(command.env("RKUBE_TRACE", std::path::absolute(value)?)),
            other => bail!("{other} is not {USAGE}"),
        }
    }
    if hours > 0 {
        command.env("RKUBE_HOURS", hours.to_string());
    }
    say("simulate");
    command::run(&mut command)
}
