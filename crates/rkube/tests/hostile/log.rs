//! A log that nobody takes any more.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use rkube_testkit::{Process, TIMEOUT, eventually};
use rustix::process::Signal;

use crate::client::Client;

/// Where the log goes is gone: that is no reason to panic, but one to say that not all is well.
#[test]
fn a_log_that_cannot_be_written_is_told_and_survived() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
    command.args(["up", "--node=none", "--listen", "127.0.0.1:0", "--store", "memory", "--data-dir"]).arg(&data);
    command.env("RUST_LOG", "rkube_apiserver=debug").stderr(writer);
    let mut rkube = Process::spawn_with_lines(&mut command);
    let ready = rkube.next_line(TIMEOUT).expect("it gets ready");
    let address = ready.split_once("https://").unwrap().1.split_whitespace().next().unwrap().to_owned();
    let client = Client::at(&data, &address);
    assert_eq!(client.get("/livez").status, 200);
    drop(reader);
    let lives = eventually("the log is found broken", || {
        // Something to log.
        let mut stranger = TcpStream::connect(&address).unwrap();
        let _ = stranger.write_all(b"this is no handshake\r\n\r\n");
        let _ = stranger.read_to_end(&mut Vec::new());
        let lives = client.get("/livez");
        if lives.status == 500 { Ok(lives) } else { Err(format!("{}", lives.status)) }
    });
    assert!(String::from_utf8_lossy(&lives.body).contains("[-]log failed: reason withheld\n"));
    assert_eq!(client.get("/api/v1/namespaces").status, 200);
    rkube.signal(Signal::TERM);
    assert_eq!(rkube.wait(TIMEOUT).expect("it ends").code(), Some(0));
}
