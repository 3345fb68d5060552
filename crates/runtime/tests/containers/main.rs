//! Real containers, as root on this host: below directories and cgroups of the tests' own, which are gone afterwards.
//!
//! This program is also the shim: it is executed again for each pod.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod basics;
mod hostile;
mod security;
mod speed;
mod streams;
mod world;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;

/// No test takes that long unless it waits for something that never comes.
const HANGING: std::time::Duration = std::time::Duration::from_secs(180);

/// A test by its name.
pub type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// Lists test functions under their names.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub const ALL: &[$crate::Test] = &[$((concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))),*];
    };
}

#[allow(clippy::disallowed_methods, reason = "tests run in the real time of the kernel")]
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == rkube_runtime::shim::COMMAND).is_some() {
        return rkube_runtime::shim::main(arguments, now);
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: containers take root");
        return if std::env::var_os("CI").is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let tests = [basics::ALL, security::ALL, streams::ALL, hostile::ALL, speed::ALL].concat();
    let mut failed = Vec::new();
    for (name, test) in tests {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        println!("test {name} ...");
        let run = || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async { tokio::time::timeout(HANGING, test()).await.expect("it hangs") });
        };
        if std::panic::catch_unwind(run).is_err() {
            failed.push(name);
        }
    }
    println!("failed: {failed:?}");
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
