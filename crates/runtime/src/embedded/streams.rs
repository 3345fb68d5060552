//! Streams into containers and out of them, and into the network of sandboxes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::FutureExt;
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::Inner;
use super::client::{self, Connection};
use super::sandbox::internal;
use super::terminal::Terminal;
use crate::api::{
    Error, ExecOutput, ExecRequest, ForwardedPort, NamespaceMode, Result, Session, StdinStream, StdoutStream,
    TerminalSize,
};
use crate::shim::{Answer, Request, Streams};

/// What is kept of each stream of a command that runs to its end.
const OUTPUT_MAX_BYTES: usize = 16 << 20;
/// How long output is waited for after the command's end: a process that it left behind may hold the stream open.
const OUTPUT_PATIENCE: Duration = Duration::from_millis(500);
/// Sizes of a terminal that wait to be set.
const SIZES_MAX: usize = 8;
/// How long a connection into a sandbox may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// Our ends of the pipes of a process.
#[derive(Default)]
struct Ends {
    stdin: Option<StdinStream>,
    stdout: Option<StdoutStream>,
    stderr: Option<StdoutStream>,
}

impl Inner {
    pub(super) async fn exec(&self, id: &str, request: ExecRequest) -> Result<Session> {
        let container = self.container(id)?;
        let mut connection = client::connect(&self.run_directory_of(&container)?).await?;
        let wanted = |wanted: bool| wanted && !request.tty;
        let streams =
            Streams { stdin: wanted(request.stdin), stdout: wanted(request.stdout), stderr: wanted(request.stderr) };
        let (mut ends, theirs) = pipes(streams).map_err(internal("make pipes"))?;
        let (id, arguments, terminal) = (id.to_owned(), request.command.clone(), request.tty);
        send(&connection, &Request::Exec { id, arguments, terminal, streams }, theirs).await?;
        expect_running(&mut connection).await?;
        let mut resize = None;
        if request.tty {
            let descriptor = connection.take_descriptor();
            let descriptor = descriptor.ok_or_else(|| Error::Internal("the shim sent no terminal".to_owned()))?;
            let terminal = Terminal::new(descriptor).map_err(internal("use the terminal"))?;
            ends.stdin = request.stdin.then(|| Box::pin(terminal.clone()) as StdinStream);
            ends.stdout = request.stdout.then(|| Box::pin(terminal.clone()) as StdoutStream);
            let (sizes, mut wanted) = mpsc::channel(SIZES_MAX);
            tokio::spawn(async move {
                while let Some(size) = wanted.recv().await {
                    terminal.resize(size);
                }
            });
            resize = Some(sizes);
        }
        let Ends { stdin, stdout, stderr } = ends;
        Ok(Session { stdin, stdout, stderr, resize, exit: exit(connection).boxed() })
    }

    pub(super) async fn attach(&self, id: &str, request: ExecRequest) -> Result<Session> {
        let container = self.container(id)?;
        let config = &container.file.config;
        let mut connection = client::connect(&self.run_directory_of(&container)?).await?;
        let streams = Streams {
            stdin: request.stdin && config.stdin,
            stdout: request.stdout,
            stderr: request.stderr && !config.tty,
        };
        let (ends, theirs) = pipes(streams).map_err(internal("make pipes"))?;
        send(&connection, &Request::Attach { id: id.to_owned(), streams }, theirs).await?;
        expect_running(&mut connection).await?;
        let resize = config.tty.then(|| {
            let (sizes, wanted) = mpsc::channel(SIZES_MAX);
            tokio::spawn(hand_on_sizes(wanted, connection.stream()));
            sizes
        });
        let Ends { stdin, stdout, stderr } = ends;
        Ok(Session { stdin, stdout, stderr, resize, exit: exit(connection).boxed() })
    }

    pub(super) async fn exec_sync(&self, id: &str, command: Vec<String>, timeout: Duration) -> Result<ExecOutput> {
        let request = ExecRequest { command, stdout: true, stderr: true, ..Default::default() };
        let run = self.run_to_end(id, request);
        if timeout.is_zero() {
            return run.await;
        }
        let late = |_| {
            let text = format!("failed to exec in container: timeout {timeout:?} exceeded: context deadline exceeded");
            Error::TimedOut(text)
        };
        // What is dropped ends the connection, and with it the process.
        tokio::time::timeout(timeout, run).await.map_err(late)?
    }

    async fn run_to_end(&self, id: &str, request: ExecRequest) -> Result<ExecOutput> {
        let Session { stdout, stderr, exit, .. } = self.exec(id, request).await?;
        let (mut stdout_kept, mut stderr_kept) = (BytesMut::new(), BytesMut::new());
        let exit_code = {
            let reading = async { tokio::join!(collect(stdout, &mut stdout_kept), collect(stderr, &mut stderr_kept)) };
            tokio::pin!(reading, exit);
            let mut is_read = false;
            let code = loop {
                tokio::select! {
                    biased;
                    _ = &mut reading, if !is_read => is_read = true,
                    code = &mut exit => break code?,
                }
            };
            if !is_read {
                let _a_process_left_behind_holds_it = tokio::time::timeout(OUTPUT_PATIENCE, reading).await;
            }
            code
        };
        Ok(ExecOutput { stdout: stdout_kept.freeze(), stderr: stderr_kept.freeze(), exit_code })
    }

