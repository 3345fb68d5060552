//! A real etcd, for the store over it.

use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::Process;
use crate::tools;
use crate::wait::eventually;

/// A running etcd with a directory that vanishes with it.
pub struct Etcd {
    url: String,
    process: Process,
    _directory: TempDir,
}

impl Etcd {
    /// `None`: there is no etcd, and the test is skipped.
    pub fn start() -> Option<Etcd> {
        let program = tools::etcd()?;
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (client, peer) = (free_address(), free_address());
        let (url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(directory.path());
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
        command.args(["--initial-cluster", &format!("default={peer_url}")]);
        let process = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        eventually("etcd answers", || TcpStream::connect(&client).map_err(|error| error.to_string()));
        Some(Etcd { url, process, _directory: directory })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops it where it stands: it keeps its connections and answers nobody.
    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }
}

/// Free when it was looked at: good enough on a machine that runs tests.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound address").to_string()
}
