//! What a process knows of itself, and how it ends.

use std::io::IsTerminal;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::fail;

/// As a process does that is not the first one. `trap`, `ignore-term` and programs that a shell starts see to it themselves.
pub fn end_when_told(name: &str) {
    if matches!(name, "trap" | "ignore-term") {
        return;
    }
    on_signals(|signal| {
        if !crate::shell::trapped(signal) {
            std::process::exit(128 + signal);
        }
    });
}

/// `trap [SECONDS]`: says which signal it got, waits so long, and ends well.
pub fn trap(arguments: &[String]) -> i32 {
    let wait: f64 = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    println!("waiting");
    on_signals(move |signal| {
        println!("got signal {signal}");
        std::thread::sleep(Duration::from_secs_f64(wait));
        println!("done");
        std::process::exit(0);
    });
    forever()
}

/// Says so, and goes on.
pub fn ignore_term(_: &[String]) -> i32 {
    println!("waiting");
    on_signals(|signal| println!("ignoring signal {signal}"));
    forever()
}

pub fn sleep(arguments: &[String]) -> i32 {
    let seconds = match arguments.first().map(String::as_str) {
        Some("infinity" | "inf") => return forever(),
        Some(text) => text.trim_end_matches('s').parse::<f64>(),
        None => return fail("sleep", "missing operand"),
    };
    match seconds {
        Ok(seconds) => {
            std::thread::sleep(Duration::from_secs_f64(seconds.max(0.0)));
            0
        }
        Err(error) => fail("sleep", error),
    }
}

pub fn echo(arguments: &[String]) -> i32 {
    match arguments.split_first() {
        Some((first, rest)) if first == "-n" => print!("{}", rest.join(" ")),
        _ => println!("{}", arguments.join(" ")),
    }
    0
}

/// Seconds since 1970.
#[allow(clippy::disallowed_methods)]
pub fn date(_: &[String]) -> i32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    println!("{}.{:09}", now.as_secs(), now.subsec_nanos());
    0
}

pub fn env(_: &[String]) -> i32 {
    for (name, value) in std::env::vars_os() {
        println!("{}={}", name.to_string_lossy(), value.to_string_lossy());
    }
    0
}

pub fn exit_with(arguments: &[String]) -> i32 {
    arguments.first().and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub fn hostname(_: &[String]) -> i32 {
    println!("{}", rustix::system::uname().nodename().to_string_lossy());
    0
}

pub fn id(_: &[String]) -> i32 {
    let mut groups: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
    groups.sort_unstable();
    let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    println!("uid={user} gid={group} groups={}", groups.join(","));
    0
}

pub fn pwd(_: &[String]) -> i32 {
    match std::env::current_dir() {
        Ok(directory) => println!("{}", directory.display()),
        Err(error) => return fail("pwd", error),
    }
    0
}

pub fn tty(_: &[String]) -> i32 {
    let terminal = std::io::stdin().is_terminal();
    println!("{}", if terminal { "a terminal" } else { "not a tty" });
    i32::from(!terminal)
}

/// `stty size`.
pub fn terminal_size(_: &[String]) -> i32 {
    match rustix::termios::tcgetwinsize(std::io::stdin()) {
        Ok(size) => println!("{} {}", size.ws_row, size.ws_col),
        Err(error) => return fail("stty", error),
    }
    0
}

fn on_signals(act: impl Fn(i32) + Send + 'static) {
    let Ok(mut signals) = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT]) else {
        return;
    };
    std::thread::spawn(move || signals.forever().for_each(act));
}

fn forever() -> i32 {
    loop {
        std::thread::park();
    }
}
