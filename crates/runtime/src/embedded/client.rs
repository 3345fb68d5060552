//! The daemon's side of the conversation with a shim: a connection for each thing that is asked.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::api::{Error, Result};
use crate::shim::{Answer, DESCRIPTORS_MAX, Problem, Request, SOCKET_FILE, decode, encode};

const READ_BYTES: usize = 16 << 10;

pub(super) struct Connection {
    stream: Arc<UnixStream>,
    received: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Connection {
    /// Connects to the shim of a run directory.
    pub(super) async fn open(directory: &Path) -> io::Result<Self> {
        let (_held, path) = short_path(directory)?;
        let stream = Arc::new(UnixStream::connect(path).await?);
        Ok(Self { stream, received: Vec::new(), descriptors: VecDeque::new() })
    }

    /// For those who only write.
    pub(super) fn stream(&self) -> Arc<UnixStream> {
        self.stream.clone()
    }

    pub(super) async fn send(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(&self.stream, request, descriptors).await
    }

    /// The next answer; None: the shim is gone.
    pub(super) async fn next(&mut self) -> io::Result<Option<Answer>> {
        loop {
            if let Some(answer) = decode(&mut self.received)? {
                return Ok(Some(answer));
            }
            let result = self.stream.async_io(Interest::READABLE, || receive(&self.stream)).await;
            let (bytes, descriptors) = match result {
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                result => result?,
            };
            if bytes.is_empty() {
                return Ok(None);
            }
            self.descriptors.extend(descriptors);
            self.received.extend(bytes);
        }
    }

    pub(super) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// The next answer, if it is a good one.
    pub(super) async fn expect(&mut self) -> Result<Answer> {
        match self.next().await {
            Ok(Some(Answer::Failed { kind, text })) => Err(error(kind, text)),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Error::Internal("the pod's shim is gone".to_owned())),
            Err(error) => Err(Error::Internal(format!("the pod's shim: {error}"))),
        }
    }
}

/// Asks one thing, and waits for its answer.
pub(super) async fn ask(directory: &Path, request: &Request) -> Result<Answer> {
    let mut connection = connect(directory).await?;
    connection.send(request, &[]).await.map_err(|error| Error::Internal(format!("ask the pod's shim: {error}")))?;
    connection.expect().await
}

pub(super) async fn connect(directory: &Path) -> Result<Connection> {
    Connection::open(directory).await.map_err(|error| Error::WrongState(format!("the pod's sandbox is gone: {error}")))
}

fn error(kind: Problem, text: String) -> Error {
    match kind {
        Problem::NotFound => Error::NotFound(text),
        Problem::WrongState => Error::WrongState(text),
        Problem::CannotStart => Error::StartFailed(text),
        Problem::Internal => Error::Internal(text),
    }
}

pub(super) async fn send(stream: &UnixStream, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = encode(request)?;
    let mut sent = 0;
    while sent < bytes.len() {
        let rest = &bytes[sent..];
        let first = if sent == 0 { descriptors } else { &[] };
        sent += stream.async_io(Interest::WRITABLE, || send_some(stream, rest, first)).await?;
    }
    Ok(())
}

fn send_some(stream: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?)
}

fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; READ_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message =
        rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    bytes.truncate(message.bytes);
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok((bytes, descriptors))
}

/// A path of the socket that fits into an address, however deep its directory is; good while the descriptor is held.
pub(super) fn short_path(directory: &Path) -> io::Result<(OwnedFd, String)> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let held = rustix::fs::open(directory, flags, rustix::fs::Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{SOCKET_FILE}", held.as_raw_fd());
    Ok((held, path))
}
