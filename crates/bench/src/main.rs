//! How fast the binary is. `rkube-bench run` starts `rkube` and the limit server, drives both with one client over TLS
//! in one run, and prints a table. `cargo xtask bench` builds what it needs and calls it.
//!
//! No figure is asserted: machines are noisy, and a table that a person reads beside the limit of the same minute says
//! more than a threshold.

/// The binary's own: clusters in this process are measured as they are there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod arguments;
mod client;
mod definitions;
mod figures;
mod limit;
mod load;
mod objects;
mod process;
mod suite;
mod table;
mod validation;
mod watchers;

use std::process::ExitCode;

use arguments::Command;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = match arguments::parse(&words) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("rkube-bench: {error:#}\n\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rkube-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // On a signal the work is dropped, and every process and directory that it holds goes with it.
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            result = work(command) => result,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
            _ = terminate.recv() => anyhow::bail!("terminated"),
        }
    })
}

async fn work(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Limit(options) => limit::serve(options).await,
        Command::Run(options) => Box::pin(suite::run(options)).await,
        Command::Load(options) => Box::pin(suite::load_only(options)).await,
    }
}
