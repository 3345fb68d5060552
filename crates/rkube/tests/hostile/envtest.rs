//! A test environment of rkube's own programs, as controller-runtime starts it, and what a test may do to it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rkube_testkit::{Etcd, Finished, Process, TIMEOUT, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, Watch};
use crate::start;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The directory that `rkube envtest` prints, made once for all tests.
fn assets() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envtest");
        let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
        let printed = Finished::run(command.args(["envtest", "--dir"]).arg(base), "").expect_success().stdout;
        PathBuf::from(printed.trim_end())
    })
}

/// Certificates and keys, by whomever: those of an `rkube up`.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        let (rkube, directory) = (start(), tempfile::tempdir().unwrap());
        std::fs::create_dir(directory.path().join("pki")).unwrap();
        for name in ["ca.crt", "admin.crt", "admin.key", "apiserver.crt", "apiserver.key", "sa.key", "sa.pub"] {
            let file = Path::new("pki").join(name);
            std::fs::copy(rkube.data_directory().join(&file), directory.path().join(file)).unwrap();
        }
        Files(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join("pki").join(name).display().to_string()
    }

    fn client(&self, address: &str) -> Client {
        Client::at(self.0.path(), address)
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn etcd(directory: &Path, address: &str) -> Command {
    let mut command = Command::new(assets().join("etcd"));
    let url = format!("http://{address}");
    command.arg(format!("--data-dir={}", directory.display())).args([
        &format!("--advertise-client-urls={url}"),
        &format!("--listen-client-urls={url}"),
        &format!("--listen-peer-urls=http://{}", free_address()),
        "--unsafe-no-fsync=true",
    ]);
    command
}

/// With the flags that controller-runtime gives it.
fn kube_apiserver(files: &Files, address: &str, etcd_url: &str) -> Command {
    let mut command = Command::new(assets().join("kube-apiserver"));
    let (host, port) = address.split_once(':').unwrap();
    command.args([
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        &format!("--bind-address={host}"),
        &format!("--cert-dir={}", files.path("")),
        &format!("--client-ca-file={}", files.path("ca.crt")),
        "--disable-admission-plugins=ServiceAccount",
        &format!("--etcd-servers={etcd_url}"),
        &format!("--secure-port={port}"),
        &format!("--service-account-issuer=https://{address}/"),
        &format!("--service-account-key-file={}", files.path("sa.pub")),
        &format!("--service-account-signing-key-file={}", files.path("sa.key")),
        "--service-cluster-ip-range=10.0.0.0/24",
    ]);
    command
}

struct Server {
    process: Process,
    client: Client,
}

impl Server {
    fn start(files: &Files, etcd_url: &str) -> Server {
        let address = free_address();
        let mut command = kube_apiserver(files, &address, etcd_url);
        let process = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()));
        let client = files.client(&address);
        let nobody = client.without_certificate();
        for path in ["/healthz", "/readyz"] {
            eventually("the API server is well", || match nobody.request("GET", path, &[], b"") {
                Ok(answer) if answer.status == 200 => Ok(()),
                other => Err(format!("{other:?}")),
            });
        }
        Server { process, client }
    }

    fn create(&self, name: &str) -> u16 {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        self.client.request("POST", MAPS, &[], body.as_bytes()).unwrap().status
    }

    fn end(&mut self) {
        self.process.signal(Signal::TERM);
        let status = self.process.wait(TIMEOUT).expect("it ends");
        // One that could not end in good order and in time says so by its exit code.
        assert!(status.success(), "{status}");
    }
}

struct Store {
    url: String,
    process: Process,
    directory: tempfile::TempDir,
}

