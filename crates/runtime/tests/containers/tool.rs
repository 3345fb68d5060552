//! The only program in the containers of these tests: it has no libraries, and does what its first argument says.

use std::io::{Read, Write};
use std::process::exit;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |number: usize| arguments.get(number).map(String::as_str).unwrap_or_default();
    match argument(1) {
        "echo" => println!("{}", arguments[2..].join(" ")),
        "complain" => eprintln!("{}", arguments[2..].join(" ")),
        "exit" => exit(argument(2).parse().unwrap()),
        "sleep" => std::thread::sleep(Duration::from_secs(argument(2).parse().unwrap())),
        "cat" => print!("{}", std::fs::read_to_string(argument(2)).unwrap_or_else(|error| format!("error: {error}\n"))),
        "list" => {
            let mut names: Vec<_> = std::fs::read_dir(argument(2))
                .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
                .unwrap_or_else(|error| vec![format!("error: {error}")]);
            names.sort();
            println!("{}", names.join(" "));
        }
        "write" => match std::fs::write(argument(2), argument(3)) {
            Ok(()) => println!("written"),
            Err(error) => println!("error: {error}"),
        },
        "copy" => {
            std::io::copy(&mut std::io::stdin(), &mut std::io::stdout()).unwrap();
        }
        "environment" => std::env::vars().for_each(|(name, value)| println!("{name}={value}")),
        "directory" => println!("{}", std::env::current_dir().unwrap().display()),
        // Ends at SIGTERM, as does anything that is not the first process of its namespace.
        "wait" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        "forks" => forks(),
        "eat" => eat(),
        "lines" => flood(b"all work and no play makes a long log\n"),
        "endless" => flood(b"x"),
        "orphan" => {
            std::process::Command::new("/tool").args(["sleep", "1000"]).spawn().unwrap();
            println!("left");
        }
        "call" => call(argument(2)),
        "status" => status(argument(2)),
        "listen" => listen(argument(2).parse().unwrap()),
        "read-line" => {
            let mut byte = [0];
            let mut line = Vec::new();
            while std::io::stdin().read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
                line.push(byte[0]);
            }
            println!("got {}", String::from_utf8_lossy(&line).trim_end());
        }
        other => {
            eprintln!("unknown: {other}");
            exit(64);
        }
    }
}

fn forks() {
    let mut made = 0;
    // The children stay, so that the bound is reached.
    while made < 100_000 {
        match std::process::Command::new("/tool").args(["sleep", "1000"]).spawn() {
            Ok(_) => made += 1,
            Err(error) => {
                println!("stopped after {made}: {error}");
                break;
            }
        }
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn eat() {
    let mut kept = Vec::new();
    loop {
        kept.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&kept);
    }
}

fn flood(text: &[u8]) {
    let block = text.repeat((64 << 10) / text.len());
    let mut output = std::io::stdout().lock();
    while output.write_all(&block).is_ok() {}
}

/// Makes a system call that filters are about, and says what became of it.
fn call(name: &str) {
    unsafe extern "C" {
        fn syscall(number: i64, ...) -> i64;
    }
    let number = match name {
        "unshare" => 272,
        "clone3" => 435,
        "getpid" => 39,
        // None that any kernel knows.
        "future" => 999,
        _ => panic!("unknown call {name}"),
    };
    let result = unsafe { syscall(number, 0x1000_0000_i64, 0_i64, 0_i64) };
    if result < 0 {
        println!("{}", std::io::Error::last_os_error());
    } else {
        println!("done");
    }
}

/// What the kernel says of this process.
fn status(prefix: &str) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    text.lines().filter(|line| line.starts_with(prefix)).for_each(|line| println!("{}", line.replace('\t', " ")));
}

fn listen(port: u16) {
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    println!("listening");
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        stream.write_all(&bytes[..count]).unwrap();
    }
}