    pub(super) async fn port_forward(self: &Arc<Self>, id: &str, port: u16) -> Result<ForwardedPort> {
        let not_found = || Error::NotFound(format!("failed to find sandbox {id:?} in store: not found"));
        let sandbox = self.sandbox(id).ok_or_else(not_found)?;
        let pause = sandbox.pause().filter(|_| sandbox.is_ready());
        let pause = pause.ok_or_else(|| Error::WrongState(format!("sandbox container {id:?} is not running")))?;
        let host = sandbox.file.lock().config.namespaces.network == NamespaceMode::Node;
        let mut problems = Vec::new();
        for (name, address) in
            [("IPv4", IpAddr::from(Ipv4Addr::LOCALHOST)), ("IPv6", IpAddr::from(Ipv6Addr::LOCALHOST))]
        {
            let namespace = (!host).then_some(pause);
            let connected = tokio::time::timeout(CONNECT_PATIENCE, connect(namespace, SocketAddr::new(address, port)));
            match connected.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => return Ok(Box::new(stream)),
                Err(error) => problems.push(format!("{name}: {error}")),
            }
        }
        let problems = problems.join(" ");
        Err(Error::Internal(format!("failed to connect to localhost:{port} inside namespace {id:?}, {problems}")))
    }
}

/// Makes a socket in the network namespace of a process, and connects it.
async fn connect(namespace: Option<u32>, address: SocketAddr) -> io::Result<TcpStream> {
    let Some(process) = namespace else { return TcpStream::connect(address).await };
    // A thread of its own, which ends: no other work is ever done in that namespace.
    let (made, socket) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("rkube-forward".to_owned()).spawn(move || {
        let make = || -> io::Result<OwnedFd> {
            let namespace = std::fs::File::open(format!("/proc/{process}/ns/net"))?;
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind))?;
            let family = match address {
                SocketAddr::V4(_) => rustix::net::AddressFamily::INET,
                SocketAddr::V6(_) => rustix::net::AddressFamily::INET6,
            };
            let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
            Ok(rustix::net::socket_with(family, rustix::net::SocketType::STREAM, flags, None)?)
        };
        let _nobody_waits = made.send(make());
    })?;
    let socket = socket.await.map_err(io::Error::other)??;
    TcpSocket::from_std_stream(std::net::TcpStream::from(socket)).connect(address).await
}

async fn send(connection: &Connection, request: &Request, theirs: Vec<OwnedFd>) -> Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = theirs.iter().map(AsFd::as_fd).collect();
    connection.send(request, &descriptors).await.map_err(internal("ask the pod's shim"))
}

async fn expect_running(connection: &mut Connection) -> Result<()> {
    match connection.expect().await? {
        Answer::Running => Ok(()),
        _ => Err(Error::Internal("the pod's shim said something else".to_owned())),
    }
}

/// Waits for the end of what a connection stands for. Dropped, the connection goes, and the process with it.
async fn exit(mut connection: Connection) -> Result<i32> {
    loop {
        if let Answer::Exited { code } = connection.expect().await? {
            return Ok(code);
        }
    }
}

async fn hand_on_sizes(mut wanted: mpsc::Receiver<TerminalSize>, stream: Arc<tokio::net::UnixStream>) {
    while let Some(TerminalSize { width, height }) = wanted.recv().await {
        if client::send(&stream, &Request::Resize { width, height }, &[]).await.is_err() {
            return;
        }
    }
}

/// Pipes for what is wanted: our ends, and those for the shim in their order.
fn pipes(wanted: Streams) -> io::Result<(Ends, Vec<OwnedFd>)> {
    let mut ends = Ends::default();
    let mut theirs = Vec::new();
    let nonblocking = |descriptor: &OwnedFd| -> io::Result<()> {
        let flags = rustix::fs::fcntl_getfl(descriptor)?;
        Ok(rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK)?)
    };
    if wanted.stdin {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        nonblocking(&write)?;
        ends.stdin = Some(Box::pin(Sender::from_owned_fd(write)?));
        theirs.push(read);
    }
    for (wanted, end) in [(wanted.stdout, &mut ends.stdout), (wanted.stderr, &mut ends.stderr)] {
        if wanted {
            let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            nonblocking(&read)?;
            *end = Some(Box::pin(Receiver::from_owned_fd(read)?));
            theirs.push(write);
        }
    }
    Ok((ends, theirs))
}

/// Reads to the end, and keeps the beginning.
async fn collect(stream: Option<impl AsyncRead + Unpin>, kept: &mut BytesMut) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let room = OUTPUT_MAX_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
}
