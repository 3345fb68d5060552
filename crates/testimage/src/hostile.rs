//! What a container should not do, and does.

use std::io::Write;
use std::process::Command;

use crate::fail;

/// `eat-memory MEGABYTES`: takes and touches so much, and then sleeps.
pub fn eat_memory(arguments: &[String]) -> i32 {
    let megabytes: usize = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    while eaten.len() < megabytes {
        // A page of zeros would not be taken.
        eaten.push(vec![1; 1 << 20]);
    }
    println!("ate {megabytes} MB");
    crate::process::sleep(&["infinity".to_owned()])
}

/// `eat-disk FILE MEGABYTES`.
pub fn eat_disk(arguments: &[String]) -> i32 {
    let (Some(name), megabytes) = (arguments.first(), arguments.get(1).and_then(|text| text.parse().ok())) else {
        return fail("eat-disk", "a file and a number");
    };
    let megabytes: usize = megabytes.unwrap_or(usize::MAX);
    let written = std::fs::File::create(name).and_then(|mut file| {
        let block = vec![1; 1 << 20];
        (0..megabytes).try_for_each(|_| file.write_all(&block))
    });
    written.map_or_else(|error| fail("eat-disk", error), |()| 0)
}

/// Starts itself twice, and these do the same: as many as there may be. Says when there may be no more.
pub fn fork_bomb(arguments: &[String]) -> i32 {
    let depth: u32 = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let Ok(program) = std::env::current_exe() else {
        return fail("fork-bomb", "who am I?");
    };
    let mut children = Vec::new();
    for _ in 0..2 {
        if depth == 0 {
            break;
        }
        match Command::new(&program).args(["fork-bomb", &(depth - 1).to_string()]).spawn() {
            Ok(child) => children.push(child),
            Err(error) => eprintln!("fork-bomb: {error}"),
        }
    }
    crate::process::sleep(&["infinity".to_owned()])
}

/// `write-log LINES [LENGTH]`: numbered lines, as fast as it goes; 0 lines: one without an end. Then it ends.
pub fn write_log(arguments: &[String]) -> i32 {
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<usize>().ok());
    let (lines, length) = (number(0).unwrap_or(10), number(1).unwrap_or(0));
    let mut output = std::io::BufWriter::with_capacity(64 << 10, std::io::stdout());
    if lines == 0 {
        while output.write_all(&[b'x'; 4096]).is_ok() {}
        return 1;
    }
    for line in 0..lines {
        if writeln!(output, "line {line} {}", "x".repeat(length)).is_err() {
            return 1;
        }
    }
    i32::from(output.flush().is_err())
}

/// Ends by a signal: SIGABRT.
pub fn crash(_: &[String]) -> i32 {
    std::process::abort()
}
