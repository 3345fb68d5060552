//! As much of a shell as tests of a node need: lists, pipes, redirections, variables, substitution, `if`, `while`, `for`,
//! `trap`. Functions, patterns, arithmetic and jobs are not among it.

mod parse;
mod run;

use std::io::{BufRead, IsTerminal, Write};

use self::run::Shell;

/// `sh [-c SCRIPT [NAME ARGUMENT…]]`, `sh FILE`; otherwise lines from stdin.
pub fn run(arguments: &[String]) -> i32 {
    let arguments: Vec<String> =
        arguments.iter().skip_while(|word| word.starts_with('-') && !word.contains('c')).cloned().collect();
    match arguments.as_slice() {
        [flag, script, rest @ ..] if flag.starts_with('-') => {
            Shell::new(rest.get(1..).unwrap_or_default()).script(script)
        }
        [file, rest @ ..] => match std::fs::read_to_string(file) {
            Ok(script) => Shell::new(rest).script(&script),
            Err(error) => {
                eprintln!("sh: {file}: {error}");
                127
            }
        },
        [] => interactive(),
    }
}

/// Runs what `trap` said for this signal, if it said anything.
pub fn trapped(signal: i32) -> bool {
    let traps = run::TRAPS.lock().map(|traps| traps.clone()).unwrap_or_default();
    match traps.iter().rev().find(|(known, _)| *known == signal) {
        Some((_, script)) => {
            Shell::new(&[]).script(script);
            true
        }
        None => false,
    }
}

fn interactive() -> i32 {
    let mut shell = Shell::new(&[]);
    let prompt = std::io::stdin().is_terminal();
    let mut lines = std::io::stdin().lock().lines();
    loop {
        if prompt {
            print!("/ # ");
            let _ = std::io::stdout().flush();
        }
        let Some(Ok(line)) = lines.next() else {
            return shell.status;
        };
        shell.script(&line);
    }
}
