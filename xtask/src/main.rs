//! The project's own commands: `cargo xtask lint | test | tidy | bench | conformance | suites | simulate`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bench;
mod clients;
mod command;
mod conformance;
mod lint;
mod simulate;
mod suites;
mod test;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  lint          formatting, clippy and tidy; what a change must pass
  test [ARG...] fetch and build the clients that tests drive, then `cargo test --workspace ARG...`
  tidy          the project's own rules: crate directions, file sizes, module headers, field names
  bench [ARG...] the release binary beside a server that only answers: `--quick` takes a minute, `--only TEXT` some rows
  conformance [ARG...] upstream's conformance tests against the release binary: `--list FILE` or their names
  suites [ARG...] other people's Go test suites on `rkube envtest`: `controller-runtime`, `kubebuilder`, `freshness`
  simulate [ARG...] a cluster on a seed in which everything goes wrong: `--seed N --days 7`; a fresh seed, two hours";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, [])) if command == "lint" => lint::run(root()),
        Some((command, rest)) if command == "test" => test::run(root(), rest),
        Some((command, [])) if command == "tidy" => tidy::run(root()),
        Some((command, rest)) if command == "bench" => bench::run(root(), rest),
        Some((command, rest)) if command == "conformance" => conformance::run(root(), rest),
        Some((command, rest)) if command == "suites" => suites::run(root(), rest),
        Some((command, rest)) if command == "simulate" => simulate::run(root(), rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
