//! The suite against a real etcd, which is started for it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;
use crate::contract::{Batch, Change};

/// An etcd of our own; it ends with the test.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) client: String,
    peer: String,
    directory: tempfile::TempDir,
}

impl Server {
    /// `None`: there is no etcd on this machine.
    pub(super) fn start() -> Option<Server> {
        Server::start_with("100ms")
    }

    pub(super) fn start_with(progress_interval: &str) -> Option<Server> {
        let (client, peer) = (free_address(), free_address());
        let directory = tempfile::tempdir().unwrap();
        let child = command(&client, &peer, directory.path(), progress_interval)?.spawn().unwrap();
        Some(Server { child, client, peer, directory })
    }

    pub(super) async fn connect(&self) -> Etcd {
        let endpoints = vec![self.client.clone()];
        self.connect_with(&EtcdOptions { endpoints, ..EtcdOptions::default() }).await
    }

    pub(super) async fn connect_with(&self, options: &EtcdOptions) -> Etcd {
        for _ in 0..200 {
            if let Ok(store) = Etcd::connect(options).await {
                return store;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("etcd did not come up");
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn restart(&mut self) {
        let again = command(&self.client, &self.peer, self.directory.path(), "100ms");
        self.child = again.unwrap().spawn().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_address() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

/// `None`: there is no etcd on this machine.
fn command(client: &str, peer: &str, directory: &Path, progress_interval: &str) -> Option<Command> {
    // The test command says where it unpacked one; else the one on the PATH will do.
    let program = std::env::var_os("RKUBE_TEST_ETCD").unwrap_or_else(|| "etcd".into());
    if Command::new(&program).arg("--version").stdout(Stdio::null()).status().is_err() {
        assert!(std::env::var("CI").is_err(), "there is no etcd: neither RKUBE_TEST_ETCD nor the PATH has one");
        eprintln!("there is no etcd: its tests are left out (`cargo xtask test` fetches one)");
        return None;
    }
    let mut command = Command::new(program);
    command
        .arg("--data-dir")
        .arg(directory.join("data"))
        .args(["--listen-client-urls", client, "--advertise-client-urls", client])
        .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
        .args(["--initial-cluster", &format!("default={peer}"), "--max-request-bytes", "8388608"])
        .args(["--experimental-watch-progress-notify-interval", progress_interval])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Some(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_the_suite() {
    let Some(server) = Server::start() else {
        return;
    };
    let store = Arc::new(server.connect().await);
    crate::suite::run(async || store.clone() as Arc<dyn Store>).await;
    store.shutdown().await;
    assert!(store.grant_lease(5).await.is_err());
}

#[derive(Clone, Default)]
struct Count(Arc<parking_lot::Mutex<Vec<Revision>>>);

impl Sink for Count {
    fn deliver(&mut self, batch: &Batch) {
        self.0.lock().extend(batch.events.iter().map(|event| event.current.mod_revision));
    }

    fn end(&mut self, why: Error) {
        panic!("the watch ended: {why}");
    }
}

/// A watch outlives its etcd, and misses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_survive_a_restart() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let store = server.connect().await;
    let seen = Count::default();
    let _watch = store.watch("/a/", None, Box::new(seen.clone())).await.unwrap();
    let mut written = Vec::new();
    for round in 0..30 {
        if round % 10 == 5 {
            server.kill();
            let write = Write { key: "/a/lost".into(), expect: Expect::Anything, change: Change::Delete, guard: None };
            assert!(matches!(store.write(write).await, Err(Error::Unavailable(_))));
            server.restart();
        }
        let revision = loop {
            let change = Change::Put { value: round.to_string().into(), lease: None, note: None };
            let write =
                Write { key: format!("/a/{round}").as_str().into(), expect: Expect::Absent, change, guard: None };
            match store.write(write).await {
                Ok(revision) => break revision,
                Err(Error::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error}"),
            }
        };
        written.push(revision);
    }
    for _ in 0..100 {
        if seen.0.lock().len() == written.len() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(*seen.0.lock(), written);
}

/// Both sides show a certificate, made for the test with the `openssl` command.
#[tokio::test]
async fn speaks_tls() {
    let directory = tempfile::tempdir().unwrap();
    let Some(()) = make_certificates(directory.path()) else {
        return;
    };
    let (client, peer) = (free_address().replace("http:", "https:"), free_address());
    let file = |name: &str| directory.path().join(name).display().to_string();
    let tls = ["--cert-file", &file("leaf.pem"), "--key-file", &file("leaf.key"), "--client-cert-auth"];
    let Some(mut command) = command(&client, &peer, directory.path(), "10m") else {
        return;
    };
    let child = command.args(tls).args(["--trusted-ca-file", &file("ca.pem")]).spawn().unwrap();
    let read = |name: &str| Some(std::fs::read(file(name)).unwrap());
    let options = EtcdOptions {
        endpoints: vec![client.clone()],
        certificate_authority: read("ca.pem"),
        certificate: read("leaf.pem"),
        key: read("leaf.key"),
        ..EtcdOptions::default()
    };
    let server = Server { child, client, peer, directory };
    let store = server.connect_with(&options).await;
    assert_eq!(store.revision().await.unwrap(), 1);
    let stranger = EtcdOptions { certificate: None, key: None, ..options };
    assert!(Etcd::connect(&stranger).await.is_err());
}

fn make_certificates(directory: &Path) -> Option<()> {
    let script = "set -e
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca
        openssl req -newkey rsa:2048 -nodes -keyout leaf.key -out leaf.csr -subj /CN=leaf
        printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' > extensions
        openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out leaf.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(directory).stderr(Stdio::null()).status();
    if !made.unwrap().success() {
        eprintln!("there is no openssl to make certificates with: left out");
        return None;
    }
    Some(())
}

#[tokio::test]
async fn what_never_fits_is_not_to_be_tried_again() {
    let Some(server) = Server::start() else { return };
    let store = server.connect().await;
    // Beyond what etcd takes, and what gRPC does for it.
    for bytes in [8_500_000, 10_000_000] {
        let change = Change::Put { value: vec![b'x'; bytes].into(), lease: None, note: None };
        let written = store.write(Write { key: "large".into(), expect: Expect::Absent, change, guard: None }).await;
        assert!(matches!(written, Err(Error::NoSpace(_))), "{bytes}: {written:?}");
    }
}
