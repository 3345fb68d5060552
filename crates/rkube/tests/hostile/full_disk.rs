//! A disk with nothing left: the server starts on it, because only then can anything be deleted.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rkube_testkit::{Process, TIMEOUT};

use crate::client::Client;

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
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.place.path()).status();
    }
}

#[test]
fn a_server_starts_on_a_full_disk() {
    let Some(disk) = Disk::mount("4m") else { return };
    let data = disk.place.path().join("data");
    let log = tempfile::NamedTempFile::new().unwrap();
    let (process, client) = up(&data, log.path());
    let body = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"a":"{}"}}}}"#, "x".repeat(10_000));
    for name in ["a", "b"] {
        assert_eq!(client.request("POST", MAPS, &[], body(name).as_bytes()).unwrap().status, 201);
    }
    end(process);
    disk.fill();
    // On another port: the kubeconfig would have to be written anew.
    let (process, client) = up(&data, log.path());
    let said = std::fs::read_to_string(log.path()).unwrap();
    assert!(said.contains("the kubeconfig is of an earlier start: use it with kubectl --server=https://"), "{said}");
    assert_eq!(client.get(&format!("{MAPS}/a")).status, 200);
    assert_eq!(client.get("/readyz").status, 200);
    // Once there is room again all is well; what happens before that is the store's to say.
    let refused = client.request("POST", MAPS, &[], body("c").as_bytes()).unwrap();
    assert!([201, 500].contains(&refused.status), "{refused:?}");
    std::fs::remove_file(disk.place.path().join("ballast")).unwrap();
    assert_eq!(client.request("DELETE", &format!("{MAPS}/a"), &[], b"").unwrap().status, 200);
    end(process);
    let said = std::fs::read_to_string(log.path()).unwrap();
    assert!(!said.contains("panicked") && !said.contains("cannot watch the store"), "{said}");
}

fn up(data: &Path, log: &Path) -> (Process, Client) {
    let log = std::fs::OpenOptions::new().append(true).open(log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
    command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).stderr(Stdio::from(log));
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
