//! Streams into containers and out of them.

use std::pin::Pin;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::Error;

pub type StdinStream = Pin<Box<dyn AsyncWrite + Send>>;
pub type StdoutStream = Pin<Box<dyn AsyncRead + Send>>;

/// Which streams somebody wants. With a terminal there is no stderr of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecRequest {
    /// What to run; not looked at by [`super::Runtime::attach`].
    pub command: Vec<String>,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// A process with its streams. Dropping a stream closes it.
pub struct Session {
    pub stdin: Option<StdinStream>,
    pub stdout: Option<StdoutStream>,
    pub stderr: Option<StdoutStream>,
    /// Takes the sizes of a terminal.
    pub resize: Option<mpsc::Sender<TerminalSize>>,
    /// Ends with the process: its exit code, 128 + the signal if one ended it. To an attached session: the container's.
    pub exit: BoxFuture<'static, Result<i32, Error>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// What a command left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    pub stdout: Bytes,
    pub stderr: Bytes,
    pub exit_code: i32,
}

/// Both directions of a connection into a sandbox.
pub trait Forwarded: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Forwarded for T {}

pub type ForwardedPort = Box<dyn Forwarded>;