impl Store {
    fn start() -> Store {
        let (directory, address) = (tempfile::tempdir().unwrap(), free_address());
        let process = Process::spawn(etcd(directory.path(), &address).stdin(Stdio::null()).stdout(Stdio::null()));
        eventually("etcd is well", || match get(&address, "/health") {
            Some(answer) if answer.contains(r#""health":"true""#) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        Store { url: format!("http://{address}"), process, directory }
    }
}

fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_server_that_is_started_again_finds_its_objects() {
    let files = Files::new();
    let mut store = Store::start();
    let mut server = Server::start(&files, &store.url);
    assert_eq!(server.create("kept"), 201);
    let mut watch = Watch::start(&server.client, &format!("{MAPS}?watch=true")).unwrap().unwrap();
    assert!(watch.next_event().unwrap().is_some());
    server.end();
    while watch.next_event().is_ok_and(|event| event.is_some()) {}

    let mut again = Server::start(&files, &store.url);
    assert_eq!(again.create("kept"), 409);
    again.process.signal(Signal::KILL);
    again.process.wait(TIMEOUT).unwrap();
    let mut third = Server::start(&files, &store.url);
    assert_eq!((third.create("kept"), third.create("more")), (409, 201));
    third.end();
    store.process.signal(Signal::TERM);
    assert!(store.process.wait(TIMEOUT).expect("it ends").success());
    assert!(store.directory.path().join("rkube").is_dir(), "the store is in the data directory of etcd");
}

#[test]
fn a_server_at_a_real_etcd_keeps_its_objects_there() {
    let Some(etcd) = Etcd::start() else { return };
    let files = Files::new();
    let mut first = Server::start(&files, etcd.url());
    assert_eq!(first.create("kept"), 201);
    // Both are there at once: the store is not theirs alone.
    let mut second = Server::start(&files, etcd.url());
    assert_eq!(second.create("kept"), 409);
    first.end();
    second.end();
}

#[test]
fn a_killed_parent_leaves_nothing_behind() {
    let files = Files::new();
    let (directory, etcd_address, address) = (tempfile::tempdir().unwrap(), free_address(), free_address());
    let line = |command: Command| {
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        format!("{} >/dev/null 2>&1 & echo $!", words.join(" "))
    };
    let script = [
        line(etcd(directory.path(), &etcd_address)),
        line(kube_apiserver(&files, &address, &format!("http://{etcd_address}"))),
        "wait".to_owned(),
    ];
    let test = Process::spawn_with_lines(Command::new("sh").args(["-c", &script.join("\n")]));
    let started: Vec<PathBuf> = (0..2)
        .map(|_| Path::new("/proc").join(test.next_line(TIMEOUT).expect("the number of a process")).join("exe"))
        .collect();
    let client = files.client(&address);
    eventually("the API server is well", || match client.request("GET", "/readyz", &[], b"") {
        Ok(answer) if answer.status == 200 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let mut watch = Watch::start(&client, &format!("{MAPS}?watch=true")).unwrap().unwrap();
    assert!(started.iter().all(|process| process.exists()));
    kill_process(Pid::from_raw(test.id().try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    eventually("they end", || if started.iter().any(|it| it.exists()) { Err("one is left".into()) } else { Ok(()) });
    while watch.next_event().is_ok_and(|event| event.is_some()) {}
}

#[test]
fn many_environments_run_at_once() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (files, store) = (Files::new(), Store::start());
                let mut server = Server::start(&files, &store.url);
                assert_eq!(server.create("own"), 201, "each has a store of its own");
                server.end();
            });
        }
    });
}

#[test]
fn flags_are_known_or_an_error() {
    let run =
        |program: &str, arguments: &[&str]| Finished::run(Command::new(assets().join(program)).args(arguments), "");
    let help = run("kube-apiserver", &["--help"]).expect_success().stdout;
    assert!(help.lines().any(|line| line.trim_start().starts_with("--etcd-servers")), "{help}");
    assert!(!help.contains("insecure-port"));
    assert!(run("etcd", &["--help"]).expect_success().stdout.contains("\n      --unsafe-no-fsync"));
    run("kube-apiserver", &["--version"]).expect_success().says("Kubernetes v1.36.");
    for (program, flag, said) in [
        ("kube-apiserver", "--insecure-port=0", "Error: unknown flag: --insecure-port\n"),
        ("kube-apiserver", "--audit-log-path=-", "--audit-log-path=- is refused"),
        ("kube-apiserver", "--encryption-provider-config=x", "is refused"),
        ("kube-apiserver", "--authorization-mode=Webhook", "Webhook"),
        ("kube-apiserver", "--feature-gates=NoSuchGate=true", "NoSuchGate"),
        ("kube-apiserver", "--disable-admission-plugins=X", "disable-admission-plugins plugin \"X\" is unknown"),
        ("kube-apiserver", "--goaway-chance=0.1", "--goaway-chance has no effect"),
        ("etcd", "--no-such-flag", "unknown flag: --no-such-flag"),
        ("etcd", "--client-cert-auth", "is refused"),
    ] {
        let files = tempfile::tempdir().unwrap();
        let more = format!("--cert-dir={}", files.path().display());
        let arguments: &[&str] = if program == "etcd" { &[flag] } else { &[flag, &more, "--secure-port=0"] };
        let finished = run(program, arguments).expect_failure();
        assert!(finished.stderr.contains(said), "{flag}: {}", finished.stderr);
    }
}
