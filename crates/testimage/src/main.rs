//! One program that is all that is in the image for tests: called by the names that it has there (`sh`, `sleep`, `cat`), or
//! with the name of a tool as its first argument.
//!
//! It ends at once when it is told to (SIGTERM, SIGINT), also as the first process of a container, where the kernel
//! would not do it; `trap` and `ignore-term` are for the other cases. What it cannot do it says on stderr, and exits with
//! 127, as a shell does.

#![allow(clippy::print_stdout)]

mod archive;
mod files;
mod hostile;
mod network;
mod process;
mod shell;

use std::process::exit;

/// Arguments without the name; what it returns is the exit code.
pub type Tool = fn(&[String]) -> i32;

/// Every tool by its name.
pub const TOOLS: &[(&str, Tool)] = &[
    ("cat", files::cat),
    ("connect", network::connect),
    ("crash", hostile::crash),
    ("date", process::date),
    ("eat-disk", hostile::eat_disk),
    ("eat-memory", hostile::eat_memory),
    ("echo", process::echo),
    ("env", process::env),
    ("exit", process::exit_with),
    ("false", |_| 1),
    ("fork-bomb", hostile::fork_bomb),
    ("get", network::get),
    ("hostname", process::hostname),
    ("id", process::id),
    ("ignore-term", process::ignore_term),
    ("ln", files::link),
    ("ls", files::list),
    ("mkdir", files::make_directory),
    ("pwd", process::pwd),
    ("rm", files::remove),
    ("serve", network::serve),
    ("sh", shell::run),
    ("sleep", process::sleep),
    ("stat", files::stat),
    ("stty", process::terminal_size),
    ("tar", archive::run),
    ("test", files::test),
    ("[", files::test),
    ("touch", files::touch),
    ("trap", process::trap),
    ("true", |_| 0),
    ("tty", process::tty),
    ("wc", files::count),
    ("write-log", hostile::write_log),
];

fn main() {
    let arguments: Vec<String> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let called = arguments.first().and_then(|name| name.rsplit('/').next()).unwrap_or_default();
    let (name, rest) = match find(called) {
        Some(_) => (called.to_owned(), arguments.get(1..).unwrap_or_default()),
        None => (arguments.get(1).cloned().unwrap_or_default(), arguments.get(2..).unwrap_or_default()),
    };
    let Some(tool) = find(&name) else {
        eprintln!("{name}: not found; there are: {}", TOOLS.map_names());
        exit(127);
    };
    process::end_when_told(&name);
    exit(tool(rest));
}

pub fn find(name: &str) -> Option<Tool> {
    TOOLS.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool)
}

/// Says what went wrong.
pub fn fail(tool: &str, error: impl std::fmt::Display) -> i32 {
    eprintln!("{tool}: {error}");
    1
}

trait Names {
    fn map_names(&self) -> String;
}

impl Names for &[(&str, Tool)] {
    fn map_names(&self) -> String {
        self.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    }
}
