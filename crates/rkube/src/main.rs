//! Kubernetes in one binary: flags, certificates, wiring. What it wires together lives in the other crates.

#![cfg_attr(test, allow(clippy::unwrap_used))]

/// Small objects are made and dropped by the million: the system's allocator takes a fifth of the time of a write. Without
/// huge pages, of which an idle server would hold mostly air.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod advertise;
mod authority;
mod backup;
mod cli;
mod control;
mod controller_flags;
mod election_flags;
mod envtest;
mod files;
mod flags;
mod fronts;
mod host;
mod identity;
mod image;
mod install;
mod kubeconfig;
mod lifetime;
mod limits;
mod listening;
mod lock;
mod logging;
mod mounts;
mod node_addresses;
mod node_flags;
mod pki;
mod real_node;
mod reset;
mod served;
mod signals;
mod signing_flags;
mod simulated_nodes;
mod stores;
mod tokens;
mod up;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use cli::{Arguments, Command};
use fronts::Front;

fn main() -> ExitCode {
    let started = host::Started::now();
    let mut given = std::env::args_os();
    if let Some(front) = given.next().and_then(|program| Front::of(&program)) {
        return front.run(given.collect());
    }
    let mut given = std::env::args_os().skip(1).peekable();
    // What stands behind a pod starts thousands of times, and forks: nothing else is set up for it.
    if given.next_if(|first| first == rkube_runtime::shim::COMMAND).is_some() {
        return rkube_runtime::shim::main(given, host::unix_nanos);
    }
    let result = match Arguments::parse().command {
        Command::Up(options) => up::run(&options, started),
        Command::Version => print_version(),
        Command::Store(command) => backup::run(command),
        Command::Image(command) => image::run(command),
        Command::Envtest(options) => envtest::run(&options),
        Command::Reset(options) => reset::run(&options),
        Command::Install(options) => install::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The whole chain on one line: each error leaves out what its source says.
            eprintln!("rkube: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_version() -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{}", cli::version_line())?;
    Ok(())
}
