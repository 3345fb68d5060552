//! What a child tells the shim while it gets ready: one message each, over a pair of sockets that ends with the execution.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};

use super::ProcessUser;

/// A message is a line of text at most; a longer one is cut by its sender.
const MESSAGE_MAX_BYTES: usize = 32 << 10;
const TEXT_MAX_BYTES: usize = 4 << 10;

#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// Comes with the other side of its terminal.
    Terminal,
    /// All is done but the execution: if nothing follows, the program runs.
    Ready {
        user: ProcessUser,
    },
    Failed {
        text: String,
    },
}

#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// The shim's end and the child's.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Channel(one), Channel(other)))
    }

    pub fn send(&self, report: &Report, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = serde_json::to_vec(report)?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("no room for a descriptor"));
        }
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    pub fn fail(&self, text: &str) {
        let mut text = text.to_owned();
        while text.len() > TEXT_MAX_BYTES {
            text.pop();
        }
        let _nobody_listens = self.send(&Report::Failed { text }, None);
    }

    /// The next message; None: the other side is closed.
    pub fn receive(&self) -> io::Result<Option<(Report, Option<OwnedFd>)>> {
        let mut bytes = vec![0; MESSAGE_MAX_BYTES];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
        if message.bytes == 0 {
            return Ok(None);
        }
        let mut descriptor = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                descriptor = descriptors.next();
            }
        }
        Ok(Some((serde_json::from_slice(&bytes[..message.bytes])?, descriptor)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
