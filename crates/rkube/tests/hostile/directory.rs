//! Data directories that cannot be used, and disks that are full: a clear message and an exit code, or a clear
//! `Status`, and never a lost write.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rkube_testkit::{Finished, Process, TIMEOUT};
use rustix::process::Signal;

use crate::client::Client;
use crate::{is_well, start_durable};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_directory_that_cannot_be_used_is_refused_with_the_reason() {
    let mut rkube = start_durable();
    rkube.terminate();
    type Row = (&'static str, fn(&Path), &'static [&'static str]);
    let table: &[Row] = &[
        ("newer", |data| overwrite(&newest_log(data), 8, &[9]), &["it is of format 9", "use a newer one"]),
        ("magic", |data| overwrite(&newest_log(data), 0, b"nonsense"), &["it does not begin as such a file does"]),
        ("header", |data| overwrite(&newest_log(data), 20, b"XX"), &["its header is damaged"]),
        (
            "middle",
            |data| overwrite(&newest_log(data), length(&newest_log(data)) / 2, b"XXXX"),
            &["it is damaged at byte", "restore the directory from a backup"],
        ),
        ("authority", |data| std::fs::write(data.join("pki/ca.crt"), "x").unwrap(), &["ca.crt is damaged"]),
        ("key", |data| std::fs::remove_file(data.join("pki/ca.key")).unwrap(), &["ca.key is missing"]),
    ];
    for (name, damage, says) in table {
        let copy = rkube.scratch_directory().join(name);
        copy_directory(&rkube.data_directory(), &copy);
        damage(&copy);
        let refused = up(&copy).expect_failure();
        assert_eq!(refused.status.code(), Some(1), "{name}");
        for part in *says {
            assert!(refused.stderr.contains(part), "{name}: {}", refused.stderr);
        }
        assert_eq!((refused.stdout.as_str(), refused.stderr.contains("panicked")), ("", false), "{name}");
    }
    rkube.restart();
    is_well(&rkube);
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below"), PathBuf::from("/proc/nowhere")] {
        let refused = up(&path).expect_failure();
        assert_eq!(refused.status.code(), Some(1));
        assert!(refused.stderr.contains("cannot make the directory"), "{}", refused.stderr);
    }
}

#[test]
fn a_write_that_was_cut_short_is_forgotten_and_said() {
    let mut rkube = start_durable();
    let client = Client::of(&rkube);
    let create = |name: &str| {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        assert_eq!(client.request("POST", MAPS, &[], body.as_bytes()).unwrap().status, 201);
    };
    create("first");
    let log = newest_log(&rkube.data_directory());
    let whole = length(&log);
    create("last");
    rkube.kill9();
    // Inside the write that came next: that of the test, or one of the server's own before it.
    std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(whole + 10).unwrap();
    rkube.restart();
    let client = Client::of(&rkube);
    let status = |name: &str| client.get(&format!("{MAPS}/{name}")).status;
    assert_eq!((status("first"), status("last")), (200, 404));
    assert!(rkube.stderr().contains("cutting off a write that was not finished"));
    is_well(&rkube);
}

/// A limit on the size of files stands in for a full disk: writes fail in the same place.
#[test]
fn a_full_disk_refuses_writes_and_keeps_the_rest() {
    let mut rkube = start_durable();
    rkube.terminate();
    let script = "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"";
    let plain = rkube.command();
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(plain.get_program()).args(plain.get_args()).stderr(Stdio::null());
    let process = Process::spawn_with_lines(&mut command);
    let line = process.next_line(TIMEOUT).expect("it gets ready");
    let address = line.split("https://").nth(1).unwrap().split(' ').next().unwrap();
    let client = Client::at(&rkube.data_directory(), address);
    let body = |name: usize| format!(r#"{{"metadata":{{"name":"c{name}"}},"data":{{"a":"{}"}}}}"#, "x".repeat(20_000));
    let create = |name| client.request("POST", MAPS, &[], body(name).as_bytes()).unwrap();
    let answers: Vec<_> = (0..40).map(create).collect();
    let refused = answers.iter().find(|answer| answer.status != 201).expect("the disk is full");
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (500, Some("InternalError")));
    assert!(refused.json()["message"].as_str().unwrap().contains("no space left for the store"));
    assert_eq!(client.get("/readyz").status, 200);
    let there = |client: &Client| -> Vec<bool> {
        (0..answers.len()).map(|name| client.get(&format!("{MAPS}/c{name}")).status == 200).collect()
    };
    let acknowledged: Vec<bool> = answers.iter().map(|answer| answer.status == 201).collect();
    assert_eq!(there(&client), acknowledged);
    process.signal(Signal::KILL);
    drop(process);
    rkube.restart();
    assert_eq!(there(&Client::of(&rkube)), acknowledged);
    is_well(&rkube);
}

fn up(directory: &Path) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
    command.args(["up", "--node=none", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory);
    Finished::run(&mut command, "")
}

fn newest_log(data: &Path) -> PathBuf {
    let entries = std::fs::read_dir(data.join("store")).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("log-");
    entries.filter(is_log).max().expect("a log")
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

fn overwrite(file: &Path, at: u64, bytes: &[u8]) {
    std::fs::OpenOptions::new().write(true).open(file).unwrap().write_all_at(bytes, at).unwrap();
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy_directory(&entry.path(), &target),
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), target).unwrap()),
            _ => {}
        }
    }
}
