//! The servers of a run, each in a process of its own.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::Suite;
use super::work::Sizes;
use crate::client::{Call, Server};
use crate::process::{Process, Started};

/// A running `rkube up` on a directory of its own.
pub struct Rkube {
    pub server: Server,
    pub kubeconfig: PathBuf,
    pub process: Process,
    pub ready_after: Duration,
}

impl Rkube {
    pub async fn start(suite: &Suite, name: &str, arguments: &[&str]) -> Result<Rkube> {
        std::fs::create_dir(suite.directory.path().join(name))?;
        Rkube::again(suite, name, arguments).await
    }

    /// On the directory that one of this name has left.
    pub async fn again(suite: &Suite, name: &str, arguments: &[&str]) -> Result<Rkube> {
        let directory = suite.directory.path().join(name);
        let mut command = Command::new(&suite.options.rkube);
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.join("data")).args(arguments);
        if !arguments.iter().any(|argument| argument.starts_with("--node=")) {
            command.arg("--node=none");
        }
        let Started { process, line, after } = Process::start(&mut command, &directory.join("log")).await?;
        let kubeconfig = line.split_once("KUBECONFIG=").context("the line of rkube names no kubeconfig")?.1;
        let kubeconfig = PathBuf::from(kubeconfig);
        Ok(Rkube { server: Server::of_kubeconfig(&kubeconfig)?, kubeconfig, process, ready_after: after })
    }
}

pub struct Limit {
    pub server: Server,
    pub address: SocketAddr,
    /// The file with its certificate.
    pub certificate: PathBuf,
    _process: Process,
}

impl Limit {
    pub async fn start(suite: &Suite, sizes: &Sizes) -> Result<Limit> {
        let directory = suite.directory.path();
        let certificate = directory.join("limit.pem");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("limit").arg("--certificate").arg(&certificate);
        let flags = [
            ("--object-bytes", sizes.object),
            ("--pod-bytes", sizes.pod),
            ("--event-bytes", sizes.event),
            ("--small-event-bytes", sizes.small_event),
        ];
        for (flag, bytes) in flags {
            command.arg(flag).arg(bytes.to_string());
        }
        let started = Process::start(&mut command, &directory.join("limit.log")).await?;
        let address = started.line.parse()?;
        let server = Server::trusting(address, &std::fs::read(&certificate)?)?;
        server.once(Call::get("/")).await?;
        Ok(Limit { server, address, certificate, _process: started.process })
    }
}

/// An etcd, where the machine has one.
pub struct Etcd {
    pub url: String,
    _process: Process,
}

impl Etcd {
    pub async fn start(suite: &Suite) -> Result<Option<Etcd>> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return Ok(None);
        }
        let directory = suite.directory.path();
        let (client, peer) = (free_port()?, free_port()?);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(directory.join("etcd-data")).args(["--log-level", "error", "--name", "one"]);
        command.args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)]);
        command.args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)]);
        command.args(["--initial-cluster", &format!("one={}", url(peer))]);
        let process = Process::spawn(command.stdout(Stdio::null()), &directory.join("etcd.log"))?;
        let listening = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", client)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), listening).await.context("etcd does not listen")?;
        Ok(Some(Etcd { url: url(client), _process: process }))
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
