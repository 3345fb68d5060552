//! A connection to the daemon, in both directions, without waiting.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use super::protocol::{Answer, DESCRIPTORS_MAX, Request, decode, encode};

/// What a peer that does not read may have waiting; beyond, its connection is closed.
const OUTGOING_MAX_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 16 << 10;

pub(super) struct Connection {
    socket: OwnedFd,
    received: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    outgoing: VecDeque<u8>,
    /// Goes with the byte at this place of what is outgoing: always the first, as one with a descriptor waits for the rest.
    outgoing_descriptor: Option<OwnedFd>,
    pub(super) watches: bool,
    /// To be closed as soon as everything is sent.
    pub(super) closing: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            received: Vec::new(),
            descriptors: VecDeque::new(),
            outgoing: VecDeque::new(),
            outgoing_descriptor: None,
            watches: false,
            closing: false,
        }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Reads what is there. An error: the connection is over.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; READ_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let result = rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
        let count = match result {
            Ok(message) if message.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(message) => message.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if self.descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.received.extend_from_slice(&bytes[..count]);
        Ok(())
    }

    pub(super) fn next_request(&mut self) -> io::Result<Option<Request>> {
        decode(&mut self.received)
    }

    pub(super) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    pub(super) fn answer(&mut self, answer: &Answer, descriptor: Option<OwnedFd>) -> io::Result<()> {
        let bytes = encode(answer)?;
        if self.outgoing.len() + bytes.len() > OUTGOING_MAX_BYTES {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if descriptor.is_some() {
            // Only the first answer of a connection carries one.
            if !self.outgoing.is_empty() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.outgoing_descriptor = descriptor;
        }
        self.outgoing.extend(bytes);
        self.send()
    }

    /// Sends what the socket takes.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors: Vec<BorrowedFd<'_>> = self.outgoing_descriptor.iter().map(AsFd::as_fd).collect();
            if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let (bytes, _) = self.outgoing.as_slices();
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut ancillary, flags) {
                Ok(count) => {
                    self.outgoing.drain(..count);
                    self.outgoing_descriptor = None;
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
