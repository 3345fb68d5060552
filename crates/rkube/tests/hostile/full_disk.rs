//! A disk with nothing left: the server starts on it and deletes, because that is what makes room again.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rkube_testkit::{Process, TIMEOUT};

use crate::client::{Answer, Client};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A file system of its own, gone with this.
struct Disk {
    place: tempfile::TempDir,
}

impl Disk {
    /// `None`: it cannot be had, and the test is skipped.
    fn mount(size: &str) -> Option<Disk> {
        let place = tempfile::tempdir().unwrap();
        let options = format!("size={size},mode=0700");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(place.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(Disk { place }),
            other => {
                eprintln!("skipped: no file system can be mounted: {other:?}");
                None
            }
        }
    }

    fn fill(&self) {
        let mut file = std::fs::File::create(self.place.path().join("ballast")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        while file.write_all(&[0]).is_ok() {}
    }

    fn empty(&self) {
        std::fs::remove_file(self.place.path().join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.place.path()).status();
    }
}

#[test]
fn objects_can_be_deleted_on_a_full_disk() {
    let Some(disk) = Disk::mount("32m") else { return };
    let data = disk.place.path().join("data");
    let log = tempfile::NamedTempFile::new().unwrap();
    let (process, client) = up(&data, log.path());
    for name in ["a", "b", "c"] {
        assert_eq!(create(&client, name, 10_000).status, 201);
    }
    disk.fill();
    assert_refused(&client);
    delete(&client, "a");
    assert_refused(&client);
    assert_eq!(client.get(&format!("{MAPS}/b")).status, 200);
    end(process);

    let (process, client) = up(&data, log.path());
    assert_eq!(client.get("/readyz").status, 200);
    assert_eq!(client.get(&format!("{MAPS}/a")).status, 404, "what was deleted stays so");
    assert_refused(&client);
    delete(&client, "b");
    end(process);

    let (process, client) = up(&data, log.path());
    assert_eq!(client.get(&format!("{MAPS}/b")).status, 404);
    assert_eq!(client.get(&format!("{MAPS}/c")).status, 200);
    disk.empty();
    create_in_time(&client, "d");
    delete(&client, "c");
    end(process);
    let said = std::fs::read_to_string(log.path()).unwrap();
    assert!(!said.contains("panicked") && !said.contains("cannot watch the store"), "{said}");
}

/// The disk is full when the process begins, and was not when the one before ended.
#[test]
fn objects_can_be_deleted_after_a_start_on_a_full_disk() {
    let Some(disk) = Disk::mount("32m") else { return };
    let data = disk.place.path().join("data");
    let log = tempfile::NamedTempFile::new().unwrap();
    let (process, client) = up(&data, log.path());
    for name in ["a", "b"] {
        assert_eq!(create(&client, name, 10_000).status, 201);
    }
    end(process);
    disk.fill();
    let (process, client) = up(&data, log.path());
    delete(&client, "a");
    assert_refused(&client);
    end(process);
    let (process, client) = up(&data, log.path());
    assert_eq!(client.get(&format!("{MAPS}/a")).status, 404);
    assert_eq!(client.get(&format!("{MAPS}/b")).status, 200);
    end(process);
}

/// There never was room for the store's reserve.
#[test]
fn a_server_starts_on_a_small_full_disk() {
    let Some(disk) = Disk::mount("4m") else { return };
    let data = disk.place.path().join("data");
    let log = tempfile::NamedTempFile::new().unwrap();
    let (process, client) = up(&data, log.path());
    assert_eq!(create(&client, "a", 10_000).status, 201);
    end(process);
    disk.fill();
    // On another port: the kubeconfig would have to be written anew.
    let (process, client) = up(&data, log.path());
    let said = std::fs::read_to_string(log.path()).unwrap();
    assert!(said.contains("the kubeconfig is of an earlier start: use it with kubectl --server=https://"), "{said}");
    assert_eq!(client.get(&format!("{MAPS}/a")).status, 200);
    assert_eq!(client.get("/readyz").status, 200);
    disk.empty();
    create_in_time(&client, "b");
    delete(&client, "a");
    end(process);
}

/// Nobody frees anything but by deleting objects.
#[test]
fn what_is_deleted_makes_room() {
    let Some(disk) = Disk::mount("32m") else { return };
    let data = disk.place.path().join("data");
    let log = tempfile::NamedTempFile::new().unwrap();
    let (process, client) = up(&data, log.path());
    for index in 0..30 {
        assert_eq!(create(&client, &format!("large{index}"), 200_000).status, 201);
    }
    disk.fill();
    assert_refused(&client);
    for index in 0..30 {
        delete(&client, &format!("large{index}"));
    }
    create_in_time(&client, "small");
    end(process);
    let (process, client) = up(&data, log.path());
    assert_eq!(client.get(&format!("{MAPS}/small")).status, 200);
    assert_eq!(client.get(&format!("{MAPS}/large0")).status, 404);
    end(process);
}

fn create(client: &Client, name: &str, size: usize) -> Answer {
    let body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"a":"{}"}}}}"#, "x".repeat(size));
    client.request("POST", MAPS, &[], body.as_bytes()).unwrap()
}

fn assert_refused(client: &Client) {
    let refused = create(client, "refused", 10_000);
    assert_eq!(refused.status, 500, "{refused:?}");
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("the disk is full") && text.contains("delete objects"), "{text}");
}

/// The server notices within a moment that there is room again.
fn create_in_time(client: &Client, name: &str) {
    for _ in 0..TIMEOUT.as_secs() * 10 {
        if create(client, name, 10_000).status == 201 {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("there is room, and nobody noticed");
}

fn delete(client: &Client, name: &str) {
    let answer = client.request("DELETE", &format!("{MAPS}/{name}"), &[], b"").unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn up(data: &Path, log: &Path) -> (Process, Client) {
    let log = std::fs::OpenOptions::new().append(true).open(log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
    command.args(["up", "--node=none", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).stderr(Stdio::from(log));
    let process = Process::spawn_with_lines(&mut command);
    let line = process.next_line(TIMEOUT).expect("it gets ready");
    let address = line.split("https://").nth(1).unwrap().split(' ').next().unwrap();
    let client = Client::at(data, address);
    (process, client)
}

fn end(mut process: Process) {
    process.signal(rustix::process::Signal::TERM);
    assert!(process.wait(TIMEOUT).expect("it ends").success());
}
